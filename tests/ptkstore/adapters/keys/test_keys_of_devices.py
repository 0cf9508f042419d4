"""The key of tickets, and those of checkpoints, one for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptkstore.adapters.keys import FileKeyStore
from ptkstore.errors import InvalidRequest, Unavailable, WindowGone

PTK = "team.model"


def test_the_key_of_tickets_is_made_once(root: Path, store: FileKeyStore) -> None:
    key = store.ticket_key()
    assert len(key) == 32
    assert FileKeyStore(root).ticket_key() == key
    assert store.checkpoints() == frozenset()


def test_each_checkpoint_has_a_key_that_is_made_once(root: Path, store: FileKeyStore) -> None:
    keys = {store.make_checkpoint_key(PTK, name) for name in ("c1", "c2")}
    keys.add(store.make_checkpoint_key("team.model2", "c1"))
    assert len(keys) == 3
    assert {len(key) for key in keys} == {32}
    again = FileKeyStore(root)
    assert again.checkpoints() == {(PTK, "c1"), (PTK, "c2"), ("team.model2", "c1")}
    assert again.checkpoint_key(PTK, "c1") in keys
    with pytest.raises(Unavailable, match="EEXIST"):
        again.make_checkpoint_key(PTK, "c1")


def test_of_a_destroyed_key_nothing_is_left(root: Path, store: FileKeyStore) -> None:
    key = store.make_checkpoint_key(PTK, "c1")
    store.make_checkpoint_key(PTK, "c2")
    for _ in range(2):
        store.destroy_checkpoint(PTK, "c1")
        assert store.checkpoints() == {(PTK, "c2")}
        with pytest.raises(WindowGone, match="checkpoint c1"):
            store.checkpoint_key(PTK, "c1")
    assert [path.name for path in (root / "devices").iterdir()] == [f"{PTK}@c2.key"]
    assert not any(key in path.read_bytes() for path in root.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("ptk_id", "name"), [("", "e"), (PTK, ""), ("../x", "e"), (PTK, "a@b"), (PTK, "a/b")]
)
def test_a_name_that_is_no_part_of_a_path_is_refused(store: FileKeyStore, ptk_id: str, name: str) -> None:
    with pytest.raises(InvalidRequest):
        store.make_checkpoint_key(ptk_id, name)
