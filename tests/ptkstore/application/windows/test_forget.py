"""Forgetting a unit: gone from every kept window, whatever runs at the same time, and nothing tells who was there."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ptkstore.domain.streams.schemas import ColumnType, Schema
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import WindowId, WindowState
from ptkstore.errors import CorruptObject, InvalidRequest, Refused, UnknownName
from tests.support.ridden import (
    IN_WINDOW,
    OF_USERS,
    USERS,
    bare,
    by_city,
    close,
    register,
    rides,
    spent,
    stream,
)
from tests.support.world import DAY, ORIGIN, STREAM, World

__all__ = ["bare"]

TENTH = 10**8


@pytest.fixture
def rode(bare: World) -> World:
    """Ann and Bob rode in three windows: one trained on, one closed, one open."""
    stream(bare, retention_windows=5, **IN_WINDOW)
    register(bare, estimator=by_city(0.1, **OF_USERS))
    for day in range(3):
        bare.service.ingest("rides", rides(day + 0.5, ["ann", "bob", "ann"]))
    close(bare, 1)
    bare.work()
    close(bare, 2)
    return bare


def users(world: World, stream_name: str = "rides") -> dict[str, list[str]]:
    """Users by file, read with the windows' own keys."""
    raw, keys = world.service.raw, world.service.keys
    found: dict[str, list[str]] = {}
    for name in raw.files(stream_name):
        _, index, kind, file = name.split("/")
        window = WindowId(stream_name, int(index))
        key = keys.sealing_key(window)
        if kind == "parts":
            table = raw.read_part(raw.part_url(window, int(file.split(".")[0])), key)
        else:
            (table,) = raw.read_batches(window, [file.split(".")[0]], key)
        found[name] = table["user"].to_pylist()
    return found


def everybody(world: World) -> set[str]:
    return {user for file in users(world).values() for user in file}


def test_a_forgotten_user_is_in_no_file_of_any_window_and_the_others_are_as_before(rode: World) -> None:
    before = users(rode)
    assert len(before) == 3 + 3
    assert rode.service.forget("rides", "ann") is None
    assert users(rode) == {name: [u for u in file if u != "ann"] for name, file in before.items()}
    rode.service.forget("rides", "ann")
    assert everybody(rode) == {"bob"}


def test_spends_and_states_stay_and_later_trainings_go_on_without_the_user(rode: World) -> None:
    rode.service.forget("rides", "ann")
    assert spent(rode) == {2: TENTH}
    rode.work()
    assert [v.number for v in rode.service.versions("taxi.speed")] == [1, 2]
    assert everybody(rode) == {"bob"}
    assert rode.service.verify_ledger("rides").faults == ()


def test_nobody_can_tell_whether_there_was_such_a_user(rode: World, tmp_path: Path) -> None:
    """Same answer, same files written, at the next tick."""
    root = Path(rode.service.settings.raw)
    seen = []
    for unit in ("ann", "nobody"):
        before = {path: path.stat().st_ino for path in root.rglob("*.parquet")}
        answer = rode.service.forget("rides", unit)
        after = {path: path.stat().st_ino for path in root.rglob("*.parquet")}
        seen.append((answer, set(after), {path for path in after if after[path] != before[path]}))
    assert seen[0] == seen[1] == (None, set(before), set(before))
    with rode.service.begin() as uow:
        everything = " ".join(
            str(row)
            for (table,) in uow._connection.exec_driver_sql(  # type: ignore[attr-defined]
                "SELECT name FROM sqlite_master WHERE type = 'table'"
            )
            for row in uow._connection.exec_driver_sql(f'SELECT * FROM "{table}"')  # type: ignore[attr-defined]
        )
    assert not re.search(r"\bann\b|nobody", everything)


