"""A version's history is there whole, the old one or the new, whoever else writes it, fails or is killed on the way."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ptkstore.adapters.feast import FeastFeatureStore
from ptkstore.adapters.feast.publishing import history as history_module
from ptkstore.adapters.feast.publishing.history import History
from ptkstore.adapters.feast.tables import ViewTable
from ptkstore.errors import Conflict, CorruptObject, Unavailable

VIEW = "taxi__speed_by_hour"
START = datetime(2026, 1, 1, tzinfo=UTC)
HOURS = list(range(10))
FEWER = [1, 2, 3]
FAILING = ("mkdir", "link", "fsync", "rename", "replace", "utime")
STEPS = (*FAILING, "unlink", "rmdir")
FORK = multiprocessing.get_context("fork")


def put(history: History, version: int, hours: list[int], after: int | None) -> None:
    rows = {
        "hour": pa.array(hours, pa.int64()),
        "value": [float(version)] * len(hours),
        "ptk_version": pa.array([version] * len(hours), pa.int64()),
    }
    at = START + timedelta(days=version)
    made = ViewTable(VIEW, ("hour",), pa.table(rows))
    with history.written(made, version, as_of=at, published_at=at, after=after) as put:
        put()


def hours_of(history: History, version: int) -> list[int]:
    rows = pq.read_table(history.path(VIEW, version))
    return sorted(row["hour"] for row in rows.to_pylist() if row["ptk_version"] == version)


def hidden(history: History) -> list[str]:
    folder = history.repo / "history" / VIEW
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


@contextmanager
def before_step(number: int, names: tuple[str, ...], do: Callable[[], None]) -> Iterator[list[str]]:
    """Do something before so manieth step that changes what lies on the disk; gives the names of those made."""
    made: list[str] = []

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **more: Any) -> Any:
            made.append(name)
            if len(made) == number:
                do()
            return real(*args, **more)

        return step

    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setattr(os, name, counted(name, getattr(os, name)))
        if (placing := getattr(history_module, "place", None)) is not None:
            patch.setitem(
                placing.__globals__, "exchange", counted("exchange", placing.__globals__["exchange"])
            )
        yield made


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def refuse() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    """Two versions, in parts of their own."""
    monkeypatch.setattr(history_module, "_SMALL_ROWS", 5)
    made = History(tmp_path / "feast")
    put(made, 1, HOURS, None)
    put(made, 2, HOURS, 1)
    return made


def as_on_nfs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two names cannot be swapped there in one step."""
    monkeypatch.setattr("ptkstore.adapters.feast.publishing.history_folders.exchange", lambda *_: False)


def killed_at_each_step(history: History, work: Callable[[], None]) -> Iterator[None]:
    """Does the work in a child that is killed before its first step, then anew before its second, and so on.

    Gives every state that this leaves, and last that of a child which was not killed.
    """
    kept = history.repo.with_name("kept")
    shutil.copytree(history.repo, kept)
    for number in range(1, 200):
        shutil.rmtree(history.repo)
        shutil.copytree(kept, history.repo)

        def until(number: int = number) -> None:
            with before_step(number, STEPS, die):
                work()

        child = FORK.Process(target=until)
        child.start()
        child.join(60)
        assert child.exitcode in {0, -signal.SIGKILL}
        yield
        if child.exitcode == 0:
            return


@pytest.mark.long
@pytest.mark.parametrize("again", [HOURS, FEWER], ids=["same rows", "other rows"])
def test_a_kill_before_any_step_leaves_the_old_version_or_the_new(history: History, again: list[int]) -> None:
    found = []
    for _ in killed_at_each_step(history, lambda: put(history, 2, again, 1)):
        found.append(hours_of(history, 2))
        assert found[-1] in (HOURS, again)
        put(history, 3, HOURS, 2)
        assert set(history.ends(VIEW, 3)) == {1, 2, 3}
    assert found[-1] == again
    assert len(found) > 10


