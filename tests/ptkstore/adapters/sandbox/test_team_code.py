"""Team code in the sandbox: good code trains, hostile code gets nothing, and nobody hears how it failed."""

from __future__ import annotations

import json
import os
import struct
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

from ptklib.state import ReleasedState
from ptkstore.adapters.sandbox.child.team_code import train_team_code
from ptkstore.adapters.sandbox.confinement.confined import Confinement, run_confined
from ptkstore.adapters.sandbox.confinement.seal import Seal
from ptkstore.adapters.sandbox.messages.team_code import NotAsDeclared, message, state_from
from ptkstore.adapters.sandbox.parent import Bubblewrap, BubblewrapSandbox, Limits, team_sandbox
from ptkstore.adapters.sandbox.parent.fair_queue import FairQueue
from ptkstore.domain.versions.versions import Draft
from ptkstore.errors import NoSandbox, TooManyRequests, Unavailable
from ptkstore.ports.row_processes import RunFailed
from tests.support.sandbox_orders import World, nothing, state_of
from tests.support.team_code import GOOD, ROOMY, bundle_with, described
from tests.support.waiting import until

FAILED = RunFailed("team-code-failed")
ROWS = pa.table({"hour": pa.array([8] * 500 + [9] * 20)})
ZONES = {"zones": {"keys": ["zone"], "columns": [["zone", "string"], ["rows", "float64"], ["many", "bool"]]}}
BY_ZONE = """
import pyarrow as pa

def train_dp(trainset_iter, epsilon, previous_model_state, previous_config):
    rows = sum(t.num_rows for t in trainset_iter)
    before = previous_model_state["zones"]["rows"][0].as_py() if previous_model_state else 0
    return {"zones": pa.table({"zone": ["a", "b"], "rows": [rows + before, epsilon], "many": [True, False]})}
"""

