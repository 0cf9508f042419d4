"""Ingest: what is refused and why, what is stored, and nothing twice or half."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ptkstore.adapters.objects import local
from ptkstore.application.ingest import event_tables
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import Conflict, InvalidRequest, OutcomeUnknown, SchemaMismatch, Unavailable, UnknownName
from tests.support.world import DAY, NOW, ORIGIN, STREAM, World, trips, unheard_batch

NAT = np.iinfo(np.int64).min


def stamps(*micros: int | None, unit: str = "us", tz: str | None = "UTC") -> pa.Array:
    return pa.array(micros, pa.int64()).cast(pa.timestamp(unit, tz))


def rows_of(world: World, window: int = 0) -> list[float]:
    """Speeds that lie in the parts of a closed window, read with its key."""
    world.work("prepare")
    key = world.service.keys.sealing_key(window_id(window))
    raw = world.service.raw
    parts = [raw.read_part(raw.part_url(window_id(window), part), key) for part in range(3)]
    return sorted(value for part in parts for value in part["speed"].to_pylist())


def failing_after_the_link() -> Callable[[Path], None]:
    real = local._sync

    def sync(folder: Path) -> None:
        if folder.name == "batches" and any(folder.glob("*.parquet")):
            raise OSError(errno.EIO, "broken")
        real(folder)

    return sync


def window_id(index: int) -> WindowId:
    return WindowId(STREAM, index)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (trips().drop_columns(["hour"]), "missing columns: hour"),
        (trips().append_column("extra", pa.array([1])), "unknown columns: extra"),
        (pa.Table.from_arrays([*trips().columns, trips()["hour"]], [*trips().column_names, "hour"]), "twice"),
        (pa.table({"at": [1]}), "missing columns"),
        (pa.table({}), "missing columns"),
        (trips(hour=pa.array([1.5])), "'hour' is double"),
        (trips(hour=pa.array(["7"])), "'hour' is string"),
        (trips(speed=pa.array([True])), "'speed' is bool"),
        (trips(zone=pa.array([7])), "'zone' is int64"),
        (trips(zone=pa.array([b"z"])), "'zone' is binary"),
        (trips(zone=pa.array([["z"]])), "'zone' is list"),
        (trips(long=pa.array([1])), "'long' is int64"),
        (trips(at=pa.array(["2026-01-05"])), "'at' is string"),
        (trips(at=pa.array([datetime(2026, 1, 5).date()])), "'at' is date32"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_table_of_another_shape_is_refused_whole(world: World, table: pa.Table, says: str) -> None:
    with pytest.raises(SchemaMismatch, match=re.escape(says)):
        world.service.ingest(STREAM, table, "b")
    assert world.service.raw.files() == ()
    assert not world.ingest(batch_id="b").repeated


def test_a_refusal_names_columns_and_types_but_no_value(world: World) -> None:
    inexact = 2**53 + 1
    for table in (
        trips(hour=pa.array([271828.25])),
        pa.table({"271828.25": [1], "Ann": [2]}),  # a CSV file without a header line
    ):
        with pytest.raises(SchemaMismatch) as refusal:
            world.service.ingest(STREAM, table)
        assert not re.search(f"271828|Ann|{inexact}", f"{refusal.value} {refusal.value.__cause__}")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"at": stamps(None)}, "time-missing"),
        ({"at": stamps(NAT)}, "time-before-origin"),
        ({"at": pa.array([ORIGIN - timedelta(microseconds=1)])}, "time-before-origin"),
        ({"at": pa.array([datetime(1, 1, 1)])}, "time-before-origin"),
        ({"at": stamps(-(2**63) + 1)}, "time-before-origin"),
        ({"at": pa.array([NOW + timedelta(minutes=5, microseconds=1)])}, "time-in-future"),
        ({"at": stamps(2**63 - 1)}, "time-in-future"),
        ({"at": stamps(2**63 - 1, unit="ns")}, "time-in-future"),
        ({"speed": pa.array([np.nan])}, "not-finite"),
        ({"speed": pa.array([np.inf])}, "not-finite"),
        ({"speed": pa.array([-np.inf])}, "not-finite"),
        ({"speed": pa.array([None], pa.float64())}, "missing-value"),
        ({"hour": pa.array([None], pa.null())}, "missing-value"),
        ({"zone": pa.array([None], pa.string())}, "missing-value"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_a_row_that_may_not_enter_is_refused_with_its_reason(
    world: World, changed: dict[str, pa.Array], reason: str
) -> None:
    good = trips()
    table = pa.concat_tables([good, trips(**changed).cast(good.schema, safe=False)])
    reply = world.service.ingest(STREAM, table)
    assert (reply.accepted, reply.refused) == (1, {reason: 1})
    world.close(1)
    assert rows_of(world) == [10.0]


@pytest.mark.parametrize(
    ("at", "window"),
    [
        (ORIGIN, 0),
        (ORIGIN + DAY - timedelta(microseconds=1), 0),
        (ORIGIN + DAY, 1),
        (NOW + timedelta(minutes=5), 30),
    ],
)
def test_a_row_on_the_edge_lies_in_the_window_that_begins_there(
    world: World, at: datetime, window: int
) -> None:
    assert world.service.ingest(STREAM, trips(at=pa.array([at]))).accepted == 1
    assert [name for name in world.service.raw.files() if f"/{window}/" in f"/{name}"]


@pytest.mark.parametrize(
    "at",
    [
        pa.array([ORIGIN + DAY / 2], pa.timestamp("ns", "Europe/Berlin")),
        pa.array([datetime(2026, 1, 5, 12)], pa.timestamp("s")),
        pa.array([datetime(2026, 1, 5, 12)], pa.timestamp("ns")).dictionary_encode(),
    ],
    ids=["another zone", "no zone means UTC", "dictionary"],
)
def test_times_are_read_in_utc_whatever_their_form(world: World, at: pa.Array) -> None:
    table = trips(
        at=at,
        zone=pa.array(["z"]).dictionary_encode(),
        hour=pa.array([3], pa.int8()),
        speed=pa.array([4], pa.float32()),
    )
    assert world.service.ingest(STREAM, table).accepted == 1
    world.close(1)
    assert rows_of(world) == [4.0]


def test_columns_may_come_in_any_order_and_in_chunks_or_not_at_all(world: World) -> None:
    table = pa.concat_tables([trips(), trips()]).select(["long", "zone", "speed", "hour", "at"])
    assert world.service.ingest(STREAM, table).accepted == 2
    assert world.service.ingest(STREAM, trips(()).slice(0, 0)).accepted == 0
    assert world.service.ingest(STREAM, trips().schema.empty_table()).accepted == 0


def test_a_row_of_a_closed_window_is_late(world: World) -> None:
    world.close(1)
    reply = world.ingest((0.5, 1.5))
    assert (reply.accepted, reply.refused) == (1, {"late": 1})


def test_a_row_refused_for_two_reasons_is_counted_once(world: World) -> None:
    reply = world.service.ingest(STREAM, trips(at=stamps(None), speed=pa.array([np.nan])))
    assert reply.refused == {"time-missing": 1}


def test_a_repeated_batch_is_stored_once_even_with_other_rows(world: World) -> None:
    assert world.ingest((0.5,), batch_id="b").accepted == 1
    again = world.ingest((0.5, 0.6), batch_id="b")
    assert (again.repeated, again.accepted) == (True, 0)
    world.close(1)
    assert rows_of(world) == [10.0]
    assert world.ingest((0.5,), batch_id="b").repeated  # known for ever, whatever has closed


def test_parts_of_a_batch_are_stored_once_and_none_once_its_last_is_there(world: World) -> None:
    parts = [(1, 3), (1, 3), (2, 3), (3, 3), (1, 3), (2, 3), (3, 3), None]
    sent = [(part, (0.5 + n / 100,)) for n, part in enumerate(parts)]
    told = [world.ingest(days, batch_id="b", part=part) for part, days in sent]
    assert [reply.repeated for reply in told] == [False, True, False, False, True, True, True, True]
    assert {reply.batch_id for reply in told} == {"b"}
    world.close(1)
    assert len(rows_of(world)) == 3


def send_meanwhile(world: World, monkeypatch: pytest.MonkeyPatch, *parts: tuple[int, int]) -> None:
    """Have these parts of batch b stored while the files of the next are written."""
    raw, write = world.service.raw, world.service.raw.write_batch

    def slow(*args: Any) -> None:
        write(*args)
        monkeypatch.undo()
        for part in parts:
            assert world.ingest((0.5,), batch_id="b", part=part).accepted == 1

    monkeypatch.setattr(raw, "write_batch", slow)


def test_a_part_that_two_send_at_once_is_stored_once_and_not_beside_its_whole_batch(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_meanwhile(world, monkeypatch, (1, 3))
    assert world.ingest((0.6,), batch_id="b", part=(1, 3)).repeated
    send_meanwhile(world, monkeypatch, (2, 3), (3, 3))
    assert world.ingest((0.6,), batch_id="b", part=(2, 3)).repeated
    world.close(1)
    assert len(rows_of(world)) == 3


def test_a_batch_that_was_begun_in_parts_comes_in_the_same_ones_and_in_order(world: World) -> None:
    def refused(part: tuple[int, int] | None, says: str) -> None:
        with pytest.raises(Conflict, match=says):
            world.ingest((0.5,), batch_id="b", part=part)

    refused((2, 3), "part 1 of batch 'b' is not stored")
    assert world.ingest((0.5,), batch_id="b", part=(1, 3)).accepted == 1
    refused(None, "a part of batch 'b' is stored")
    refused((3, 3), "part 2 of batch 'b' is not stored")
    refused((1, 1), "a part of batch 'b' is stored")
    for other in ((1, 2), (1, 4), (2, 2), (2, 4), (3, 4)):
        refused(other, "begun in another number of parts")
    assert world.ingest((0.6,), batch_id="b", part=(2, 3)).accepted == 1
    for other in ((2, 2), (1, 2), (3, 4)):
        refused(other, "begun in another number of parts")
    assert world.ingest((0.7,), batch_id="b", part=(3, 3)).accepted == 1
    assert world.ingest((0.5,), batch_id="b").repeated
    for part in ((0, 1), (2, 1)):
        with pytest.raises(InvalidRequest, match="a number from 1"):
            world.ingest((0.5,), batch_id="b", part=part)
    world.close(1)
    assert len(rows_of(world)) == 3


def test_two_that_begin_a_batch_in_other_parts_do_not_both(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_meanwhile(world, monkeypatch, (1, 2))
    with pytest.raises(Conflict, match="begun in another number of parts"):
        world.ingest((0.6,), batch_id="b", part=(1, 3))
    world.close(1)
    assert len(rows_of(world)) == 1


def test_no_batch_id_is_that_of_a_part(world: World) -> None:
    assert world.ingest((0.5,), batch_id="b", part=(1, 2)).accepted == 1
    with world.service.begin() as uow:
        names = uow._connection.exec_driver_sql("SELECT batch_id FROM batch").scalars().all()  # type: ignore[attr-defined]
    assert names == ["b"]
    for name in ("b\x1f", "b\x1f1/2"):  # of parts, in catalogs of before
        with pytest.raises(InvalidRequest, match="printable"):
            world.ingest((0.5,), batch_id=name)


@pytest.mark.parametrize("batch_id", ["", "x" * 201, "a\nb", "\x00"])
def test_a_batch_id_that_cannot_be_printed_is_refused(world: World, batch_id: str) -> None:
    with pytest.raises(InvalidRequest, match="batch id"):
        world.ingest(batch_id=batch_id)


def test_an_unknown_stream_takes_nothing(world: World) -> None:
    with pytest.raises(UnknownName, match="no stream 'bikes'"):
        world.service.ingest("bikes", trips())


@pytest.mark.parametrize(
    "column",
    [
        {"hour": pa.array([7, 2**63 + 11], pa.uint64())},
        {"speed": pa.array([10, 2**53 + 1])},
        {"at": pa.array([1767614400, 2**62], pa.timestamp("s"))},
        {"at": pa.array([1767614400000, -(2**62)], pa.timestamp("ms", "UTC"))},
    ],
    ids=["beyond int64", "no exact float", "beyond the calendar", "before the calendar"],
)
def test_one_row_that_does_not_fit_its_column_is_refused_alone(
    world: World, column: dict[str, pa.Array]
) -> None:
    reply = world.service.ingest(STREAM, trips((0.5, 0.5), **column))
    assert (reply.accepted, reply.refused) == (1, {"not-exact": 1})


def test_a_row_far_ahead_of_the_open_windows_is_refused_alone(world: World) -> None:
    world.stream("ages", window=timedelta(seconds=1))
    at = [
        ORIGIN,
        ORIGIN + timedelta(seconds=event_tables.WINDOWS_AHEAD - 1),
        ORIGIN + timedelta(seconds=event_tables.WINDOWS_AHEAD),
    ]
    reply = world.service.ingest("ages", trips((0, 0, 0), at=pa.array(at, pa.timestamp("us", "UTC"))))
    assert (reply.accepted, reply.refused) == (2, {"too-far-ahead": 1})


def test_rows_of_a_window_that_closes_during_the_ingest_are_late_and_nothing_is_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw, write = world.service.raw, world.service.raw.write_batch

    def slow(*args: Any) -> None:
        write(*args)
        monkeypatch.undo()
        world.close(1)

    monkeypatch.setattr(raw, "write_batch", slow)
    reply = world.ingest((0.5, 1.5), batch_id="b")
    assert (reply.accepted, reply.refused, reply.repeated) == (1, {"late": 1}, False)
    world.close(2)
    assert (rows_of(world, 0), rows_of(world, 1)) == ([], [50.0])


def test_a_row_that_was_ahead_of_the_clock_stays_refused_when_a_window_closes_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.clock.pass_(days=-29)  # the second window has just begun
    raw, write = world.service.raw, world.service.raw.write_batch

    def slow(*args: Any) -> None:
        write(*args)
        monkeypatch.undo()
        world.close(1)
        world.clock.pass_(hours=1)

    monkeypatch.setattr(raw, "write_batch", slow)
    reply = world.ingest((1.0, 1.0 + 10 / 1440), batch_id="b")  # the second is ten minutes ahead
    assert (reply.accepted, reply.refused) == (1, {"time-in-future": 1})
    world.clock.pass_(days=1)
    world.close(2)
    assert len(rows_of(world, 1)) == 1


def test_an_ingest_that_windows_keep_closing_on_gives_up_whole(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw, write = world.service.raw, world.service.raw.write_batch
    closed = iter(range(1, 100))

    def slow(*args: Any) -> None:
        write(*args)
        world.service.close_windows(STREAM, ORIGIN + next(closed) * DAY, expire_unfinished=True)

    monkeypatch.setattr(raw, "write_batch", slow)
    with pytest.raises(Conflict, match="send the batch again"):
        world.ingest((29.5,), batch_id="b")
    monkeypatch.undo()
    assert not world.ingest((29.5,), batch_id="b").repeated


def test_two_who_send_one_batch_at_once_store_it_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    raw, write = world.service.raw, world.service.raw.write_batch

    def slow(*args: Any) -> None:
        write(*args)
        monkeypatch.undo()
        assert world.ingest((0.5,), batch_id="b").accepted == 1

    monkeypatch.setattr(raw, "write_batch", slow)
    assert world.ingest((0.5,), batch_id="b").repeated
    world.close(1)
    assert rows_of(world) == [10.0]


def test_a_batch_whose_commit_nobody_answered_is_named_so_that_it_can_be_sent_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    unheard_batch(monkeypatch)
    with pytest.raises(OutcomeUnknown, match=r"send the same rows again as batch '[0-9a-f]{32}'") as told:
        world.ingest((0.5,))
    batch_id = str(told.value).split("'")[1]
    assert world.ingest((0.5,), batch_id=batch_id).repeated
    world.close(1)
    assert rows_of(world) == [10.0]


def test_a_batch_whose_file_may_not_last_is_not_stored_and_can_be_sent_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(local, "_sync", failing_after_the_link())
        with pytest.raises(Unavailable, match="nothing of this batch is stored"):
            world.service.ingest(STREAM, trips(), "b")
    assert not world.service.ingest(STREAM, trips(), "b").repeated


def test_the_catalog_keeps_neither_counts_nor_the_windows_that_rows_touch(world: World) -> None:
    """Equal but for their rows, two ingests leave equal catalogs."""

    def written(days: tuple[float, ...], home: str) -> list[tuple[object, ...]]:
        other = World(world.service.settings.root.parent / home)
        other.stream()
        other.ingest(days, batch_id="b")
        with other.service.begin() as uow:
            batches = uow._connection.exec_driver_sql(  # type: ignore[attr-defined]
                "SELECT stream, batch_id, closed_before FROM batch"
            ).all()
            notices = uow.notices()
        other.service.close()
        return [*map(tuple, batches), *((n.subject, n.code) for n in notices)]

    assert written((0.5,), "one") == written((0.5, 3.5, 3.6, -4.0), "two") == [("taxi", "b", 0)]


def test_text_that_is_not_utf8_is_refused_alone(world: World) -> None:
    octets = pa.array([b"ok", b"\xffsecret\xfe", None])
    broken = pa.StringArray.from_buffers(3, octets.buffers()[1], octets.buffers()[2], octets.buffers()[0], 1)
    table = trips((0.1, 0.2, 0.3))
    place = table.schema.get_field_index("zone")
    reply = world.service.ingest(STREAM, table.set_column(place, "zone", broken))
    assert (reply.accepted, reply.refused) == (1, {"not-exact": 1, "missing-value": 1})
