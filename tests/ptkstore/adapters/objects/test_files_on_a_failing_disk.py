"""A disk that fails at any one moment: what is told of a file is true, and asking again ends well."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from ptkstore.adapters.objects.local import LocalPlace
from ptkstore.adapters.objects.names import UNFINISHED
from ptkstore.errors import OutcomeUnknown, Unavailable
from tests.support.failing_disk import CALLS, fail_at

ACTS: dict[str, Callable[[LocalPlace], object]] = {
    "create": lambda place: place.create("a/new", b"new"),
    "create what is there": lambda place: place.create("a/old", b"new"),
    "create in a new folder": lambda place: place.create("c/d/new", b"new"),
    "replace": lambda place: place.replace("a/old", b"new"),
    "probe": lambda place: place.probe("a/probe"),
    "remove": lambda place: place.remove("a/old"),
    "delete": lambda place: place.delete("b"),
}


def lasting(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file() and not path.name.startswith(UNFINISHED))
    return {str(path): path.read_bytes() for path in files}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("call", CALLS)
def test_what_was_done_is_not_told_as_not_done(
    act: str, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1, 40):
        root = tmp_path / str(number)
        place = LocalPlace(root, private=False)
        for path in ("a/old", "b/one", "b/two"):
            place.create(path, b"old")
        before = lasting(root)
        with monkeypatch.context() as patched:
            count = fail_at(patched, call, number)
            with suppress(OutcomeUnknown):
                try:
                    ACTS[act](place)
                except Unavailable:
                    assert lasting(root) == before
        ACTS[act](place)
        if count[0] < number:
            return
    pytest.fail("the disk failed at every call")


def test_a_name_that_may_not_last_is_an_unknown_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = LocalPlace(tmp_path, private=False)
    place.create("a/old", b"old")
    for act in ("create", "replace", "remove"):
        with monkeypatch.context() as patched:
            # the first sync of a writer is of the content, the second of the name
            fail_at(patched, "fsync", 1 if act == "remove" else 2)
            with pytest.raises(OutcomeUnknown, match="EIO"):
                ACTS[act](place)
    assert (place.find(""), place.read("a/new")) == (("a/new",), b"new")
    assert not place.create("a/new", b"new")  # whoever looks finds it
