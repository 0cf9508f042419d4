"""What else Feast's own tests ask of every online store: filled by materialization and by push, read in every way."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from ptkstore.adapters.feast import RedisOnline, write_repo
from ptkstore.adapters.feast.loading import load_feast
from tests.support.packed_stores import same

pytestmark = pytest.mark.real

HOUR = timedelta(hours=1)
Stores = dict[str, Any]


@pytest.fixture(scope="module")
def now() -> datetime:
    """Feast drops what lies outside the time that is materialized, and tells what is older than a view's ttl."""
    return pd.Timestamp.now(tz="UTC").floor("ms").to_pydatetime()


@pytest.fixture(scope="module")
def defined(tmp_path_factory, now) -> SimpleNamespace:
    """Views of files: of a driver, pushed too; of a place, under two names; of nothing."""
    load_feast(Path())
    from feast import Entity, FeatureService, FeatureView, Field, FileSource, PushSource
    from feast.types import Float64, Int64, String

    folder = tmp_path_factory.mktemp("files")

    def source(name: str, **columns: list) -> Any:
        n = len(next(iter(columns.values())))
        times = {"event_timestamp": [now - HOUR] * n, "created": [now] * n}
        pd.DataFrame({**columns, **times}).to_parquet(folder / f"{name}.parquet")
        path = str(folder / f"{name}.parquet")
        return FileSource(
            name=name, path=path, timestamp_field="event_timestamp", created_timestamp_column="created"
        )

    def view(name: str, entities: list, source: Any, **fields: Any) -> Any:
        schema = [Field(name=e.join_key, dtype=Int64) for e in entities]
        schema += [Field(name=field, dtype=kind) for field, kind in fields.items()]
        return FeatureView(name=name, entities=entities, schema=schema, source=source, ttl=timedelta(days=2))

    driver, place = (
        Entity(name=name, join_keys=[name], value_type=Int64.to_value_type()) for name in ("driver", "place")
    )
    drives = source("drives", driver=[1, 2, 3, 4], trips=[4, 5, 6, 7], city=["a", "b", "c", "d"])
    pushed = PushSource(name="pushed", batch_source=drives)
    stats = view("stats", [driver], pushed, trips=Int64, city=String)
    weather = view(
        "weather", [place], source("places", place=[7, 8], temperature=[1.5, 2.5]), temperature=Float64
    )
    overall = view("overall", [], source("overall", rides=[9]), rides=Int64)
    ends = [
        weather.with_name(name).with_join_key_map({"place": f"{name}_id"})
        for name in ("origin", "destination")
    ]
    services = [
        FeatureService(name="trip", features=ends),
        FeatureService(name="both", features=[stats, overall]),
    ]
    brief, gone = (view(name, [driver], drives, trips=Int64, city=String) for name in ("brief", "gone"))
    objects = [driver, place, stats, weather, overall, brief, gone, *services]
    return SimpleNamespace(objects=objects, drives=drives, gone=gone)


@pytest.fixture(scope="module")
def stores(defined, now, redis_server, tmp_path_factory) -> Stores:
    """Both stores, applied and materialized alike."""
    from feast import FeatureStore

    opened = {}
    for number, kind in enumerate(("stock", "packed")):
        folder = tmp_path_factory.mktemp(kind)
        online = RedisOnline.from_url(f"{redis_server.client_url}?db={number + 13}", packed=kind == "packed")
        config = write_repo(folder, f"sqlite:///{folder}/registry.db", online, cache_ttl_seconds=600)
        config.write_text(config.read_text().replace("verify", "auto"))
        store = FeatureStore(repo_path=str(folder))
        client(store).flushdb()
        store.config.online_store.skip_dedup = False  # as is usual: what is older is dropped
        store.apply(defined.objects)
        store.materialize(now - timedelta(days=1), datetime.now(UTC), ["stats", "weather", "overall", "gone"])
        opened[kind] = store
    return opened


def client(store: Any) -> Any:
    return store.provider.online_store._get_client(store.config.online_store)


def asking(features: Any, *rows: dict, full: bool = False) -> Callable[[Any], Any]:
    """A question whose whole answer is compared: values, event times and statuses."""

    def ask(store: Any) -> Any:
        wanted = store.get_feature_service(features) if isinstance(features, str) else features
        response = store.get_online_features(wanted, [dict(row) for row in rows], full_feature_names=full)
        columns = zip(response.proto.metadata.feature_names.val, response.proto.results, strict=True)
        return response.to_dict(), {name: list(result.statuses) for name, result in columns}

    return ask


STATS = ["stats:trips", "stats:city"]


@pytest.mark.long
def test_materialized_rows_are_answered(stores):
    answer, _ = same(stores, asking(STATS, {"driver": 1}, {"driver": 2}))
    assert answer == {"driver": [1, 2], "trips": [4, 5], "city": ["a", "b"]}
    unknown = {kind: asking(STATS, {"driver": 99})(store)[0] for kind, store in stores.items()}
    assert unknown["stock"] == unknown["packed"] == {"driver": [99], "trips": [None], "city": [None]}


