from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

import pytest

from ptkstore.adapters.keys import AesGcmSealer
from ptkstore.adapters.objects import FsspecLake, FsspecRawZone
from ptkstore.adapters.objects.local import LocalPlace
from ptkstore.adapters.objects.places import place_at
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import UnknownName
from tests.support.published import PTK, a_version, content

FILES = content(b"one" * 10_000, b"two" * 10_000)
FOLDER = "ptks/taxi.speed/v00000001"

PUTS = """
import sys
from ptkstore.adapters.objects import FsspecLake
from ptkstore.errors import InvariantBroken
from tests.support.published import a_version, content
files = content(b"one" * 10_000, b"two" * 10_000)
lake = FsspecLake(sys.argv[1])
versions = [a_version(files, number=n, tau=float(sys.argv[2])) for n in range(1, 6)]
print("ready", flush=True)
sys.stdin.readline()
for version in versions:
    try:
        lake.put_version(version, files)
        print("placed", flush=True)
    except InvariantBroken:
        print("refused", flush=True)
"""


def racing(tree: str, taus: tuple[float, ...], repository: Path) -> list[list[str]]:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", PUTS, tree, str(tau)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=repository,
        )
        for tau in taus
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    return [writer.communicate(timeout=60)[0].split() for writer in writers]


@pytest.mark.long
def test_two_processes_placing_the_same_versions_both_succeed(tree: str, repository: Path) -> None:
    assert racing(tree, (0.5, 0.5), repository) == [["placed"] * 5] * 2
    lake = FsspecLake(tree)
    assert all(lake.holds(a_version(FILES, number=n, tau=0.5)) for n in range(1, 6))
    assert all(lake.read_version(PTK, n)[1] == FILES for n in range(1, 6))
    assert len(place_at(tree, private=False).find("")) == 15  # no temporary file is left


@pytest.mark.long
def test_of_two_processes_placing_different_versions_one_wins_each(tree: str, repository: Path) -> None:
    outcomes = racing(tree, (0.25, 0.75), repository)
    for number, answers in enumerate(zip(*outcomes, strict=True), start=1):
        assert sorted(answers) == ["placed", "refused"]
        won = (0.25, 0.75)[answers.index("placed")]
        assert FsspecLake(tree).read_version(PTK, number)[0]["tau"] == won


def killed_at(call: str, step: int, root: Path) -> bool:
    """Put a version in a fork that dies before its `step`-th use of a call; whether it came to that."""
    pid = os.fork()
    if pid == 0:
        real, left = getattr(os, call), iter(range(step))

        def dying(*arguments: object, **options: object) -> object:
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        setattr(os, call, dying)
        FsspecLake(str(root)).put_version(a_version(FILES), FILES)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, -signal.SIGKILL)
    return code != 0


@pytest.mark.parametrize("call", ["link", "fsync", "open"])
def test_a_writer_killed_at_any_step_leaves_a_version_that_is_whole_or_absent(
    tmp_path: Path, call: str
) -> None:
    version, outcomes = a_version(FILES), []
    for step in range(60):
        root = tmp_path / str(step)
        killed = killed_at(call, step, root)
        lake = FsspecLake(str(root))
        outcomes.append(lake.holds(version))
        if outcomes[-1]:
            assert lake.read_version(PTK, 1)[1] == FILES
        else:
            with pytest.raises(UnknownName):
                lake.read_version(PTK, 1)
        lake.put_version(version, FILES)  # whoever comes next finishes and cleans up
        assert lake.read_version(PTK, 1)[1] == FILES
        assert len(list((root / FOLDER).iterdir())) == 3
        if not killed:
            break
    assert not killed
    assert outcomes[0] is False
    assert outcomes[-1] is True
    assert len(outcomes) > 3


def test_what_a_dead_writer_left_is_cleaned_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    lake, folder = FsspecLake(str(tmp_path)), tmp_path / FOLDER
    folder.mkdir(parents=True)
    dead, living = folder / ".unfinished-dead", folder / ".unfinished-living"
    dead.write_bytes(b"half a fi")
    living.write_bytes(b"half a fi")
    with living.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        lake.put_version(a_version(FILES), FILES)
    assert not dead.exists()
    assert living.exists()