@pytest.mark.long
@pytest.mark.parametrize("again", [HOURS, FEWER], ids=["same rows", "other rows"])
def test_a_kill_without_swaps_is_never_taken_for_a_history_of_nothing(
    history: History, monkeypatch: pytest.MonkeyPatch, again: list[int]
) -> None:
    as_on_nfs(monkeypatch)
    for _ in killed_at_each_step(history, lambda: put(history, 2, again, 1)):
        if not history.path(VIEW, 2).exists():
            assert again == FEWER  # what is the same stays where it is
            with pytest.raises(CorruptObject, match=f"the history of {VIEW} v2 is not there"):
                put(history, 3, HOURS, 2)
            put(history, 2, again, 1)
        put(history, 3, HOURS, 2)
        assert set(history.ends(VIEW, 3)) == {1, 2, 3}
    assert hours_of(history, 2) == again


def test_a_refusal_at_any_step_is_unavailable_and_leaves_nothing_behind(history: History) -> None:
    told = set()
    for number in range(1, 200):
        hours = FEWER if number % 2 else HOURS
        before = hours_of(history, 2)
        with before_step(number, FAILING, refuse) as made:
            try:
                put(history, 2, hours, 1)
            except Unavailable as error:
                told.add(str(error))
        assert hours_of(history, 2) in (before, hours)
        assert hidden(history) == []
        put(history, 2, HOURS, 1)
        if len(made) < number:
            break
    assert told == {f"the history of {VIEW} v2 cannot be written (ENOSPC)"}
    assert number > 10


@pytest.mark.long
@pytest.mark.parametrize("swaps", [True, False], ids=["swaps", "no swaps"])
@pytest.mark.parametrize("contents", [[HOURS], [HOURS, FEWER]], ids=["same rows", "other rows"])
def test_two_who_write_one_version_disturb_neither_each_other_nor_readers(
    history: History, monkeypatch: pytest.MonkeyPatch, contents: list[list[int]], swaps: bool
) -> None:
    if not swaps:
        as_on_nfs(monkeypatch)
    ended = threading.Event()

    def write(hours: list[int]) -> None:
        for _ in range(200 if len(contents) == 1 else 50):
            put(history, 2, hours, 1)

    def read() -> int:
        reads = 0
        while not ended.is_set():
            if len(contents) == 1:  # before a version has readers it may still become another
                assert hours_of(history, 2) == HOURS
                assert set(history.ends(VIEW, 2)) == {1, 2}
            elif swaps:
                assert history.path(VIEW, 2).exists()
            reads += 1
        return reads

    with ThreadPoolExecutor(3) as threads:
        reader = threads.submit(read)
        writers = [threads.submit(write, contents[n % len(contents)]) for n in range(2)]
        failures = [writer.exception() for writer in writers]
        ended.set()
    assert failures == [None, None]
    assert reader.result() > 10
    assert hours_of(history, 2) in contents
    assert hidden(history) == []


def test_a_writer_who_was_slow_puts_nothing_half_in_place(history: History) -> None:
    made = ViewTable(VIEW, ("hour",), pa.table({"hour": [1], "ptk_version": [3]}))
    at = START + timedelta(days=3)
    with history.written(made, 3, as_of=at, published_at=at, after=None) as place:
        (folder,) = [history.repo / "history" / VIEW / name for name in hidden(history)]
        os.utime(folder, (time.time() - 7_200.0,) * 2)
        put(history, 2, FEWER, 1)  # throws away what was left
        with pytest.raises(Unavailable, match=r"v3 cannot be written \(ENOENT\)"):
            place()
    assert history.versions(VIEW) == [1, 2]
    assert hidden(history) == []


