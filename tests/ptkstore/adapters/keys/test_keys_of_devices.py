"""The key of tickets, and those of checkpoints, which are destroyed with their epochs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptkstore.adapters.keys import FileKeyStore
from ptkstore.errors import InvalidRequest, WindowGone

PTK = "team.model"


def test_the_key_of_tickets_is_made_once(root: Path, store: FileKeyStore) -> None:
    key = store.ticket_key()
    assert len(key) == 32
    assert FileKeyStore(root).ticket_key() == key
    assert store.checkpoints() == frozenset()


def test_a_checkpoint_has_a_key_for_each_epoch(root: Path, store: FileKeyStore) -> None:
    keys = {store.checkpoint_key(PTK, epoch) for epoch in ("e1", "e2", "e1")}
    keys.add(store.checkpoint_key("team.model2", "e1"))
    assert len(keys) == 3
    assert FileKeyStore(root).checkpoints() == {(PTK, "e1"), (PTK, "e2"), ("team.model2", "e1")}


def test_a_destroyed_key_is_never_made_anew(root: Path, store: FileKeyStore) -> None:
    key = store.checkpoint_key(PTK, "e1")
    store.checkpoint_key(PTK, "e2")
    for _ in range(2):
        store.destroy_checkpoint(PTK, "e1")
        assert store.checkpoints() == {(PTK, "e2")}
        with pytest.raises(WindowGone, match="epoch e1"):
            store.checkpoint_key(PTK, "e1")
    assert not any(key in path.read_bytes() for path in root.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("ptk_id", "epoch"), [("", "e"), (PTK, ""), ("../x", "e"), (PTK, "a@b"), (PTK, "a/b")]
)
def test_a_name_that_is_no_part_of_a_path_is_refused(store: FileKeyStore, ptk_id: str, epoch: str) -> None:
    with pytest.raises(InvalidRequest):
        store.checkpoint_key(ptk_id, epoch)
