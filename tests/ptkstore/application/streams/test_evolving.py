"""A stream's schema grows by columns with defaults: open windows hold rows of both versions, closed ones stay."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from ptklib import HistoricalStatistics
from ptkstore import featurize
from ptkstore.application.ingest.event_tables import conform, filled
from ptkstore.domain.streams.schemas import Added, ColumnType, Schema
from ptkstore.errors import Conflict, InvalidRequest, NameTaken, UnknownName
from ptkstore.sdk import Store
from tests.support.world import DAY, ORIGIN, SCHEMA, STREAM, World, trips

TIP = {"add_column": "tip", "type": "float64", "default": 3.0}


@pytest.fixture
def store(world: World) -> Store:
    return Store(world.service)


def tips(epsilon: float = 0.9) -> HistoricalStatistics:
    return HistoricalStatistics(
        keys=["zone"],
        values=["tip"],
        domains={"zone": ["a", "b"]},
        bounds={"tip": (0.0, 10.0)},
        statistics=("count", "mean"),
        epsilon=epsilon,
    )


def rows(days: list[float], **columns: Any) -> pa.Table:
    table = trips(days)
    names = {name: pa.array(values) for name, values in {"zone": ["a"] * len(days), **columns}.items()}
    kept = [name for name in table.column_names if name not in names]
    return pa.table({**{name: table[name] for name in kept}, **names})


# the schema


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        (ColumnType.INT64, 1.0),
        (ColumnType.INT64, True),
        (ColumnType.INT64, 2**63),
        (ColumnType.FLOAT64, float("nan")),
        (ColumnType.FLOAT64, "1"),
        (ColumnType.STRING, "x" * 201),
        (ColumnType.STRING, "a\nb"),
        (ColumnType.STRING, None),
        (ColumnType.BOOL, 1),
        (ColumnType.TIMESTAMP, "2026-01-01"),
    ],
)
def test_a_default_is_a_value_of_its_column(kind: ColumnType, default: object) -> None:
    with pytest.raises(InvalidRequest):
        SCHEMA.with_column("tip", kind, default, since=0)


@pytest.mark.parametrize("name", ["speed", "at", "ptk_x", "A", "a__b", ""])
def test_a_column_that_is_added_has_a_name_of_its_own(name: str) -> None:
    with pytest.raises(InvalidRequest):
        SCHEMA.with_column(name, ColumnType.INT64, 1, since=0)


def test_versions_count_and_the_first_is_known() -> None:
    grown = SCHEMA.with_column("tip", ColumnType.FLOAT64, 3, since=2).with_column(
        "fleet", ColumnType.STRING, "none", since=5
    )
    assert (SCHEMA.version, grown.version, grown.since) == (1, 3, 5)
    assert grown.added == (Added("tip", 3.0, 2), Added("fleet", "none", 5))
    assert grown.as_created() == SCHEMA
    assert type(grown.defaults["tip"]) is float


def test_rows_of_any_version_are_read_as_those_of_the_present_one() -> None:
    grown = Schema(SCHEMA.columns[:2], "at").with_column("tip", ColumnType.INT64, 7, since=0)
    old = pa.table({"ptk_id": [b"1", b"2"], "hour": [1, 2], "at": pa.array([ORIGIN, ORIGIN])})
    whole = filled(old, grown)
    assert whole.column_names == ["at", "hour", "tip", "ptk_id"]
    assert whole["tip"].to_pylist() == [7, 7]
    assert filled(whole, grown) == whole


def test_values_of_an_added_column_may_be_missing_and_are_exact_or_refused() -> None:
    grown = Schema(SCHEMA.columns[:2], "at").with_column("tip", ColumnType.INT64, 7, since=0)
    given = pa.table(
        {"at": pa.array([ORIGIN] * 3), "hour": [1, 2, 3], "tip": pa.array([None, 5, 2**63], pa.uint64())}
    )
    table, exact = conform(given, grown)
    assert table["tip"].to_pylist()[:2] == [7, 5]
    assert exact.tolist() == [True, True, False]


# the service


def test_a_window_with_files_of_both_versions_is_trained_with_the_default(world: World, store: Store) -> None:
    store.ingest(STREAM, rows([0.1] * 2_000), "before")
    assert store.evolve_stream(STREAM, **TIP) == 2
    store.ingest(STREAM, rows([0.2] * 2_000, tip=[9.0] * 2_000), "after")
    store.ingest(STREAM, rows([0.3] * 2_000), "by a producer that does not know")
    store.ingest(STREAM, rows([0.4] * 2_000, zone=["b"] * 2_000, tip=pa.nulls(2_000, pa.float64())), "null")
    store.register_ptk(tips(), name="tips", stream=STREAM, target=1.0)
    store.close_windows(STREAM, until=ORIGIN + DAY)
    store.work_until_idle()
    ptk = store.ptk("taxi.tips")
    (found,) = featurize([pa.table({"zone": ["a", "b"]})], [ptk])
    (mean,) = (name for name in found.column_names if name.endswith("tip_mean"))
    a, b = found[mean].to_pylist()
    assert a == pytest.approx(5.0, abs=0.2)  # 3, 9 and 3; noise is below .03 but once in 1e6
    assert b == pytest.approx(3.0, abs=0.2)


def test_a_window_without_rows_has_the_added_column_too(world: World, store: Store) -> None:
    store.evolve_stream(STREAM, **TIP)
    store.register_ptk(tips(), name="tips", stream=STREAM, target=1.0)
    store.close_windows(STREAM, until=ORIGIN + DAY)
    store.work_until_idle()
    assert [version.number for version in world.service.versions("taxi.tips")] == [1]


def test_a_step_may_be_repeated_and_nothing_else_be_made_of_it(world: World, store: Store) -> None:
    stream = world.service.streams()[0]
    store.evolve_stream(STREAM, **TIP)
    store.evolve_stream(STREAM, add_column="fleet", type="string", default="none")
    assert store.evolve_stream(STREAM, **TIP) == 3
    for other in ({"default": 4.0}, {"type": "int64", "default": 3}, {"add_column": "speed"}):
        with pytest.raises(InvalidRequest):
            store.evolve_stream(STREAM, **{**TIP, **other})
    with pytest.raises(UnknownName):
        store.evolve_stream("bikes", **TIP)
    world.service.create_stream(stream)  # as it was declared first: nothing to do
    world.service.create_stream(world.service.streams()[0])
    assert world.service.streams()[0].schema.version == 3
    with pytest.raises(NameTaken):
        store.create_stream(STREAM, team="taxi", schema={"at": "timestamp"}, time_column="at", epsilon=1.0)


def test_a_ptk_waits_with_a_new_column_until_older_windows_are_done(world: World, store: Store) -> None:
    """Else it might be trained on a window whose rows were laid out without the column."""
    world.register("old")
    store.close_windows(STREAM, until=ORIGIN + DAY)
    store.evolve_stream(STREAM, **TIP)
    with pytest.raises(Conflict, match="a moment ago"):
        store.register_ptk(tips(0.5), name="tips", stream=STREAM, target=1.0)
    with pytest.raises(Conflict):
        store.update_ptk_config("taxi.old", {"keys": ["zone"], "domains": {"zone": ["a"]}, **VALUES_OF_TIP})
    world.register("reads_nothing_new")
    store.work_until_idle()
    store.register_ptk(tips(0.5), name="tips", stream=STREAM, target=1.0)
    store.close_windows(STREAM, until=ORIGIN + 2 * DAY)
    store.work_until_idle()
    assert world.service.versions("taxi.tips")[0].number == 1


VALUES_OF_TIP: dict[str, Any] = {"values": ["tip"], "bounds": {"tip": [0.0, 10.0]}}


def test_rows_from_the_future_are_refused_beyond_the_declared_skew(world: World, store: Store) -> None:
    """By the service's clock; the count is about the producer's own batch, and the batch is stored once."""
    now = world.service.clock.now()
    store.create_stream(
        "skewed",
        team="taxi",
        schema={"at": "timestamp"},
        time_column="at",
        epsilon=1.0,
        origin=ORIGIN,
        future_skew="1h",
    )
    skews = [timedelta(0), timedelta(hours=1), timedelta(hours=1, microseconds=1), timedelta(days=1)]
    table = pa.table({"at": pa.array([now + skew for skew in skews], pa.timestamp("us", "UTC"))})
    first, again = (store.ingest("skewed", table, "b") for _ in range(2))
    assert (first.accepted, first.refused) == (2, {"time-in-future": 2})
    assert (again.accepted, again.refused, again.repeated) == (0, {}, True)