# Each attempt is a function that returns a truth if it got somewhere.
ATTEMPTS = """
import ctypes, os, resource, signal, subprocess, sys, threading
import pyarrow as pa

HOME, PARENT = {home!r}, {parent}

def attempt(act):
    try:
        return bool(act())
    except BaseException:
        return False

def listed(place):
    return lambda: os.listdir(place)

def read(place):
    return lambda: open(place, "rb").read(1)

def written(place):
    return lambda: open(place, "w").write("x")

def network():
    import socket
    socket.create_connection(("127.0.0.1", 9), timeout=5)

def name_server():
    import socket
    return socket.getaddrinfo("example.org", 80)

def forks():
    if os.fork() == 0:
        os._exit(0)
    return True

def many_threads():
    hold = threading.Event()
    started = []
    try:
        while len(started) < 500:
            started.append(threading.Thread(target=hold.wait, daemon=True))
            started[-1].start()
        return True
    finally:
        hold.set()

def disk():
    with open("/tmp/large", "wb") as file:
        for _ in range(1024):
            file.write(bytes(1 << 20))
    return True

def without_end(make):
    def attempted():
        places = [f"/tmp/many-{{number}}" for number in range(20_000)]
        try:
            for place in places:
                make(place)
            return True
        finally:
            for place in places:
                if os.path.isdir(place):
                    os.rmdir(place)
                elif os.path.exists(place):
                    os.unlink(place)
    return attempted

def linked(place):
    with open("/tmp/linked", "w"):
        os.link("/tmp/linked", place)

def many_locks():
    import fcntl
    with open("/tmp/locked", "wb") as file:
        for number in range(20_000):
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 2 * number)
    return True

def more_inodes():
    return ctypes.CDLL(None).mount(b"tmpfs", b"/tmp", b"tmpfs", 38, b"nr_inodes=0") == 0

def timers():
    libc = ctypes.CDLL(None)
    timer = ctypes.c_void_p()
    return all(libc.timer_create(0, None, ctypes.byref(timer)) == 0 for _ in range(1000))

def rights():
    found = (ctypes.c_uint32 * 6)()
    ctypes.CDLL(None).capget((ctypes.c_uint32 * 2)(0x20080522, 0), found)
    return any(found)

def memory():
    return bytearray(16 << 30)

def shared_memory():
    import mmap
    return mmap.mmap(-1, 16 << 30)

def descriptors():
    opened = []
    try:
        while len(opened) < 1000:
            opened.append(os.open("/dev/null", os.O_RDONLY))
        return True
    finally:
        for number in opened:
            os.close(number)

def root():
    os.setuid(0)
    return True

ATTEMPTS = {{
    "network": network,
    "names": name_server,
    "local sockets": lambda: __import__("socket").socketpair(),
    "fork": forks,
    "program": lambda: subprocess.run(["/bin/true"]),
    "spawn": lambda: os.posix_spawn(sys.executable, [sys.executable], {{}}),
    "threads without end": many_threads,
    "the store": listed(HOME),
    "its catalog": read(HOME + "/catalog.db"),
    "its keys": listed(HOME + "/keys"),
    "the parent's environment": read(f"/proc/{{PARENT}}/environ"),
    "the parent's memory": read(f"/proc/{{PARENT}}/mem"),
    "any process": listed("/proc"),
    "a signal to the parent": lambda: os.kill(PARENT, 0) is None,
    "users": read("/etc/passwd"),
    "root's files": listed("/root/.ssh"),
    "settings": lambda: [name for name in os.environ if name.startswith(("PTK", "AWS"))],
    "writing at the top": written("/x"),
    "writing in the library": written("/ptk/lib/ptklib/base.py"),
    "writing in packages": written("/ptk/site/x.py"),
    "a gigabyte on disk": disk,
    "folders without end": without_end(os.mkdir),
    "files without end": without_end(lambda place: open(place, "w").close()),
    "links without end": without_end(linked),
    "locks without end": many_locks,
    "room for more files": more_inodes,
    "timers without end": timers,
    "rights": rights,
    "watching files": lambda: ctypes.CDLL(None).inotify_init1(0) >= 0,
    "attributes of files": lambda: os.setxattr("/tmp", b"user.x", b"x") is None,
    "16 gigabytes of memory": memory,
    "16 gigabytes of shared memory": shared_memory,
    "many open files": descriptors,
    "memory without a file": lambda: os.memfd_create("x"),
    "root": root,
    "no limits": lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 62, 1 << 62)) is None,
    "a session of its own": lambda: os.setsid() is not None,
    "namespaces": lambda: ctypes.CDLL(None).unshare(0x10000000) == 0,
    "tracing": lambda: ctypes.CDLL(None).ptrace(0, 0, 0, 0) == 0,
    "another user": lambda: os.getuid() == 0 or os.geteuid() == 0,
}}

def train_dp(trainset_iter, epsilon, previous_model_state, previous_config):
    names = sorted(ATTEMPTS)
    got = [attempt(ATTEMPTS[name]) for name in names]
    return {{"found": pa.table({{"attempt": names, "succeeded": got}})}}
"""
FOUND = {"found": {"keys": ["attempt"], "columns": [["attempt", "string"], ["succeeded", "bool"]]}}


def train(code: str, limits: Limits = ROOMY, **changes: Any) -> ReleasedState | RunFailed:
    bundle = bundle_with(code)
    return train_team_code(
        described(bundle, **changes), bundle, ROWS, None, Confinement(Bubblewrap(), limits)
    )


def body(lines: str) -> str:
    """A `train_dp` of these lines."""
    return "def train_dp(trainset_iter, epsilon, state, config):\n" + "\n".join(
        f"    {line}" for line in lines.strip().splitlines()
    )


def test_the_sandbox_holds_on_this_machine(sandbox: BubblewrapSandbox) -> None:
    sandbox.check()


