"""Checkpoints: one file for each PTK, overwritten, that only its own key opens."""

from __future__ import annotations

import secrets

import pytest

from ptkstore.adapters.keys import AesGcmSealer
from ptkstore.adapters.objects import FsspecCheckpoints, FsspecRawZone, FsspecStaging
from ptkstore.errors import CorruptObject, InvalidRequest
from tests.ptkstore.adapters.objects.conftest import Bytes

PTK, FIRST, SECOND = "team.model", "1" * 16, "2" * 16
PATH = f"_staging/_checkpoints/{PTK}"


@pytest.fixture
def checkpoints(tree: str, sealer: AesGcmSealer) -> FsspecCheckpoints:
    return FsspecCheckpoints(tree, sealer)


def test_the_last_one_is_read_and_nothing_of_those_before_is_left(
    checkpoints: FsspecCheckpoints, stored: Bytes, key: bytes
) -> None:
    assert checkpoints.newest(PTK) is None
    checkpoints.write(PTK, FIRST, b"first instances", key)
    other = secrets.token_bytes(32)
    checkpoints.write(PTK, SECOND, b"second instances", other)
    assert checkpoints.newest(PTK) == SECOND
    assert checkpoints.read(PTK, SECOND, other) == b"second instances"
    assert list(stored.all()) == [PATH]
    assert b"instances" not in stored.get(PATH)
    with pytest.raises(CorruptObject):
        checkpoints.read(PTK, FIRST, key)
    with pytest.raises(CorruptObject):
        checkpoints.read(PTK, SECOND, key)


def test_one_that_was_changed_or_moved_is_told(
    checkpoints: FsspecCheckpoints, stored: Bytes, key: bytes
) -> None:
    checkpoints.write(PTK, FIRST, b"instances", key)
    content = stored.get(PATH)
    for changed in (content[:-1], content[:20], content[:-1] + bytes([content[-1] ^ 1])):
        stored.put(PATH, changed)
        with pytest.raises(CorruptObject):
            checkpoints.read(PTK, FIRST, key)
    stored.put(f"{PATH}2", content)
    with pytest.raises(CorruptObject):
        checkpoints.read(f"{PTK}2", FIRST, key)


def test_it_is_no_draft_and_no_file_of_rows(
    checkpoints: FsspecCheckpoints, tree: str, sealer: AesGcmSealer, key: bytes
) -> None:
    checkpoints.write(PTK, FIRST, b"instances", key)
    staging, raw = FsspecStaging(tree, sealer), FsspecRawZone(tree, sealer)
    staging.write("d1", {"a": b"b"}, key)
    assert staging.drafts() == ("d1",)
    assert raw.files() == ()
    assert raw.ages() == {}


def test_a_deleted_one_is_gone(checkpoints: FsspecCheckpoints, stored: Bytes, key: bytes) -> None:
    checkpoints.write(PTK, FIRST, b"instances", key)
    checkpoints.delete(PTK)
    checkpoints.delete(PTK)
    assert checkpoints.newest(PTK) is None
    assert stored.all() == {}


@pytest.mark.parametrize("name", ["", "..", "a/b", "a b", ".a"])
def test_a_name_that_is_no_part_of_a_path_is_refused(checkpoints: FsspecCheckpoints, name: str) -> None:
    with pytest.raises(InvalidRequest):
        checkpoints.write(name, FIRST, b"", bytes(32))
