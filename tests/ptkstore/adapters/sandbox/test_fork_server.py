"""Runs are forked from a process that has nothing to hide; each is limited, alone and always ended."""

from __future__ import annotations

import base64
import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from ptkstore.adapters.sandbox.parent import forking
from ptkstore.adapters.sandbox.parent.forking import run_fork
from ptkstore.adapters.sandbox.parent.program import ENVIRONMENT
from ptkstore.adapters.sandbox.processes.fork_server import NAME, RUN_NAME
from ptkstore.adapters.sandbox.processes.process import Ended, Limits
from ptkstore.domain.versions.versions import Draft
from ptkstore.errors import LeaseLost, NoProcess, Unavailable
from tests.support.sandbox_orders import FORKS_AND_WAITS, SPEC, World, nothing
from tests.support.waiting import lives, until

ROOMY = Limits(timeout_seconds=60, memory_bytes=1 << 30)
# A run does what its order says.
PROGRAM = """
import os, sys
from ptkstore.adapters.sandbox.processes import fork_server, hardening

def run(fd):
    exec(sys.stdin.read(), {"fd": fd, "os": os, "sys": sys})

hardening.run_to_its_end(lambda: fork_server.serve(int(sys.argv[1]), int(sys.argv[2]), run))
"""
SERVER = (sys.executable, "-c", PROGRAM)


@pytest.fixture(autouse=True)
def no_server_is_left() -> Iterator[None]:
    forking._close_all()  # of other tests
    yield
    forking._close_all()
    assert servers() == []


def run(
    code: str,
    tmp_path: Path,
    *,
    limits: Limits = ROOMY,
    keep_alive: Callable[[], None] = nothing,
    modules: tuple[str, ...] = (),
    argv: tuple[str, ...] = SERVER,
) -> Ended:
    return run_fork(
        argv,
        modules,
        code.encode(),
        limits=limits,
        directory=tmp_path,
        environment=ENVIRONMENT,
        keep_alive=keep_alive,
    )


def servers(pid: int | None = None) -> list[psutil.Process]:
    return [one for one in psutil.Process(pid).children() if one.name() == NAME]


def test_a_run_finds_its_pipes_alone_and_its_own_directory_and_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PTK_SECRET", "canary")
    report = """
import json, tempfile
links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
opened = {link: os.readlink(link).partition(":")[0] for link in links if os.path.exists(link)}
found = [sorted(opened.items()), sorted(os.environ), os.getcwd(), tempfile.gettempdir(), os.getsid(0) == os.getpid()]
os.write(fd, json.dumps(found).encode())
"""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        opened, names, directory, temporary, leads = json.loads(run(report, tmp_path / name).answer)
        wanted = ["pipe", "/dev/null", "/dev/null", "pipe"]
        assert opened == [[f"/proc/self/fd/{number}", kind] for number, kind in enumerate(wanted)]
        assert set(names) <= {*ENVIRONMENT, "LC_CTYPE", "TMPDIR"}
        assert directory == temporary == str(tmp_path / name)
        assert leads is True
    assert len(servers()) == 1


def test_a_run_is_limited_and_guarded(tmp_path: Path) -> None:
    asks = """
import ctypes
from resource import RLIMIT_CORE, RLIMIT_CPU, RLIMIT_DATA, getrlimit
asked = [ctypes.CDLL(None).prctl(option, 0, 0, 0, 0) for option in (3, 39)]
signal = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(signal), 0, 0, 0)
limits = [getrlimit(kind)[1] for kind in (RLIMIT_CORE, RLIMIT_CPU, RLIMIT_DATA)]
os.write(fd, repr([asked, signal.value, limits]).encode())
"""
    ended = run(asks, tmp_path, limits=Limits(timeout_seconds=30, memory_bytes=1 << 30))
    assert ended.answer.decode() == repr([[0, 1], 9, [0, 61, 1 << 30]])
    takes = f"os.write(fd, b'up'); filled = bytearray({600 << 20}); os.write(fd, b' and beyond')"
    assert run(takes, tmp_path).answer == b"up and beyond"
    tight = Limits(timeout_seconds=60, memory_bytes=500 << 20)
    assert run(takes, tmp_path, limits=tight) == Ended(b"up", 1, timed_out=False)


@pytest.mark.parametrize(
    ("code", "answer", "status"),
    [
        ("os.write(fd, b'x'); os._exit(3)", b"x", 3),
        ("os.write(fd, b'x'); os.kill(os.getpid(), 9)", b"x", -9),
        ("os.write(fd, b'x' * 3_000_000)", b"x" * 3_000_000, 0),
        ("1 / 0", b"", 1),
    ],
)
def test_how_a_run_ends_is_told(tmp_path: Path, code: str, answer: bytes, status: int) -> None:
    assert run(code, tmp_path) == Ended(answer, status, timed_out=False)