@pytest.mark.long
@pytest.mark.usefixtures("sandbox")
def test_good_code_trains_through_the_process_that_opens_rows(world: World) -> None:
    bundle = bundle_with(BY_ZONE)
    request = world.request(
        estimator=described(bundle, columns=["zone"], tables=ZONES, synthetic=None, epsilon=1.0),
        epsilon=0.5,
        bundle=bundle,
    )
    draft = world.runs(timeout_seconds=300).train(request, nothing)
    assert isinstance(draft, Draft)
    state = state_of(world, draft)
    assert state.tables["zones"].to_pydict() == {
        "zone": ["a", "b"],
        "rows": [4000.0, 0.5],  # what was granted, not what was registered
        "many": [True, False],
    }
    assert (state.meta["family"], state.loss.epsilon, state.meta["n_releases"]) == ("TeamCode", 0.5, 1)
    assert state.meta["params"]["bundle"] == request.estimator["params"]["bundle"]
    again = world.runs(timeout_seconds=300).train(
        world.request(
            estimator=request.estimator, epsilon=0.5, bundle=bundle, previous_state=state.to_files()
        ),
        nothing,
    )
    assert isinstance(again, Draft)
    continued = state_of(world, again)
    assert continued.tables["zones"]["rows"].to_pylist() == [8000.0, 0.5]
    assert continued.meta["n_releases"] == 2


NAMES_ROWS = """
import pyarrow as pa

def train_dp(trainset_iter, epsilon, previous_model_state, previous_config):
    zones = sorted({str(z) for t in trainset_iter for z in t["zone"].to_pylist()})
    return {"zones": pa.table({"zone": zones, "rows": [1.0] * len(zones), "many": [True] * len(zones)})}
"""


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize(("domain", "code"), [(["b", "a"], None), (["a", "other"], "undeclared-value")])
def test_texts_of_rows_leave_only_as_far_as_they_were_declared(
    world: World, domain: list[str], code: str | None
) -> None:
    bundle, tables = bundle_with(NAMES_ROWS), {"zones": {**ZONES["zones"], "domains": {"zone": domain}}}
    request = world.request(
        estimator=described(bundle, columns=["zone"], tables=tables, synthetic=None, epsilon=1.0),
        epsilon=0.5,
        bundle=bundle,
    )
    found = world.runs(timeout_seconds=300).train(request, nothing)
    assert isinstance(found, Draft) if code is None else found == RunFailed(code)


@pytest.mark.long
@pytest.mark.usefixtures("sandbox")
def test_hostile_code_gets_nowhere(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "catalog.db").write_text("secret")
    code = ATTEMPTS.format(home=str(tmp_path), parent=os.getpid())
    state = train(code, tables=FOUND, synthetic=None)
    assert isinstance(state, ReleasedState)
    found = dict(zip(*state.tables["found"].to_pydict().values(), strict=True))
    assert len(found) == 40
    assert [name for name, succeeded in found.items() if succeeded] == []


ENDS = {
    "raises what it read": "raise RuntimeError(str([t.to_pydict() for t in trainset_iter]))",
    "prints what it read, and leaves in peace": """
import os, sys
for number in (1, 2):
    os.write(number, str([t.to_pydict() for t in trainset_iter]).encode())
sys.exit(0)
""",
    "takes more memory than there is": "return {'hours': bytearray(64 << 30)}",
    "answers without end": """
import os, stat
for number in range(3, 64):
    try:
        while stat.S_ISFIFO(os.fstat(number).st_mode):
            os.write(number, bytes(1 << 20))
    except OSError:
        pass
""",
}


