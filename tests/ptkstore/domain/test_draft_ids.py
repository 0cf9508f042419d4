"""The id of a draft names its window."""

from __future__ import annotations

import pytest

from ptkstore.domain.draft_ids import draft_id, window_of
from ptkstore.domain.streams.windows import WindowId


def test_the_window_of_a_draft_is_read_from_its_id() -> None:
    window = WindowId("rides", 12)
    assert draft_id(window, "ab-1") == "rides.12.ab-1"
    assert window_of(draft_id(window, "ab-1")) == window
    assert window_of(draft_id(window, "rollback-rides.speed-3")) == window


@pytest.mark.parametrize("text", ["", "rides", "rides.x.ab", "rides.-1.ab", "rides..1.ab"])
def test_what_no_program_named_is_of_no_window(text: str) -> None:
    assert window_of(text) is None
