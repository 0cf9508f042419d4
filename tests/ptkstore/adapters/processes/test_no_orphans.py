"""Whatever happens to a supervisor, nothing that it started survives it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.support.processes import (
    PATIENCE_SECONDS,
    both_pids,
    other_process,
    parent_of_a_child,
    wait_until,
)
from tests.support.waiting import lives

SUPERVISES = """
    import os, signal, sys, threading, time
    from pathlib import Path
    from ptkstore.adapters.processes import Command, Supervisor
    supervisor = Supervisor(Path(sys.argv[1])).start()
    supervisor.run(Command("parent", tuple(sys.argv[2:])))
"""
WAITS = "    signal.pause()\n"
FORKS = (
    "    fork = os.fork()\n    print(os.getpid(), flush=True) if fork == 0 else None\n    signal.pause()\n"
)


def children_of(pid: int, word: str) -> list[int]:
    """Those children of a process that run a command with this word."""
    found = psutil.Process(pid).children()
    return [one.pid for one in found if lives(one.pid) and any(word in part for part in one.cmdline())]


def guard_of(pid: int) -> int:
    wait_until(lambda: len(children_of(pid, "guard.py")) == 1)
    return children_of(pid, "guard.py")[0]


def test_a_supervisor_killed_with_9_leaves_no_process(tmp_path: Path) -> None:
    with other_process(SUPERVISES + WAITS, tmp_path / "home", *parent_of_a_child(tmp_path)) as supervisor:
        parent, child = both_pids(tmp_path)
        guard = guard_of(supervisor.pid)
        supervisor.kill()
        wait_until(lambda: not lives(parent) and not lives(child) and not lives(guard))


def test_a_killed_guard_is_replaced_and_the_new_one_knows_everything(tmp_path: Path) -> None:
    with other_process(SUPERVISES + WAITS, tmp_path / "home", *parent_of_a_child(tmp_path)) as supervisor:
        parent, child = both_pids(tmp_path)
        first = guard_of(supervisor.pid)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: not lives(first))
        second = guard_of(supervisor.pid)
        wait_until(lambda: psutil.Process(second).status() == psutil.STATUS_SLEEPING)
        assert lives(parent)
        supervisor.kill()
        wait_until(lambda: not lives(parent) and not lives(child))


def test_a_fork_of_the_supervisor_that_lives_on_does_not_keep_the_children_alive(tmp_path: Path) -> None:
    with other_process(SUPERVISES + FORKS, tmp_path / "home", *parent_of_a_child(tmp_path)) as supervisor:
        parent, child = both_pids(tmp_path)
        assert supervisor.stdout is not None
        fork = int(supervisor.stdout.readline())
        supervisor.kill()
        wait_until(lambda: not lives(parent) and not lives(child))
        assert lives(fork)
        os.kill(fork, signal.SIGKILL)


@pytest.mark.parametrize("ending", ["    sys.exit(0)", "    raise RuntimeError('broken')", "    os._exit(3)"])
def test_a_supervisor_that_ends_without_stopping_takes_everything_with_it(
    tmp_path: Path, ending: str
) -> None:
    waits = "    while not Path(sys.argv[-1], 'parent').exists(): time.sleep(0.02)\n"
    with other_process(SUPERVISES + waits + ending, tmp_path / "home", *parent_of_a_child(tmp_path)) as other:
        parent, child = both_pids(tmp_path)
        other.wait(PATIENCE_SECONDS)
    wait_until(lambda: not lives(parent) and not lives(child))


def test_direct_children_die_with_their_parent_even_when_the_guard_is_dead_too(tmp_path: Path) -> None:
    with other_process(SUPERVISES + WAITS, tmp_path / "home", "sleep", "600") as supervisor:
        wait_until(
            lambda: [one.name() for one in psutil.Process(supervisor.pid).children()].count("sleep") == 1
        )
        (sleeper,) = children_of(supervisor.pid, "600")
        guard = guard_of(supervisor.pid)
        supervisor.send_signal(signal.SIGSTOP)  # it cannot replace the guard meanwhile
        os.kill(guard, signal.SIGKILL)
        supervisor.kill()
        wait_until(lambda: not lives(sleeper))


def test_the_home_of_a_killed_supervisor_is_free_for_the_next(tmp_path: Path) -> None:
    with other_process(SUPERVISES + WAITS, tmp_path / "home", *parent_of_a_child(tmp_path)) as supervisor:
        first, _ = both_pids(tmp_path)
        supervisor.kill()
    (tmp_path / "parent").unlink()
    with other_process(SUPERVISES + WAITS, tmp_path / "home", *parent_of_a_child(tmp_path)) as supervisor:
        second, _ = both_pids(tmp_path)
        assert second != first
        supervisor.kill()
    wait_until(lambda: not lives(second))
