from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from ptkstore.adapters.sandbox.parent.program import MODULE
from ptkstore.adapters.sandbox.processes.fork_server import RUN_NAME
from ptkstore.adapters.sandbox.processes.process import Ended, Limits, run_child
from ptkstore.errors import LeaseLost, Unavailable
from ptkstore.ports.row_processes import RunFailed
from tests.support.sandbox_orders import FORKS_AND_WAITS, World, nothing
from tests.support.waiting import lives, until

ROOMY = Limits(timeout_seconds=30, memory_bytes=1 << 30)


def run(
    code: str,
    tmp_path: Path,
    *,
    order: bytes = b"",
    limits: Limits = ROOMY,
    keep_alive: Callable[[], None] = nothing,
) -> Ended:
    """Run a program that finds the descriptor to answer on in `fd`."""
    program = f"import os, sys; fd = int(sys.argv[1])\n{code}"
    return run_child(
        (sys.executable, "-I", "-c", program),
        order,
        limits=limits,
        directory=tmp_path,
        environment={"LANG": "C.UTF-8"},
        keep_alive=keep_alive,
    )


def test_order_and_answer_pass_whole_however_long(tmp_path: Path) -> None:
    order = os.urandom(3_000_000)
    ended = run("os.fdopen(fd, 'wb').write(sys.stdin.buffer.read()[::-1])", tmp_path, order=order)
    assert ended == Ended(order[::-1], 0, timed_out=False)


def test_a_child_that_does_not_listen_is_no_trouble(tmp_path: Path) -> None:
    assert run("os.write(fd, b'x'); os._exit(3)", tmp_path, order=bytes(3_000_000)) == Ended(b"x", 3, False)


def test_what_a_child_prints_goes_nowhere(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run("print('canary'); sys.stderr.write('canary'); raise RuntimeError('canary')", tmp_path)
    assert capfd.readouterr() == ("", "")


def test_a_child_sees_only_its_pipes_and_the_given_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PTK_SECRET", "canary")
    report = """
import json
links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
opened = sorted(os.readlink(link) for link in links if os.path.exists(link))
os.write(fd, json.dumps([opened, sorted(os.environ), os.getcwd(), os.getsid(0) == os.getpid()]).encode())
"""
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        opened, names, directory, leads = json.loads(run(report, tmp_path).answer)
    assert [name.partition(":")[0] for name in opened] == ["/dev/null", "/dev/null", "pipe", "pipe"]
    assert set(names) <= {"LANG", "LC_CTYPE"}
    assert directory == str(tmp_path)
    assert leads is True


@pytest.mark.long
def test_time_is_limited_and_nothing_of_the_group_survives(tmp_path: Path) -> None:
    ended = run(FORKS_AND_WAITS, tmp_path, limits=Limits(timeout_seconds=3.0, memory_bytes=1 << 30))
    assert ended.timed_out
    child, grandchild = map(int, ended.answer.split())
    until(lambda: not lives(child) and not lives(grandchild))


def test_an_early_end_of_the_child_ends_its_children(tmp_path: Path) -> None:
    ended = run(FORKS_AND_WAITS.replace("signal.pause", "pid and os._exit(0) or signal.pause"), tmp_path)
    assert ended.status == 0
    until(lambda: not lives(int(ended.answer.split()[1])))


def test_a_lost_lease_ends_the_child_and_is_passed_on(tmp_path: Path) -> None:
    started = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); import signal; signal.pause()"

    def lost() -> None:
        if (tmp_path / "pid").exists():
            raise LeaseLost("somebody else has it")

    with pytest.raises(LeaseLost):
        run(started, tmp_path, keep_alive=lost)
    assert not lives(int((tmp_path / "pid").read_text()))


@pytest.mark.long
def test_the_lease_is_kept_again_and_again_while_the_child_works(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    calls: list[int] = []

    def keep() -> None:
        calls.append(len(calls))
        kept.write_text(str(len(calls)))

    waits = f"""
import time
while not os.path.exists({str(kept)!r}) or open({str(kept)!r}).read() != "2":
    time.sleep(0.01)
"""
    assert run(waits, tmp_path, keep_alive=keep).status == 0
    assert calls == [0, 1]


def test_memory_is_limited(tmp_path: Path) -> None:
    takes = "os.write(fd, b'up'); filled = bytearray({}); os.write(fd, b' and beyond')"
    assert run(takes.format(300 << 20), tmp_path).answer == b"up and beyond"
    ended = run(takes.format(300 << 20), tmp_path, limits=Limits(timeout_seconds=30, memory_bytes=200 << 20))
    assert ended == Ended(b"up", 1, timed_out=False)


def test_processor_time_and_core_dumps_are_limited(tmp_path: Path) -> None:
    limits = """
from resource import RLIMIT_CORE, RLIMIT_CPU, getrlimit
os.write(fd, repr([getrlimit(RLIMIT_CPU), getrlimit(RLIMIT_CORE)]).encode())
"""
    ended = run(
        "sys.stdin.read()\n" + limits, tmp_path, limits=Limits(timeout_seconds=30, memory_bytes=1 << 30)
    )
    assert ended.answer == b"[(61, 61), (0, 0)]"


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ({"timeout_seconds": 0.001}, {"timeout"}),
        ({"memory_bytes": 100 << 20}, {"memory-limit", "killed", "trainer-error"}),
    ],
)
def test_a_training_that_meets_a_limit_ends_with_a_code(
    world: World, options: dict[str, object], codes: set[str]
) -> None:
    ended = world.runs(**options).train(world.request(), nothing)
    assert isinstance(ended, RunFailed)
    assert ended.code in codes
    assert world.staging.drafts() == ()