@pytest.mark.long
def test_time_is_limited_and_nothing_of_the_group_survives(tmp_path: Path) -> None:
    run("", tmp_path)  # the server is there
    ended = run(FORKS_AND_WAITS, tmp_path, limits=Limits(timeout_seconds=3.0, memory_bytes=1 << 30))
    assert ended.timed_out
    child, grandchild = map(int, ended.answer.split())
    assert not psutil.pid_exists(child)
    until(lambda: not lives(grandchild), "the grandchild's end")


def test_a_run_whose_time_is_over_before_it_is_forked_never_gets_its_order(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    ended = run(
        f"open({str(mark)!r}, 'w')", tmp_path, limits=Limits(timeout_seconds=0.0, memory_bytes=1 << 30)
    )
    assert ended.timed_out
    assert run("os.write(fd, b'x')", tmp_path).answer == b"x"  # forked after the other
    assert not mark.exists()


def test_a_lost_lease_ends_the_run_and_is_passed_on(tmp_path: Path) -> None:
    started = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); import signal; signal.pause()"

    def lost() -> None:
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text():
            raise LeaseLost("somebody else has it")

    with pytest.raises(LeaseLost):
        run(started, tmp_path, keep_alive=lost)
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def test_many_threads_share_a_server_and_no_answer(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        ended = list(pool.map(lambda n: run(f"os.write(fd, b'{n}')", tmp_path), range(24)))
    assert [one.answer for one in ended] == [str(n).encode() for n in range(24)]
    assert len(servers()) == 1


DRAWS = """
import json, random, secrets, tempfile, uuid
import numpy as np
from ptklib.mechanisms import laplace
from ptklib.mechanisms.stream import KeyStream
drawn = [random.random(), np.random.random(), secrets.token_hex(), str(uuid.uuid4())]
drawn += [laplace(np.zeros(4, dtype=np.int64), l1_sensitivity=1, epsilon=1e-6).tolist()]
drawn += [laplace(np.zeros(20_000, dtype=np.int64), l1_sensitivity=1, epsilon=1e-6)[:4].tolist()]
drawn += [next(tempfile._get_candidate_names())]
os.write(fd, json.dumps(drawn).encode())
"""
LOADED = ("numpy.random", "ptklib.mechanisms.additive", "opendp.prelude", "uuid", "secrets")


@pytest.mark.long
def test_forks_share_no_random_state(tmp_path: Path) -> None:
    drawn = [json.loads(run(DRAWS, tmp_path, modules=LOADED).answer) for _ in range(3)]
    assert len(servers()) == 1
    for values in zip(*drawn, strict=True):
        assert len({json.dumps(value) for value in values}) == 3


@pytest.mark.long
@pytest.mark.skipif(os.getuid() != 0, reason="a guarded process is looked into by root alone")
def test_a_server_holds_no_key_no_order_no_row_and_nothing_open_after_its_runs(world: World) -> None:
    domain = ["a", "b", "canary-of-the-order"]
    estimator = {**SPEC, "params": {**SPEC["params"], "domains": {"zone": domain}}}
    requests = [world.request(estimator=estimator) for _ in range(2)]
    trainer = world.runs(timeout_seconds=300, memory_bytes=2 << 30)
    for request in requests:
        assert isinstance(trainer.train(request, nothing), Draft)
    (server,) = servers()
    inside = Path(f"/proc/{server.pid}")
    assert len(list((inside / "task").iterdir())) == 1

    def opened() -> list[str]:
        return sorted(os.readlink(link).partition(":")[0] for link in (inside / "fd").iterdir())

    own = ["/dev/null"] * 3 + ["anon_inode", "socket"]
    until(lambda: opened() == own, f"the last run to be reaped: {opened()}")
    assert server.net_connections() == []
    memory = memory_of(server.pid)
    assert b"ptkstore.adapters.sandbox.processes.fork_server" in memory  # the search finds what is there
    secrets = [world.window_key] + [request.draft_key for request in requests]
    forms = [form for key in secrets for form in (key, key.hex().encode(), base64.b64encode(key))]
    forms += [b"canary-of-the-order", b"canary-driver", *(request.draft_id.encode() for request in requests)]
    assert [form for form in forms if form in memory] == []


def memory_of(pid: int) -> bytes:
    pieces = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            span, rights = line.split()[:2]
            low, high = (int(place, 16) for place in span.split("-"))
            if rights.startswith("rw"):
                memory.seek(low)
                pieces.append(memory.read(high - low))
    return b"".join(pieces)


@pytest.mark.long
def test_a_server_that_was_killed_takes_its_runs_with_it_and_another_is_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    def kill() -> None:
        if pids.exists() and pids.read_text():
            (server,) = servers()
            server.kill()

    waits = f"open({str(pids)!r}, 'w').write(str(os.getpid())); import signal; signal.pause()"
    assert run(waits, tmp_path, keep_alive=kill) == Ended(b"", -signal.SIGKILL, timed_out=False)
    until(lambda: not lives(int(pids.read_text())), "the run")
    assert run("os.write(fd, b'x')", tmp_path) == Ended(b"x", 0, timed_out=False)
    (server,) = servers()
    server.kill()
    server.wait()
    assert run("os.write(fd, b'y')", tmp_path) == Ended(b"y", 0, timed_out=False)


@pytest.mark.parametrize("program", ["/bin/false", "/bin/true"])
def test_a_run_whose_server_does_not_start_was_never_begun(tmp_path: Path, program: str) -> None:
    with pytest.raises(Unavailable):
        run("", tmp_path, argv=(program,))


def test_a_server_with_a_thread_forks_nothing(tmp_path: Path) -> None:
    (tmp_path / "with_a_thread.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    argv = (*SERVER[:2], f"import sys; sys.path.append({str(tmp_path)!r})\n{PROGRAM}")
    with pytest.raises(Unavailable) as error:
        run("os.write(fd, b'x')", tmp_path, modules=("with_a_thread",), argv=argv)
    assert type(error.value) is Unavailable


@pytest.mark.parametrize("why", ["EAGAIN", "ENOMEM"])
def test_a_fork_that_the_machine_refuses_is_told_apart(tmp_path: Path, why: str) -> None:
    refuses = f"""
import errno, os
def fork():
    raise OSError(errno.{why}, "")
os.fork = fork
"""
    with pytest.raises(NoProcess):
        run("os.write(fd, b'x')", tmp_path, argv=(*SERVER[:2], refuses + PROGRAM))


@pytest.mark.parametrize("why", ["OSError(errno.EAGAIN, '')", "RuntimeError"])
def test_a_fork_that_is_not_made_ends_no_other_run(tmp_path: Path, why: str) -> None:
    once = f"""
import errno, os, pathlib
there, fork = pathlib.Path({str(tmp_path)!r}), os.fork
def fork_or_not():
    if (there / "no more").exists():
        raise {why}
    return fork()
os.fork = fork_or_not
"""
    waits = f"""
import pathlib, time
there = pathlib.Path({str(tmp_path)!r})
(there / "begun").touch()
while not (there / "go on").exists():
    time.sleep(0.02)
os.write(fd, b"done")
"""
    argv = (*SERVER[:2], once + PROGRAM)
    with ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(run, waits, tmp_path, argv=argv)
        until((tmp_path / "begun").exists, "the first run to begin")
        (tmp_path / "no more").touch()
        with pytest.raises(Unavailable):  # `NoProcess` is one
            run("os.write(fd, b'x')", tmp_path, argv=argv)
        (tmp_path / "go on").touch()
        assert under_way.result() == Ended(b"done", 0, timed_out=False)
    (tmp_path / "no more").unlink()
    assert run("os.write(fd, b'x')", tmp_path, argv=argv) == Ended(b"x", 0, timed_out=False)


def test_a_server_that_the_machine_does_not_start_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_process(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "")

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", no_process)
        with pytest.raises(NoProcess):
            run("os.write(fd, b'x')", tmp_path)
    assert run("os.write(fd, b'x')", tmp_path) == Ended(b"x", 0, timed_out=False)


def test_a_fork_of_the_owner_has_a_server_of_its_own(tmp_path: Path) -> None:
    run("", tmp_path)
    (server,) = servers()
    pid = os.fork()
    if pid == 0:
        try:
            told = run("os.write(fd, str(os.getppid()).encode())", tmp_path).answer
            os._exit(7 if int(told) != server.pid and server.is_running() else 8)
        finally:
            os._exit(9)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    assert int(run("os.write(fd, str(os.getppid()).encode())", tmp_path).answer) == server.pid


OWNER = """
import os, sys, time
from pathlib import Path
from tests.ptkstore.adapters.sandbox import test_fork_server as tests
if sys.argv[2] == "copied":
    tests.run("", Path(sys.argv[1]))
    if os.fork() == 0:  # holds a copy of all that is open
        import signal
        os.close(1)
        signal.pause()
tests.run("import signal; signal.pause()", Path(sys.argv[1]), keep_alive=lambda: print(os.getpid(), flush=True))
"""


def below(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


@pytest.mark.long
@pytest.mark.parametrize("case", ["alone", "copied"])
def test_no_server_and_no_run_outlives_a_killed_owner(tmp_path: Path, repository: Path, case: str) -> None:
    arguments = [sys.executable, "-c", OWNER, str(tmp_path), case]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, cwd=repository) as owner:
        assert owner.stdout is not None
        assert int(owner.stdout.readline()) == owner.pid
        until(lambda: RUN_NAME in {one.name() for one in below(owner.pid)}, "the run")
        others = below(owner.pid)
        ours = [one for one in others if one.name() in (NAME, RUN_NAME)]
        assert sorted(one.name() for one in ours) == [NAME, RUN_NAME]
        owner.kill()
    until(lambda: not any(lives(one.pid) for one in ours), "their end")
    for one in others:
        if one not in ours and lives(one.pid):
            one.kill()
