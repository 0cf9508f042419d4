"""What the manifest of a version tells of how its values were made, as tags and as sentences."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptkstore.domain.accounting.assurances import UNKNOWN, Assurance, Assured
from ptkstore.domain.versions.provenance import Provenance, Shown, provenance_in

PTK = "taxi.speed"
FIRST = {"index": 2, "start": "2026-01-07T00:00:00+00:00", "end": "2026-01-08T00:00:00+00:00"}
LAST = {"index": 4, "start": "2026-01-09T00:00:00+00:00", "end": "2026-01-10T00:00:00+00:00"}
MANIFEST: dict[str, Any] = {
    "guarantee": {
        "epsilon": 0.1,
        "delta": 1e-9,
        "privacy_unit": "user-in-window",
        "unit_column": "rider",
        "max_rows_per_unit": 3,
        "assurance": "asserted",
    },
    "oldest_contributing_window": FIRST,
    "newest_contributing_window": LAST,
    "verdict": {"metric": "accuracy", "target": 0.7, "confidence": 0.9, "look": 2, "decision": "accept"},
}


def test_a_manifest_is_told_whole() -> None:
    made = provenance_in(MANIFEST, PTK)
    assert made.assured == Assured(Assurance.ASSERTED, "taxi")
    assert made.shown.document() == {"metric": "accuracy", "target": 0.7, "confidence": 0.9, "looks": 2}
    assert made.tags() == {
        "dp.epsilon": "0.1",
        "dp.delta": "1e-09",
        "dp.assurance": "asserted",
        "dp.asserted_by": "taxi",
        "dp.privacy_unit": "user-in-window",
        "dp.unit_column": "rider",
        "dp.max_rows_per_unit": "3",
        "dp.oldest_window": "2026-01-07T00:00:00+00:00/2026-01-08T00:00:00+00:00",
        "dp.newest_window": "2026-01-09T00:00:00+00:00/2026-01-10T00:00:00+00:00",
    }
    assert made.sentence() == (
        "Privacy unit: one user in one window (column rider, at most 3 rows per window). "
        "Windows: up to 2026-01-10T00:00:00+00:00."
    )


def test_what_a_manifest_does_not_tell_is_told_as_unknown() -> None:
    made = provenance_in({}, PTK)
    assert made == Provenance(assured=UNKNOWN, shown=Shown())
    assert set(made.tags().values()) == {"unknown"}
    assert made.sentence() == "Privacy unit: unknown. Windows: unknown."
    assert set(made.shown.document().values()) == {None}


def test_a_loss_of_nothing_is_not_told_as_unknown() -> None:
    tags = provenance_in({"guarantee": {"epsilon": 0.1, "delta": 0.0}}, PTK).tags()
    assert (tags["dp.epsilon"], tags["dp.delta"]) == ("0.1", "0.0")


@pytest.mark.parametrize(
    ("guarantee", "unit"),
    [
        ({"privacy_unit": "record"}, "one record"),
        ({"privacy_unit": "user", "unit_column": "rider"}, "one user (column rider)"),
        ({"privacy_unit": "household"}, "unknown"),
    ],
)
def test_a_privacy_unit_is_told_in_words(guarantee: dict[str, Any], unit: str) -> None:
    assert provenance_in({"guarantee": guarantee}, PTK).sentence().startswith(f"Privacy unit: {unit}. ")


@pytest.mark.parametrize("window", [None, {"index": 4}, {"start": "2026-01-07T00:00:00+00:00"}])
def test_a_window_of_which_one_end_is_unknown_is_unknown(window: dict[str, Any] | None) -> None:
    made = provenance_in({**MANIFEST, "newest_contributing_window": window}, PTK)
    assert made.tags()["dp.newest_window"] == "unknown"
    assert made.sentence().endswith("Windows: unknown.")


@given(
    st.text(st.characters(categories=["L", "N", "Zs", "Po"]), max_size=30), st.sampled_from([{}, MANIFEST])
)
def test_a_description_that_says_it_already_stays_as_it_is(text: str, manifest: dict[str, Any]) -> None:
    made = provenance_in(manifest, PTK)
    once = made.described(text)
    assert made.described(once) == once
    assert once.startswith(text.rstrip(". "))
    assert once.endswith(made.sentence())
    assert made.assured.sentence() in once
