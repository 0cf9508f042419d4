"""Who writes a window's rows: several beside each other, or one alone; the dead hold nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ptkstore.adapters.keys import FileKeyStore
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import InvalidRequest, Unavailable

WINDOW = WindowId("taxi", 3)
HOLDER = """
import sys, time
from pathlib import Path
from ptkstore.adapters.keys import FileKeyStore
from ptkstore.domain.streams.windows import WindowId
with FileKeyStore(Path(sys.argv[1])).hold_rows(WindowId("taxi", 3), alone=True):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def hurried(store: FileKeyStore, root: Path) -> FileKeyStore:
    """The same store, of little patience."""
    return FileKeyStore(root, patience_seconds=0.0)


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [(False, False, True), (False, True, False), (True, False, False), (True, True, False)],
)
def test_writers_go_beside_each_other_and_nobody_beside_one_who_is_alone(
    store: FileKeyStore, hurried: FileKeyStore, first: bool, second: bool, together: bool
) -> None:
    with store.hold_rows(WINDOW, alone=first):
        if together:
            with hurried.hold_rows(WINDOW, alone=second):
                pass
        else:
            with pytest.raises(Unavailable, match="too long"), hurried.hold_rows(WINDOW, alone=second):
                pass
        with (
            hurried.hold_rows(WindowId("taxi", 4), alone=True),
            hurried.hold_rows(WindowId("bikes", 3), alone=True),
        ):
            pass
    with hurried.hold_rows(WINDOW, alone=True):
        pass


def test_keys_are_made_and_destroyed_while_rows_are_held(store: FileKeyStore) -> None:
    with store.hold_rows(WINDOW, alone=True):
        store.sealing_key(WINDOW)
        store.destroy_window(WINDOW)


def test_a_killed_holder_lets_the_next_one_in(hurried: FileKeyStore, root: Path, repository: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(root)], stdout=subprocess.PIPE, cwd=repository
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(Unavailable), hurried.hold_rows(WINDOW, alone=False):
        pass
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    with hurried.hold_rows(WINDOW, alone=True):
        pass
    holder.stdout.close()


@pytest.mark.parametrize("window", [WindowId("../x", 0), WindowId("taxi", -1)])
def test_only_windows_can_be_held(store: FileKeyStore, window: WindowId) -> None:
    with pytest.raises(InvalidRequest), store.hold_rows(window, alone=True):
        pass


def test_windows_with_a_key_are_listed(store: FileKeyStore) -> None:
    assert store.windows("taxi") == ()
    for index in (10, 2, 3):
        store.sealing_key(WindowId("taxi", index))
    store.destroy_window(WindowId("taxi", 2))
    assert store.windows("taxi") == (WindowId("taxi", 3), WindowId("taxi", 10))
    assert store.windows("bikes") == ()
