"""The packed store beside Feast's own."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ptkstore.adapters.feast import RedisOnline, write_repo
from ptkstore.adapters.feast.loading import load_feast


@pytest.fixture(scope="module")
def fe() -> SimpleNamespace:
    """Names of Feast, which takes seconds to load."""
    load_feast(Path())
    import feast
    from feast import types
    from feast.on_demand_feature_view import on_demand_feature_view
    from feast.protos.feast.serving.ServingService_pb2 import FieldStatus
    from feast.protos.feast.types.EntityKey_pb2 import EntityKey
    from feast.protos.feast.types.Value_pb2 import Value

    return SimpleNamespace(
        Entity=feast.Entity,
        FeatureService=feast.FeatureService,
        FeatureStore=feast.FeatureStore,
        FeatureView=feast.FeatureView,
        Field=feast.Field,
        FileSource=feast.FileSource,
        RequestSource=feast.RequestSource,
        on_demand=on_demand_feature_view,
        types=types,
        Status=FieldStatus,
        EntityKey=EntityKey,
        Value=Value,
    )


@pytest.fixture(scope="module")
def definitions(fe) -> SimpleNamespace:
    t = fe.types
    source = fe.FileSource(name="s", path="none.parquet", timestamp_field="event_timestamp")
    driver = fe.Entity(name="driver_entity", join_keys=["driver"], value_type=t.Int64.to_value_type())
    shop = fe.Entity(name="shop_entity", join_keys=["shop"], value_type=t.String.to_value_type())

    def view(name: str, entities: list, **fields: Any):
        keys = {"driver": t.Int64, "shop": t.String}
        schema = [fe.Field(name=e.join_key, dtype=keys[e.join_key]) for e in entities]
        schema += [fe.Field(name=field, dtype=dtype) for field, dtype in fields.items()]
        return fe.FeatureView(name=name, entities=entities, schema=schema, source=source, ttl=timedelta(0))

    stats = view("stats", [driver], trips=t.Int64, rate=t.Float32, mean=t.Float64, city=t.String)
    sales = view("sales", [shop, driver], amount=t.Float64, vip=t.Bool, at=t.UnixTimestamp)
    return SimpleNamespace(driver=driver, shop=shop, stats=stats, sales=sales, view=view)


@pytest.fixture(scope="module")
def stores(fe, definitions, redis_server, tmp_path_factory) -> dict[str, Any]:
    """Two repositories with equal definitions, one on each store, each in a database of its own."""
    opened = {}
    for number, kind in enumerate(("stock", "packed")):
        folder = tmp_path_factory.mktemp(kind)
        online = RedisOnline.from_url(f"{redis_server.client_url}?db={number + 11}", packed=kind == "packed")
        config = write_repo(folder, f"sqlite:///{folder}/registry.db", online, cache_ttl_seconds=600)
        config.write_text(config.read_text().replace("verify", "auto"))
        store = fe.FeatureStore(repo_path=str(folder))
        store.apply([definitions.driver, definitions.shop, definitions.stats, definitions.sales])
        opened[kind] = store
    return opened


def emptied(store: Any) -> Iterator[Any]:
    """The store without rows, and with its options as they were afterwards."""
    options = store.config.online_store
    store.provider.online_store._get_client(options).flushdb()
    options.skip_dedup, options.key_ttl_seconds = False, None
    yield store
    options.skip_dedup, options.key_ttl_seconds = False, None


@pytest.fixture(params=["stock", "packed"])
def store(request, stores) -> Iterator[Any]:
    """Either of the two, empty."""
    yield from emptied(stores[request.param])


@pytest.fixture
def packed(stores) -> Iterator[Any]:
    """Ours, empty."""
    yield from emptied(stores["packed"])