def test_an_erasure_ends_on_a_tick(rode: World, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    rode.clock.time += timedelta(milliseconds=30)  # ticks are 100 ms apart
    rode.service.forget("rides", "ann")
    assert waits == [pytest.approx(0.07)]

    def damaged() -> None:
        raise CorruptObject("damaged")

    rode.eraser.meanwhile = damaged
    with pytest.raises(CorruptObject):
        rode.service.forget("rides", "ann")
    assert waits == [pytest.approx(0.07)] * 2


def test_under_the_record_unit_nobody_can_be_named(world: World) -> None:
    world.ingest()
    with pytest.raises(Refused, match="random id that nobody is told"):
        world.service.forget(STREAM, "z")


def test_an_unknown_stream_is_said_to_be_unknown(bare: World) -> None:
    with pytest.raises(UnknownName):
        bare.service.forget("rides", "ann")


@pytest.mark.parametrize(
    ("kind", "unit"),
    [
        (ColumnType.INT64, "canary"),
        (ColumnType.INT64, "1_0"),
        (ColumnType.INT64, "\uff11"),
        (ColumnType.INT64, True),
        (ColumnType.INT64, 1.0),
        (ColumnType.INT64, 2**63),
        (ColumnType.INT64, str(2**63)),
        (ColumnType.INT64, "9" * 5000),
        (ColumnType.STRING, 7),
    ],
    ids=lambda value: repr(value)[:12],
)
def test_a_unit_of_another_type_is_refused_without_a_word_of_it(
    bare: World, kind: ColumnType, unit: Any
) -> None:
    stream(bare, **IN_WINDOW)
    (known,) = bare.service.streams()
    schema = Schema((("at", ColumnType.TIMESTAMP), ("user", kind)), "at")
    bare.service.create_stream(Stream("others", "taxi", schema, known.policy))
    with pytest.raises(InvalidRequest, match="as in column 'user'") as refusal:
        bare.service.forget("others", unit)
    assert str(unit) not in str(refusal.value)


def test_numbers_may_be_given_as_text(bare: World) -> None:
    stream(bare, **IN_WINDOW)
    (known,) = bare.service.streams()
    schema = Schema(tuple((n, ColumnType.INT64 if n == "user" else k) for n, k in known.schema.columns), "at")
    bare.service.create_stream(Stream("others", "taxi", schema, known.policy))
    table = rides(0.5, ["1", "-7", "10"])
    bare.service.ingest("others", table.set_column(1, "user", table["user"].cast(pa.int64())))
    bare.service.forget("others", "-7")
    bare.service.forget("others", 1)
    assert list(users(bare, "others").values()) == [[10]]


# at the same time


def test_a_preparation_waits_for_an_erasure_and_writes_no_forgotten_row(rode: World) -> None:
    """Whoever prepares while a window is rewritten would write back what it had read before."""

    def preparing() -> None:
        assert rode.service.work_on("prepare/rides/1")

    thread = threading.Thread(target=preparing)

    def start() -> None:
        thread.start()
        thread.join(0.3)
        assert thread.is_alive(), "the preparation did not wait"

    once: list[Callable[[], None]] = [start]
    forget = rode.eraser.forget

    def watched(request: Any, keep_alive: Any) -> None:
        if request.window.index == 1 and once:
            once.pop()()
        forget(request, keep_alive)

    rode.eraser.forget = watched  # type: ignore[method-assign]
    rode.service.forget("rides", "ann")
    thread.join(30)
    assert rode.state(1, "rides") is WindowState.PREPARED
    assert everybody(rode) == {"bob"}


def test_an_erasure_waits_for_a_preparation(rode: World) -> None:
    thread = threading.Thread(target=lambda: rode.service.forget("rides", "ann"))

    def start() -> None:
        thread.start()
        thread.join(0.3)
        assert thread.is_alive(), "the erasure did not wait"

    rode.preparer.meanwhile = start
    rode.work("prepare")
    thread.join(30)
    assert everybody(rode) == {"bob"}


def test_two_erasures_at_once_lose_neither(rode: World) -> None:
    """One begins when the other has read a file and not yet replaced it."""
    thread = threading.Thread(target=lambda: rode.service.forget("rides", "bob"))
    rewrite = rode.service.raw.rewrite

    def slow(window: WindowId, change: Any, key: bytes) -> None:
        def changed(table: Any) -> Any:
            if not thread.ident:
                thread.start()
                thread.join(0.5)
            return change(table)

        rewrite(window, changed, key)

    rode.service.raw.rewrite = slow  # type: ignore[method-assign]
    rode.service.forget("rides", "ann")
    thread.join(30)
    assert everybody(rode) == set()


def test_a_window_that_expires_during_an_erasure_leaves_no_file(rode: World) -> None:
    def expire() -> None:
        close(rode, 7)
        rode.work("expire")
        assert rode.state(0, "rides") is WindowState.EXPIRED

    rewrite = rode.service.raw.rewrite

    def slow(window: WindowId, change: Any, key: bytes) -> None:
        def changed(table: Any) -> Any:
            if window.index == 0 and rode.state(0, "rides") is not WindowState.EXPIRED:
                expire()
            return change(table)

        rewrite(window, changed, key)

    rode.service.raw.rewrite = slow  # type: ignore[method-assign]
    rode.service.forget("rides", "ann")
    assert [name for name in rode.service.raw.files("rides") if name.startswith("rides/0/")] == []
    assert everybody(rode) == {"bob"}


def test_a_damaged_window_is_told_and_the_others_are_rewritten(rode: World) -> None:
    (batch,) = (Path(rode.service.settings.raw) / "rides/0/batches").iterdir()
    batch.write_bytes(batch.read_bytes()[:-5])
    with pytest.raises(CorruptObject):
        rode.service.forget("rides", "ann")
    batch.unlink()
    assert everybody(rode) == {"bob"}


def test_an_ingest_that_comes_later_brings_new_rows(rode: World) -> None:
    rode.service.forget("rides", "ann")
    rode.service.ingest("rides", rides(2.6, ["ann"]))
    assert everybody(rode) == {"ann", "bob"}


def test_users_of_shards_are_forgotten_too(bare: World) -> None:
    stream(bare, **USERS)
    bare.service.ingest("rides", rides(0.5, ["ann", "bob"]))
    bare.service.forget("rides", "ann")
    assert everybody(bare) == {"bob"}


# what is kept


def test_the_exposure_of_a_stream_names_every_window_until_it_is_gone(rode: World) -> None:
    found = rode.service.exposure("rides")
    assert found.holds
    assert found.since == found.allowed_since == ORIGIN
    assert [(k.window.id.index, k.until) for k in found.kept] == [
        (0, ORIGIN + 6 * DAY),
        (1, ORIGIN + 7 * DAY),
    ]
    assert found.open_since == ORIGIN + 2 * DAY
    close(rode, 7)
    late = rode.service.exposure("rides")
    assert (late.holds, late.overdue) == (False, (0, 1))
    assert (late.since, late.allowed_since) == (ORIGIN, ORIGIN + 2 * DAY)
    rode.work("expire")
    done = rode.service.exposure("rides")
    assert (done.holds, done.since) == (True, ORIGIN + 2 * DAY)


def test_what_is_left_of_an_expired_window_is_found(rode: World) -> None:
    close(rode, 7)
    rode.work("expire")
    rode.service.raw.write_part(WindowId("rides", 1), 0, rides(0.5, ["ann"]), bytes(32))
    found = rode.service.exposure("rides")
    assert (found.holds, found.remains, found.since) == (False, (1,), ORIGIN + DAY)
    rode.service.raw.delete_window(WindowId("rides", 1))
    draft = f"rides.0.{'a' * 32}"
    rode.service.staging.write(draft, {"state.json": b"{}"}, rode.service.keys.draft_key(draft))
    assert rode.service.exposure("rides").remains == (0,)


def test_the_exposure_of_a_window_does_not_depend_on_its_rows(bare: World) -> None:
    stream(bare, **IN_WINDOW)
    empty = bare.service.exposure("rides")
    bare.service.ingest("rides", rides(0.5, ["ann"]))
    bare.service.ingest("rides", rides(3.5, ["ann"]))
    assert bare.service.exposure("rides") == empty
    close(bare, 4)
    closed = bare.service.exposure("rides")
    bare.work("prepare")
    assert closed.overdue == (0, 1)
    assert bare.service.exposure("rides").overdue == (0, 1)
