"""Several processes at once, each started anew, as workers are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from ptkstore.adapters.keys import FileKeyStore
from ptkstore.domain.streams.windows import WindowId

RACER = """
import json, sys, time
from pathlib import Path
from ptkstore.adapters.keys import FileKeyStore
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import CatalogBehind
from tests.ptkstore.adapters.keys.conftest import Journal
store = FileKeyStore(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
"""
MAKES_KEYS = """
store.create_stream("bikes")
keys = [store.sealing_key(WindowId("bikes", i)).hex() for i in range(40)]
print(json.dumps(keys + [store.draft_key(f"d{i}").hex() for i in range(10)]))
"""
OPENS = """
journal = Journal(digests=tuple(f"d{i}" for i in range(1, 61)))
behind = opened = 0
for length in range(1, 61):
    try:
        store.opening_key(WindowId("taxi", 0), Journal(digests=journal.digests[:length]))
        opened = length
    except CatalogBehind:
        behind += 1
print(json.dumps([opened, behind]))
"""


def race(root: Path, code: str, repository: Path) -> list[list[object]]:
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER + code, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=repository,
        )
        for _ in range(2)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    outputs = [racer.communicate(timeout=60)[0] for racer in racers]
    return [json.loads(output) for output in outputs]


def test_racing_makers_of_a_key_all_get_the_same_one(root: Path, repository: Path) -> None:
    FileKeyStore(root)
    first, *others = race(root, MAKES_KEYS, repository)
    assert len(set(first)) == 50
    assert all(other == first for other in others)


def test_racing_openings_never_move_the_mark_back(root: Path, repository: Path, store: FileKeyStore) -> None:
    store.sealing_key(WindowId("taxi", 0))
    lasts = [opened for opened, _ in race(root, OPENS, repository)]
    assert lasts == [60, 60]
    assert json.loads((root / "marks/taxi.json").read_text())["sequence"] == 60
