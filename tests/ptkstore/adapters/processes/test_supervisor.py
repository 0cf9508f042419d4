"""The supervisor: restarts, waits, stops, logs, locks."""

from __future__ import annotations

import os
import signal
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ptkstore.adapters.processes import Command, Supervisor
from ptkstore.adapters.processes.logs import rotate
from ptkstore.adapters.processes.supervisor import TEND_EVERY_SECONDS, ChildStatus, Waits
from ptkstore.errors import Conflict, InvalidRequest
from tests.support import full_disk
from tests.support.processes import (
    PYTHON,
    both_pids,
    number_in,
    parent_of_a_child,
    wait_until,
)
from tests.support.waiting import lives

SLEEP = ("sleep", "600")
WRITES_ON_TERM = """
import pathlib, signal, sys
def on_term(number, frame):
    pathlib.Path(sys.argv[1]).write_text("ended in order")
    sys.exit(0)
signal.signal(signal.SIGTERM, on_term)
print("ready", flush=True)
while True:
    signal.pause()
"""
IGNORES_TERM = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
while True:
    signal.pause()
"""


class Heard:
    """Keeps what a listener is told."""

    def __init__(self) -> None:
        self.news: list[tuple[str, int, int | None]] = []

    def __call__(self, name: str, pid: int, code: int | None) -> None:
        self.news.append((name, pid, code))


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def supervisor(tmp_path: Path, heard: Heard) -> Iterator[Supervisor]:
    waits = Waits(first=0.05, longest=0.2, healthy=60.0, grace=0.5)
    with Supervisor(tmp_path / "home", listener=heard, waits=waits) as running:
        yield running


def only(supervisor: Supervisor) -> ChildStatus:
    (status,) = supervisor.status()
    return status


def pid_of(supervisor: Supervisor, name: str) -> int:
    pid = next(one.pid for one in supervisor.status() if one.name == name)
    assert pid is not None
    return pid


def log_of(tmp_path: Path, name: str) -> str:
    return (tmp_path / "home" / "log" / f"{name}.log").read_text()


def test_a_child_killed_with_9_is_started_again_and_both_are_told(
    supervisor: Supervisor, heard: Heard
) -> None:
    supervisor.run(Command("sleeper", SLEEP))
    first = pid_of(supervisor, "sleeper")
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: len(heard.news) == 3)
    second = pid_of(supervisor, "sleeper")
    assert heard.news == [("sleeper", first, None), ("sleeper", first, -9), ("sleeper", second, None)]
    assert lives(second)
    assert only(supervisor) == ChildStatus("sleeper", second, starts=2, failures=1, last_exit_code=-9)


def test_what_a_killed_child_had_started_is_gone_before_it_is_started_again(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    supervisor.run(Command("parent", parent_of_a_child(tmp_path)))
    parent, child = both_pids(tmp_path)
    os.kill(parent, signal.SIGKILL)
    wait_until(lambda: number_in(tmp_path / "parent") not in (None, parent))
    assert not lives(child)


def test_the_waits_before_restarts_double_up_to_the_longest() -> None:
    waits = [Waits().before_restart(failures) for failures in (0, 1, 2, 5, 6, 5000)]
    assert waits == [0.2, 0.4, 0.8, 6.4, 10.0, 10.0]


def test_deaths_in_a_row_are_counted_and_the_child_is_not_started_before_its_wait_is_over(
    tmp_path: Path,
) -> None:
    with Supervisor(tmp_path, waits=Waits(first=0.01, longest=3600.0, healthy=3600.0)) as supervisor:
        supervisor.run(Command("dies", ("false",)))
        wait_until(lambda: only(supervisor).failures == 4)
        assert only(supervisor).starts == 4
    with Supervisor(tmp_path, waits=Waits(first=3600.0, longest=3600.0)) as supervisor:
        supervisor.run(Command("dies", ("false",)))
        wait_until(lambda: only(supervisor).failures == 1)
        supervisor.run(Command("later", ("false",)))
        wait_until(lambda: supervisor.status()[1].failures == 1)
        assert supervisor.status()[0] == ChildStatus("dies", None, starts=1, failures=1, last_exit_code=1)


def test_a_healthy_while_makes_the_next_wait_the_first_one_again(tmp_path: Path) -> None:
    # Were the deaths counted on, the twelfth start would come after more than 100 s of waits.
    with Supervisor(tmp_path, waits=Waits(first=0.05, longest=3600.0, healthy=0.0)) as supervisor:
        supervisor.run(Command("dies", ("false",)))
        wait_until(lambda: only(supervisor).starts >= 12)
        assert only(supervisor).failures <= 1


def test_stop_asks_first_and_a_child_may_end_in_order(
    supervisor: Supervisor, heard: Heard, tmp_path: Path
) -> None:
    supervisor.run(Command("orderly", (*PYTHON, WRITES_ON_TERM, str(tmp_path / "last-words"))))
    wait_until(lambda: "ready" in log_of(tmp_path, "orderly"))
    pid = pid_of(supervisor, "orderly")
    supervisor.stop()
    assert (tmp_path / "last-words").read_text() == "ended in order"
    assert heard.news == [("orderly", pid, None), ("orderly", pid, 0)]
    assert supervisor.status() == ()


def test_stop_kills_a_child_that_does_not_end_within_the_grace(
    supervisor: Supervisor, heard: Heard, tmp_path: Path
) -> None:
    supervisor.run(Command("stubborn", (*PYTHON, IGNORES_TERM)))
    wait_until(lambda: "ready" in log_of(tmp_path, "stubborn"))
    pid = pid_of(supervisor, "stubborn")
    supervisor.stop()
    assert heard.news[-1] == ("stubborn", pid, -9)
    assert not lives(pid)


def test_stop_leaves_nothing_of_a_process_group(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.run(Command("parent", parent_of_a_child(tmp_path)))
    parent, child = both_pids(tmp_path)
    supervisor.stop()
    wait_until(lambda: not lives(child))
    assert not lives(parent)


def test_a_higher_tier_is_stopped_before_a_lower_one(supervisor: Supervisor, heard: Heard) -> None:
    supervisor.run(Command("broker", SLEEP, tier=0))
    supervisor.run(Command("worker", SLEEP, tier=1))
    supervisor.stop()
    assert [(name, code) for name, _, code in heard.news if code is not None] == [
        ("worker", -15),
        ("broker", -15),
    ]


def test_a_removed_child_ends_and_does_not_come_back_while_others_go_on(
    supervisor: Supervisor, heard: Heard
) -> None:
    supervisor.run(Command("stays", SLEEP))
    supervisor.run(Command("goes", SLEEP))
    stays, goes = pid_of(supervisor, "stays"), pid_of(supervisor, "goes")
    supervisor.remove("goes")
    assert not lives(goes)
    assert lives(stays)
    assert [one.name for one in supervisor.status()] == ["stays"]
    assert heard.news[-1] == ("goes", goes, -15)
    supervisor.remove("goes")
    supervisor.run(Command("goes", SLEEP))
    assert lives(pid_of(supervisor, "goes"))


def test_a_child_outlives_the_thread_that_asked_for_it(supervisor: Supervisor, heard: Heard) -> None:
    def ask() -> None:
        supervisor.run(Command("sleeper", SLEEP))
        sleeper = psutil.Process(pid_of(supervisor, "sleeper"))
        wait_until(lambda: sleeper.name() == "sleep")  # from here on it is to die with its parent

    asking = threading.Thread(target=ask)
    asking.start()
    asking.join()
    supervisor.run(Command("dies", ("false",)))
    wait_until(lambda: ("dies", 1) in [(name, code) for name, _, code in heard.news])
    assert [code for name, _, code in heard.news if name == "sleeper"] == [None]


def test_output_goes_to_a_log_that_only_its_owner_can_read(supervisor: Supervisor, tmp_path: Path) -> None:
    talks = "import sys; print('to stdout', flush=True); sys.stderr.write('to stderr\\n'); input()"
    supervisor.run(Command("talker", (*PYTHON, talks)))
    wait_until(lambda: "EOFError" in log_of(tmp_path, "talker"))  # and there is nothing to read from
    assert log_of(tmp_path, "talker").startswith("to stdout\nto stderr\n")
    log = tmp_path / "home" / "log" / "talker.log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700


def test_a_log_is_moved_aside_when_it_is_too_large_and_its_writer_goes_on(tmp_path: Path) -> None:
    writes = "import signal\nfor _ in range(200): print('x' * 99, flush=True)\n"
    writes += "signal.signal(signal.SIGHUP, lambda *_: print('after', flush=True))\n"
    writes += "print('ready', flush=True)\nwhile True: signal.pause()"
    with Supervisor(tmp_path / "home", largest_log_bytes=10_000) as supervisor:
        supervisor.run(Command("chatty", (*PYTHON, writes)))
        aside = tmp_path / "home" / "log" / "chatty.log.1"
        wait_until(aside.exists)
        os.kill(pid_of(supervisor, "chatty"), signal.SIGHUP)
        wait_until(lambda: log_of(tmp_path, "chatty") == "after\n")
        assert aside.read_text().endswith("ready\n")
        assert stat.S_IMODE(aside.stat().st_mode) == 0o600


def test_a_log_that_is_small_enough_stays(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("0123456789")
    assert rotate(log, largest_bytes=10) is False
    assert rotate(log, largest_bytes=9) is True
    assert (log.read_text(), (tmp_path / "a.log.1").read_text()) == ("", "0123456789")
    assert rotate(tmp_path / "none.log", largest_bytes=0) is False


def test_a_program_that_does_not_exist_is_reported_in_the_log(
    supervisor: Supervisor, heard: Heard, tmp_path: Path
) -> None:
    supervisor.run(Command("typo", ("/no/such/program",)))
    wait_until(lambda: len(heard.news) >= 2)
    assert heard.news[1][2] == 127
    assert log_of(tmp_path, "typo").startswith("cannot run /no/such/program: No such file or directory\n")


def test_a_child_gets_the_environment_it_was_given_and_default_signals(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_PARENT", "hunter2")
    supervisor.run(
        Command("shows", ("/bin/sh", "-c", "env; grep SigIgn /proc/$$/status; sleep 600"), {"A": "b c"})
    )
    wait_until(lambda: "SigIgn" in log_of(tmp_path, "shows"))
    shown = log_of(tmp_path, "shows")
    assert "A=b c\n" in shown
    assert "hunter2" not in shown
    ignored = int(shown.partition("SigIgn:\t")[2].split()[0], 16)
    assert ignored & 0x7FFFFFFF == 0  # make leaves signals 32 and 33 ignored, which belong to the C library


@pytest.mark.parametrize("name", ["", "Up", "../x", "a/b", "a.b", "1a", "a\n", "a" * 41])
def test_a_name_that_is_no_plain_file_name_is_refused(supervisor: Supervisor, name: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot name a command"):
        supervisor.run(Command(name, SLEEP))
    assert supervisor.status() == ()


def test_commands_that_cannot_be_kept_are_refused(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.run(Command("one", SLEEP))
    with pytest.raises(InvalidRequest, match="already kept"):
        supervisor.run(Command("one", SLEEP))
    with pytest.raises(InvalidRequest, match="nothing to run"):
        supervisor.run(Command("empty", ()))
    with pytest.raises(InvalidRequest, match="does not run"):
        Supervisor(tmp_path / "other").run(Command("early", SLEEP))
    supervisor.stop()
    with pytest.raises(InvalidRequest, match="does not run"):
        supervisor.run(Command("late", SLEEP))


def test_a_second_supervisor_in_the_same_home_is_refused_until_the_first_has_stopped(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    supervisor.run(Command("sleeper", SLEEP))
    with pytest.raises(
        Conflict, match=rf"the service runs in .*home already .*; .* \(process {os.getpid()}\)"
    ):
        Supervisor(tmp_path / "home").start()
    assert lives(pid_of(supervisor, "sleeper"))
    supervisor.stop()
    Supervisor(tmp_path / "home").start().stop()


@pytest.mark.long
def test_on_a_full_disk_children_are_started_again_and_logs_are_kept_small_later(tmp_path: Path) -> None:
    with full_disk.mounted(tmp_path / "disk") as disk:
        waits = Waits(first=0.05, longest=0.2, healthy=60.0, grace=0.5)
        with Supervisor(disk / "home", waits=waits, largest_log_bytes=8192) as supervisor:
            supervisor.run(Command("sleeper", SLEEP))
            log = disk / "home" / "log" / "sleeper.log"
            log.write_bytes(bytes(65_536))
            full_disk.fill(disk)
            for starts in (2, 3):
                time.sleep(1.5 * TEND_EVERY_SECONDS)  # so that it looks at its logs
                os.kill(pid_of(supervisor, "sleeper"), signal.SIGKILL)
                wait_until(lambda n=starts: only(supervisor).starts == n)
            assert log.stat().st_size == 65_536
            assert [path.name for path in log.parent.iterdir()] == ["sleeper.log"]
            full_disk.free(disk)
            wait_until(lambda: log.stat().st_size == 0)
            assert log.with_name("sleeper.log.1").stat().st_size == 65_536