def test_a_file_deleted_before_its_writer_had_locked_it_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, real, stolen = LocalPlace(tmp_path, private=False), fcntl.flock, list[int]()

    def cleaner_first(file: int, operation: int) -> None:
        if not stolen:
            stolen.append(file)
            place.clean("d")
        real(file, operation)

    monkeypatch.setattr(fcntl, "flock", cleaner_first)
    assert place.create("d/f", b"content")
    assert place.read("d/f") == b"content"
    assert place.find("") == ("d/f",)


def test_a_file_that_a_cleaner_locked_first_is_written_under_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, real, held = LocalPlace(tmp_path, private=False), fcntl.flock, list[IO[bytes]]()

    def cleaner_first(file: int, operation: int) -> None:
        if not held:
            (unfinished,) = (tmp_path / "d").iterdir()
            held.append(unfinished.open("rb"))
            real(held[0], fcntl.LOCK_EX)
        real(file, operation)

    monkeypatch.setattr(fcntl, "flock", cleaner_first)
    assert place.create("d/f", b"content")
    held[0].close()
    assert place.find("") == ("d/f",)


def test_a_file_is_not_cleaned_away_between_writing_and_naming_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, real = LocalPlace(tmp_path, private=False), os.link

    def cleaner_first(source: Path, target: Path) -> None:
        place.clean("d")
        real(source, target)

    monkeypatch.setattr(os, "link", cleaner_first)
    assert place.create("d/f", b"content")
    assert place.read("d/f") == b"content"


def test_writers_into_a_folder_that_is_being_deleted_land_or_are_deleted(tmp_path: Path) -> None:
    place, stop = LocalPlace(tmp_path / "tree", private=True), threading.Event()

    def delete_again_and_again() -> None:
        while not stop.wait(0.01):
            place.delete("a")

    deleter = threading.Thread(target=delete_again_and_again)
    deleter.start()
    try:
        for number in range(60):
            assert place.create(f"a/b/{number}", b"x")
    finally:
        stop.set()
        deleter.join()
    place.delete("a")
    assert place.find("") == ()


def test_racing_creators_of_one_name_have_one_winner(tree: str) -> None:
    place, winners = place_at(tree, private=True), []

    def create(writer: int) -> None:
        for number in range(10):
            if place.create(f"d/{number}", str(writer).encode()):
                winners.append((number, writer))

    threads = [threading.Thread(target=create, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(number for number, _ in winners) == list(range(10))
    assert all(place.read(f"d/{number}") == str(writer).encode() for number, writer in winners)


RAW_DIES = """
import os, signal, sys
import pyarrow as pa
from ptkstore.adapters.keys import AesGcmSealer
from ptkstore.adapters.objects import FsspecRawZone
from ptkstore.domain.streams.windows import WindowId
os.replace = os.link = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
rows = pa.table({"zone": ["canary-77aa01"] * 100})
getattr(FsspecRawZone(sys.argv[1], AesGcmSealer()), sys.argv[2])(
    WindowId("taxi", 0), "1" if sys.argv[2] == "write_batch" else 1, rows, bytes(32)
)
"""


@pytest.mark.long
@pytest.mark.parametrize("call", ["write_batch", "write_part"])
def test_a_killed_writer_of_rows_leaves_nothing_legible_and_its_window_takes_it_away(
    tmp_path: Path, repository: Path, sealer: AesGcmSealer, call: str
) -> None:
    arguments = [sys.executable, "-c", RAW_DIES, str(tmp_path), call]
    assert subprocess.run(arguments, check=False, timeout=60, cwd=repository).returncode == -signal.SIGKILL
    zone = FsspecRawZone(str(tmp_path), sealer)
    assert list(zone.read_batches(WindowId("taxi", 0), ["1"], bytes(32))) == []
    (left,) = zone.files()
    data = (tmp_path / left).read_bytes()
    assert len(data) > 500
    assert b"canary" not in data
    assert os.stat(tmp_path / left).st_mode & 0o077 == 0
    zone.delete_window(WindowId("taxi", 0))
    assert zone.files() == ()