@pytest.mark.parametrize("python", ["/bin/false", "/bin/true"])
def test_a_training_that_cannot_be_started_has_not_failed(world: World, python: str) -> None:
    with pytest.raises(Unavailable):
        world.runs(python=python).train(world.request(), nothing)
    assert world.staging.drafts() == ()


def test_a_killed_child_has_a_code_and_its_directory_is_removed(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    directories: list[Path] = []

    def kill() -> None:
        for child in psutil.Process().children(recursive=True):
            if child.name() == RUN_NAME:
                directories.append(Path(child.cwd()))
                child.kill()

    rows = world.request(rows=(world.rows(part_urls=(slow_part(tmp_path),)),))
    assert world.runs().train(rows, kill) == RunFailed("killed")
    assert directories
    assert list((tmp_path / "scratch").iterdir()) == []


def slow_part(root: Path) -> str:
    """A part that is a pipe nobody writes to: whoever opens it waits."""
    path = root / "raw" / "taxi" / "0" / "parts" / "9.parquet"
    os.mkfifo(path)
    return str(path)


WORKER = """
import sys
from pathlib import Path
from tests.support.sandbox_orders import new_world, some_rows
world = new_world(Path(sys.argv[1]))
world.runs().train(world.request(rows=(world.rows(part_urls=(sys.argv[2],)),)), lambda: print("alive", flush=True))
"""


def runs_below(pid: int) -> list[psutil.Process]:
    return [one for one in psutil.Process(pid).children(recursive=True) if one.name() == RUN_NAME]


@pytest.mark.long
def test_no_child_outlives_a_killed_worker(world: World, tmp_path: Path, repository: Path) -> None:
    arguments = [sys.executable, "-c", WORKER, str(tmp_path), slow_part(tmp_path)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, cwd=repository) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"alive\n"
        until(lambda: runs_below(worker.pid) != [])
        (child,) = runs_below(worker.pid)
        assert lives(child.pid)
        worker.kill()
    until(lambda: not lives(child.pid))


def test_a_child_guards_itself_and_no_secret_shows_in_arguments_or_environment(
    world: World, tmp_path: Path
) -> None:
    request = world.request(rows=(world.rows(part_urls=(slow_part(tmp_path),)),))
    seen: list[bytes] = []

    def look() -> None:
        for child in psutil.Process().children(recursive=True):
            inside = Path(f"/proc/{child.pid}")
            if child.name() == RUN_NAME and b"NoNewPrivs:\t1" in (inside / "status").read_bytes():
                seen.extend((inside / name).read_bytes() for name in ("cmdline", "environ"))
                child.kill()

    assert world.runs(timeout_seconds=60).train(request, look) == RunFailed("killed")
    assert MODULE.encode() in seen[0]
    for secret in (world.window_key, request.draft_key):
        forms = (secret, secret.hex().encode(), base64.b64encode(secret))
        assert not any(form in text for form in forms for text in seen)


def test_a_guarded_process_leaves_no_core_and_lets_nobody_look() -> None:
    asks = """
import ctypes
from ptkstore.adapters.sandbox.processes import hardening
asked = lambda: [ctypes.CDLL(None).prctl(option, 0, 0, 0, 0) for option in (3, 39)]
print(asked(), hardening.keep_secrets(), asked())
"""
    done = subprocess.run(
        [sys.executable, "-c", asks], check=True, timeout=60, capture_output=True, text=True
    )
    assert done.stdout == "[1, 0] None [0, 1]\n"


@pytest.mark.parametrize(("deed", "status"), [("print('said', flush=True)", 0), ("1 / 0", 1)])
def test_a_program_that_would_crash_while_it_says_goodbye_ends_as_it_went(deed: str, status: int) -> None:
    program = f"""
import atexit, os
from ptkstore.adapters.sandbox.processes import hardening
atexit.register(os.abort)
def program():
    {deed}
hardening.run_to_its_end(program)
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (status, "" if status else "said\n")


def test_a_server_without_its_owner_does_not_begin() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        fd = theirs.fileno()
        subprocess.run(
            [sys.executable, "-I", "-m", MODULE, str(fd), "1"], pass_fds=(fd,), check=True, timeout=60
        )