@pytest.mark.parametrize("gone", ["replaced", "thrown away"])
def test_a_file_of_an_older_store_gives_way_to_a_folder(history: History, gone: str) -> None:
    whole = pq.read_table(history.path(VIEW, 2))
    shutil.rmtree(history.path(VIEW, 2))
    pq.write_table(whole, history.path(VIEW, 2))
    if gone == "replaced":
        put(history, 2, FEWER, 1)
        assert hours_of(history, 2) == FEWER
        assert history.path(VIEW, 2).is_dir()
    else:
        history.delete(VIEW, 2)
        assert history.versions(VIEW) == [1]
    assert hidden(history) == []


# with the registry, which says what is served


@contextmanager
def held_up_in_its_history(
    monkeypatch: pytest.MonkeyPatch, work: Callable[[], None]
) -> Iterator[Future[None]]:
    """Somebody who found out what is served, and then does nothing until the block's end."""
    real = history_module.dated
    waits, go_on = threading.Event(), threading.Event()
    others = threading.get_ident()

    def slow(*args: Any) -> pa.Table:
        if threading.get_ident() != others:
            waits.set()
            assert go_on.wait(60)
        return real(*args)

    monkeypatch.setattr(history_module, "dated", slow)
    with ThreadPoolExecutor(1) as thread:
        try:
            held_up = thread.submit(work)
            assert waits.wait(60)
            yield held_up
        finally:
            go_on.set()


def inodes(history: History, version: int) -> set[int]:
    path = history.path(VIEW, version)
    return {one.stat().st_ino for one in (path, *path.iterdir())}


@pytest.mark.real
def test_who_goes_on_after_the_flip_leaves_the_served_version_as_it_is(
    light_repo: Path, light_store: FeastFeatureStore, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(light_repo)
    make.publish(light_store, make.state(1))
    with held_up_in_its_history(monkeypatch, lambda: light_store.stage(make.state(2))) as held_up:
        make.publish(light_store, make.state(2))
        served = inodes(history, 2)
    assert held_up.exception() is None
    assert inodes(history, 2) == served
    assert hidden(history) == []


@pytest.mark.real
def test_who_goes_on_after_another_version_was_served_stages_again(
    light_repo: Path, light_store: FeastFeatureStore, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(light_repo)
    make.publish(light_store, make.state(1))
    with held_up_in_its_history(monkeypatch, lambda: light_store.stage(make.state(3))) as held_up:
        make.publish(light_store, make.state(2))
    with pytest.raises(Conflict, match=f"another version of {VIEW} came before v3"):
        held_up.result()
    with pytest.raises(Conflict, match="v3 is not staged"):
        light_store.flip(make.state(3))
    make.publish(light_store, make.state(3))
    assert set(history.ends(VIEW, 3)) == {1, 2, 3}


@pytest.mark.real
def test_a_served_version_whose_history_is_lost_stops_the_next_one(
    light_repo: Path, light_store: FeastFeatureStore, make: Any
) -> None:
    history = History(light_repo)
    make.publish(light_store, make.state(1), make.state(2))
    kept = light_repo / "kept"
    history.path(VIEW, 2).rename(kept)
    for _ in range(2):
        with pytest.raises(CorruptObject, match=f"the history of {VIEW} v2 is not there"):
            light_store.stage(make.state(3))
    light_store.stage(make.state(2))  # its rows can be had again, on top of those before
    assert set(history.ends(VIEW, 2)) == {1, 2}
    make.publish(light_store, make.state(3))
    assert set(history.ends(VIEW, 3)) == {1, 2, 3}


@pytest.mark.real
def test_a_registry_restored_without_any_history_begins_one(
    light_repo: Path, light_store: FeastFeatureStore, make: Any
) -> None:
    """As on a new machine, where the registry comes with the database's dump."""
    history = History(light_repo)
    make.publish(light_store, make.state(1), make.state(2))
    shutil.rmtree(light_repo / "history" / VIEW)
    light_store.stage(make.state(3))
    light_store.stage(make.state(3))  # as after a crash
    light_store.flip(make.state(3))
    make.publish(light_store, make.state(4))
    assert set(history.ends(VIEW, 4)) == {3, 4}