@pytest.mark.long
@pytest.mark.parametrize("name", ENDS)
@pytest.mark.usefixtures("sandbox")
def test_however_code_fails_one_code_is_told(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert train(body(ENDS[name])) == FAILED
    assert capfd.readouterr() == ("", "")


# One table of text in which each eight bytes become hundreds where it is read.
SWELLS = """
import json, os, sys

def train_dp(trainset_iter, epsilon, previous_model_state, previous_config):
    text = b"[" + b",".join([b'{"":{}}'] * 5_000_000) + b"]"
    header = {"rows": {"zones": 5_000_000}, "noise_std": {}, "noise_variance": {}, "defaults": {}}
    header["parts"] = [["zones/zone", len(text)], ["zones/rows", 0], ["zones/many", 0]]
    with os.fdopen(int(sys.argv[-1]), "wb") as pipe:
        pipe.write(json.dumps(header).encode() + b"\\n" + text)
    os._exit(0)
"""


@pytest.mark.long
@pytest.mark.usefixtures("sandbox")
def test_an_answer_that_fills_the_memory_of_its_reader_is_told_like_any_other_failure(world: World) -> None:
    bundle = bundle_with(SWELLS)
    request = world.request(
        estimator=described(bundle, columns=["zone"], tables=ZONES, synthetic=None, epsilon=1.0),
        epsilon=0.5,
        bundle=bundle,
    )
    assert world.runs(timeout_seconds=300, memory_bytes=1280 << 20).train(request, nothing) == FAILED


@pytest.mark.long
@pytest.mark.usefixtures("sandbox")
def test_code_that_never_ends_is_ended_with_all_that_it_started() -> None:
    mark = f"mark-{time.monotonic_ns()}"
    code = f'MARK = "{mark}"\n' + body("import time\nwhile True: time.sleep(1)")
    before = {p.pid for p in psutil.process_iter()}
    assert train(code, Limits(timeout_seconds=8.0, memory_bytes=4 << 30)) == FAILED
    left = [p for p in psutil.process_iter(["name"]) if p.pid not in before and p.info["name"] == "bwrap"]
    mine = [p for p in left if psutil.Process().pid in {parent.pid for parent in p.parents()}]
    assert mine == []


class Seen(Exception):
    """A sealed process was found; what it has open."""


@pytest.mark.usefixtures("sandbox")
@pytest.mark.skipif(os.getuid() != 0, reason="who is not root has no other user to give")
def test_a_run_has_a_user_that_is_nobody_elses_and_reaches_no_file_of_ours() -> None:
    def look() -> None:
        for child in psutil.Process().children(recursive=True):
            if child.name().startswith("python") and set(child.uids()) != {0}:
                assert len(set(child.uids())) == len(set(child.gids())) == 1
                assert child.uids().real >= 65_534
                raise Seen([file.path for file in child.open_files()])

    code = body("import time\nwhile True: time.sleep(1)")
    bundle = bundle_with(code)
    rows = pa.BufferOutputStream()
    with pa.ipc.new_stream(rows, ROWS.schema) as writer:
        writer.write_table(ROWS)
    header = {"do": "train", "estimator": dict(described(bundle)), "previous": None}
    parts = [("bundle", bundle), ("rows", memoryview(rows.getvalue()))]
    with pytest.raises(Seen) as seen:
        run_confined(Bubblewrap(), header, parts, ROOMY, look)
    assert seen.value.args == ([],)


def test_without_bubblewrap_nothing_is_run(tmp_path: Path) -> None:
    nowhere = Bubblewrap(str(tmp_path / "bwrap"))
    with pytest.raises(NoSandbox, match="bubblewrap"):
        BubblewrapSandbox(nowhere, ROOMY).check()
    bundle = bundle_with(GOOD)
    with pytest.raises(NoSandbox):
        BubblewrapSandbox(nowhere, ROOMY).examine(described(bundle), bundle, 0)
    made = train_team_code(described(bundle), bundle, ROWS, None, Confinement(nowhere, ROOMY))
    assert made == RunFailed("no-sandbox")


def fake_bubblewrap(folder: Path, text: str) -> Bubblewrap:
    program = folder / "bwrap"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return Bubblewrap(str(program))


@pytest.mark.parametrize(
    "text",
    [
        "exit 1",
        'echo "bwrap: No permissions to create new namespace" >&2; exit 1',
        'while [ "$1" != -I ]; do shift; done; exec "$PYTHON_NOWHERE" "$@"',
    ],
)
def test_a_bubblewrap_that_cannot_build_walls_runs_nothing(tmp_path: Path, text: str) -> None:
    with pytest.raises(NoSandbox):
        BubblewrapSandbox(fake_bubblewrap(tmp_path, text), ROOMY).check()


def test_code_that_hangs_in_its_examination_holds_up_few_others_and_the_rest_hear_at_once(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    hangs = BubblewrapSandbox(fake_bubblewrap(tmp_path, f"until [ -e {gate} ]; do sleep 0.1; done"), ROOMY)
    bundle = bundle_with(GOOD)
    with ThreadPoolExecutor(10) as pool:
        asked = [pool.submit(hangs.examine, described(bundle), bundle, 0, f"team{i}") for i in range(10)]
        try:
            first = [one.exception(timeout=60) for one in islice(as_completed(asked, timeout=60), 6)]
            assert [type(error) for error in first] == [Unavailable] * 6
            assert sum(one.done() for one in asked) == 6
        finally:
            gate.touch()
    assert sum(isinstance(one.exception(), NoSandbox) for one in asked) == 4  # their turn came


def test_a_team_whose_code_hangs_has_one_place_and_another_team_finds_its_own(tmp_path: Path) -> None:
    gate, begun = tmp_path / "gate", tmp_path / "begun"
    begun.mkdir()
    text = f"touch {begun}/$$; until [ -e {gate} ]; do sleep 0.1; done"
    hangs = BubblewrapSandbox(fake_bubblewrap(tmp_path, text), ROOMY)
    bundle = bundle_with(GOOD)
    with ThreadPoolExecutor(9) as pool:
        greedy = [pool.submit(hangs.examine, described(bundle), bundle, 0, "greedy") for _ in range(8)]
        try:
            refused = [one.exception(timeout=60) for one in islice(as_completed(greedy, timeout=60), 7)]
            assert [(type(e), getattr(e, "retry_after", 0) > 0) for e in refused] == [
                (TooManyRequests, True)
            ] * 7
            modest = pool.submit(hangs.examine, described(bundle), bundle, 0, "modest")
            until(lambda: len(list(begun.iterdir())) == 2)  # both have their turn
        finally:
            gate.touch()
    assert isinstance(modest.exception(), NoSandbox)
    assert sum(isinstance(one.exception(), NoSandbox) for one in greedy) == 1
    with pytest.raises(NoSandbox):  # and its place is free again
        hangs.examine(described(bundle), bundle, 0, "greedy")


def test_turns_come_in_the_order_of_asking_whoever_asks_again() -> None:
    turns, held, order = FairQueue(1, 3), threading.Event(), []

    def take(team: str) -> None:
        with turns.of(team, 60):
            order.append(team)
            held.wait(60)

    with ThreadPoolExecutor(4) as pool:
        taken = []
        for number, team in enumerate(("a", "b", "c", "d"), start=1):
            taken.append(pool.submit(take, team))
            until(lambda number=number: turns.taken == number)
        with pytest.raises(TooManyRequests), turns.of("a", 60):
            pass
        with pytest.raises(Unavailable), turns.of("e", 60):
            pass
        held.set()
    assert [one.exception() for one in taken] == [None] * 4
    assert order == ["a", "b", "c", "d"]
    assert turns.taken == 0


def test_who_waited_in_vain_leaves_no_place_behind() -> None:
    turns = FairQueue(1, 1)
    with turns.of("a", 60):
        with pytest.raises(Unavailable), turns.of("b", 0.01):
            pass
        assert turns.taken == 1
    with turns.of("b", 0.01):
        assert turns.taken == 1


@pytest.mark.usefixtures("sandbox")
def test_walls_that_let_something_through_are_seen_and_nothing_is_run(tmp_path: Path) -> None:
    weak = f'exec {Bubblewrap().argv()[0]} --bind {tmp_path} /store "$@"'
    program = fake_bubblewrap(tmp_path, weak).command
    with pytest.raises(NoSandbox, match="the store's files"):
        BubblewrapSandbox(Bubblewrap(program, ("/store",)), ROOMY).check()


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("uid", [0, 1000])
def test_no_namespace_is_shared_whoever_starts_it(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    monkeypatch.setattr(os, "getuid", lambda: uid)
    argv = Bubblewrap().argv()
    apart = {word for word in argv if word.startswith("--unshare-")}
    own_user = {"--unshare-user"} if uid else set()  # root becomes somebody else inside
    assert apart == own_user | {f"--unshare-{kind}" for kind in ("ipc", "pid", "net", "uts", "cgroup")}
    assert {"--clearenv", "--die-with-parent"} <= set(argv)
    assert "--bind" not in argv
    assert argv[argv.index("--cap-drop") + 1] == "ALL"


def test_a_store_that_the_sandbox_would_show_is_never_shown() -> None:
    inside = Path(pa.__file__).parent / "home"
    with pytest.raises(NoSandbox, match="home"):
        Bubblewrap(hidden=(str(inside),)).argv()


def test_a_breach_that_the_probe_tells_of_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = team_sandbox.Confined(message({"breaches": ["network"]}))  # type: ignore[attr-defined]
    monkeypatch.setattr(team_sandbox, "run_confined", lambda *_: answer)
    with pytest.raises(NoSandbox, match="network"):
        BubblewrapSandbox(Bubblewrap(), ROOMY).check()


# what comes out


def answer(rows: Any = 1, numbers: bytes = b"", texts: Any = ("a",), **more: Any) -> bytes:
    header = {"rows": {"zones": rows}, "noise_std": {}, "noise_variance": {}, "defaults": {}, **more}
    return message(
        header,
        [
            ("zones/zone", texts if isinstance(texts, bytes) else json.dumps(list(texts)).encode()),
            ("zones/rows", numbers or struct.pack("<d", 1.5)),
            ("zones/many", b"\x01"),
        ],
    )


ESTIMATOR: Mapping[str, Any] = described(bundle_with(GOOD), columns=["zone"], tables=ZONES, synthetic=None)


def test_an_answer_as_declared_is_a_state_that_says_what_we_say() -> None:
    state = state_from(answer(), ESTIMATOR, 3)
    assert state.tables["zones"].to_pydict() == {"zone": ["a"], "rows": [1.5], "many": [True]}
    assert state.spec() == ESTIMATOR
    assert (state.loss.epsilon, state.meta["n_releases"]) == (0.1, 3)


WRONG: dict[str, bytes] = {
    "nothing": b"",
    "no header": b"x" * 100,
    "a pickle": b"\x80\x04]\x94.",
    "a header without an end": b'{"rows": {}}',
    "a header that is a list": b"[]\n",
    "deep nesting": b"[" * 100_000 + b"\n",
    "a table that is missing": message({"rows": {}, "noise_std": {}, "noise_variance": {}, "defaults": {}}),
    "a table more": answer().replace(b'{"zones": 1}', b'{"zones": 1, "other": 1}'),
    "a field more": answer(told="x"),
    "a loss of its own": answer(loss={"epsilon": 0}),
    "more rows than numbers": answer(rows=2),
    "fewer rows than numbers": answer(rows=0),
    "rows below nothing": answer(rows=-1),
    "rows that are no number": answer(rows=True),
    "very many rows": answer(rows=2**40),
    "a number that is none": answer(numbers=struct.pack("<d", float("nan"))),
    "an infinite number": answer(numbers=struct.pack("<d", float("inf"))),
    "half a number": answer(numbers=b"1234"),
    "texts that are numbers": answer(texts=(1,)),
    "texts that are none": answer(texts=(None,)),
    "texts that are no JSON": answer(texts=b"\xff"),
    "a text that is no unicode": answer(texts=b'["\\ud800"]'),
    "something behind the end": answer() + b"x",
    "less than announced": answer()[:-1],
    "noise that is a text": answer(noise_std={"zones": {"rows": "x"}}),
    "noise that is a list": answer(noise_variance=[]),
    "noise of a column that is not declared": answer(noise_std={"zones": {"a\0b": 1.0}}),
    "noise of a table that is not declared": answer(noise_std={"a\0b": {}}),
    "noise of a component that is no word": answer(noise_variance={"a\0b": 1.0}),
    "a default of a column that is not declared": answer(defaults={"zones": {"\ud800": 1.0}}),
}


@pytest.mark.parametrize("name", WRONG)
def test_any_other_answer_is_not_as_declared(name: str) -> None:
    with pytest.raises(NotAsDeclared):
        state_from(WRONG[name], ESTIMATOR, 1)


def test_limits_bind_what_a_process_may_take() -> None:
    limits = dict(Seal(1, 2**30, 60).limits)
    assert sorted(limits.values()) == sorted([2**30, 60, 64 * 2**20, 64, 64, 64, 0, 0, 0])