def test_a_view_without_entities_is_answered_whatever_is_asked_with(stores):
    answer, _ = same(stores, asking(["overall:rides"], {"driver": 1}))
    assert answer["rides"] == [9]
    answer, _ = same(stores, asking("both", {"driver": 1}, {"driver": 2}))
    assert (answer["trips"], answer["rides"]) == ([4, 5], [9, 9])


def test_one_view_under_two_names_and_keys_is_answered_by_each(stores):
    row = {"origin_id": 7, "destination_id": 8}
    answer, _ = same(stores, asking("trip", row, full=True))
    assert answer == {
        **{key: [of] for key, of in row.items()},
        "origin__temperature": [1.5],
        "destination__temperature": [2.5],
    }
    assert same(stores, asking("trip", row)) == "FeatureNameCollisionError"


def test_pushed_rows_stand_against_older_ones(stores, now):
    from feast.data_source import PushMode

    frame = pd.DataFrame(
        {"driver": [3], "trips": [40], "city": ["z"], "event_timestamp": [now], "created": [now]}
    )
    for store in stores.values():
        store.push("pushed", frame, to=PushMode.ONLINE)
    expected = {"driver": [3], "trips": [40], "city": ["z"]}
    assert same(stores, asking(STATS, {"driver": 3}))[0] == expected
    for store in stores.values():
        store.materialize(now - timedelta(days=1), datetime.now(UTC), ["stats"])  # of an hour before
    assert same(stores, asking(STATS, {"driver": 3}))[0] == expected


def test_what_came_since_is_materialized_incrementally(stores, defined):
    import pyarrow.parquet as pq

    path, later = defined.drives.path, datetime.now(UTC)
    rows = pq.read_table(path).to_pandas()
    newer = rows[rows["driver"] == 4].assign(trips=44, event_timestamp=later, created=later)
    pd.concat([rows, newer]).to_parquet(path)
    for store in stores.values():
        store.materialize_incremental(datetime.now(UTC), ["stats"])
    assert same(stores, asking(STATS, {"driver": 4}, {"driver": 2}))[0]["trips"] == [44, 5]


def test_a_store_that_was_initialized_answers_asynchronously_and_closes(stores):
    def ask(store: Any) -> Any:
        async def whole() -> Any:
            await store.initialize()
            try:
                return (
                    await store.get_online_features_async(STATS, [{"driver": 2}, {"driver": 1}])
                ).to_dict()
            finally:
                await store.close()

        return asyncio.run(whole())

    assert same(stores, ask)["trips"] == [5, 4]
    assert same(stores, asking(STATS, {"driver": 2}))[0]["trips"] == [5]  # as before


def test_a_view_that_was_deleted_begins_again_without_rows(stores, defined):
    gone = ["gone:trips", "gone:city"]
    assert same(stores, asking(gone, {"driver": 1}))[0]["trips"] == [4]
    for store in stores.values():
        store.apply([], objects_to_delete=[defined.gone], partial=False)
        store.apply([defined.gone])
        assert asking(gone, {"driver": 1})(store)[0] == {"driver": [1], "trips": [None], "city": [None]}
    assert same(stores, asking(STATS, {"driver": 1}))[0]["trips"] == [4]


def test_rows_whose_time_is_over_are_gone(stores, now):
    brief = ["brief:trips", "brief:city"]
    frame = pd.DataFrame(
        {"driver": [5], "trips": [41], "city": ["q"], "event_timestamp": [now], "created": [now]}
    )
    for store in stores.values():
        before = set(client(store).keys())
        store.config.online_store.key_ttl_seconds = 600
        store.write_to_online_store("brief", frame)
        store.config.online_store.key_ttl_seconds = None
        assert asking(brief, {"driver": 5})(store)[0]["trips"] == [41]
        (name,) = set(client(store).keys()) - before
        assert 0 < client(store).ttl(name) <= 600
        client(store).expireat(name, 1)
        assert asking(brief, {"driver": 5})(store)[0] == {"driver": [5], "trips": [None], "city": [None]}


def test_online_a_row_older_than_its_views_ttl_is_told_as_any(stores, now):
    from feast.protos.feast.serving.ServingService_pb2 import FieldStatus

    old = now - timedelta(days=3)
    frame = pd.DataFrame(
        {"driver": [6], "trips": [41], "city": ["q"], "event_timestamp": [old], "created": [old]}
    )
    for store in stores.values():
        store.write_to_online_store("stats", frame)
    answer, statuses = same(stores, asking(STATS, {"driver": 6}))
    assert (answer["trips"], statuses["trips"]) == ([41], [FieldStatus.PRESENT])
