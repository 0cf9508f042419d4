"""Online lookups of ten features on a real redis-server: plain Feast, ours on both stores, the SDK, raw Redis."""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.measuring import Row, measured
from ptkstore.adapters.feast import FeastFeatureStore, RedisOnline, online, write_repo
from ptkstore.adapters.feast.loading import load_feast
from ptkstore.adapters.feast.publishing.views import ptk_view
from ptkstore.adapters.feast.tables import view_tables
from ptkstore.adapters.processes import RedisServer
from ptkstore.domain.accounting.assurances import Assurance, Assured
from ptkstore.domain.versions.provenance import Provenance
from ptkstore.ports.features import PublishedState
from ptkstore.sdk import Store
from ptkstore.settings import Settings
from ptkstore.wiring import Service
from tests.support.local import local

KEYS, MANY_KEYS, STOCK_KEYS = 1_000, 100_000, 10_000
VERSIONS = 40
FEATURES = [f"f{n}" for n in range(10)]
VIEW, PTK = "bench__counts", "bench.counts"
REFERENCES = [f"{VIEW}:{name}" for name in FEATURES]
START = datetime(2026, 1, 1, tzinfo=UTC)

Ask = Callable[[int], Any]


def state(version: int, n_keys: int) -> PublishedState:
    """A PTK's version with ten numbers per key."""
    values = np.random.default_rng(version).normal(size=(len(FEATURES), n_keys))
    columns = {"k": pa.array(np.arange(n_keys)), **dict(zip(FEATURES, map(pa.array, values), strict=True))}
    at = START + timedelta(days=version)
    return PublishedState(
        ptk_id=PTK,
        version=version,
        tables={"counts": pa.table(columns)},
        keys={"counts": ("k",)},
        as_of=at,
        window_end=at,
        published_at=at,
        made=Provenance(0.5, 0.0, Assured(Assurance.LIBRARY)),
        manifest_url="file:///lake",
        sha256=f"{version:064x}",
        owner="bench",
        description="",
    )


@dataclass
class Setup:
    """A redis-server with three databases: plain Feast, ours on Feast's store, ours on the packed one."""

    folder: Path
    server: RedisServer

    def url(self, database: int) -> str:
        return f"{self.server.client_url}?db={database}"

    def ours(self, name: str, database: int, *, packed: bool) -> FeastFeatureStore:
        repo = self.folder / name
        where = RedisOnline.from_url(self.url(database), packed=packed)
        write_repo(repo, f"sqlite:///{repo}/registry.db", where, cache_ttl_seconds=600)
        return FeastFeatureStore(repo)


@contextmanager
def running() -> Iterator[Setup]:
    with tempfile.TemporaryDirectory(prefix="ptk-bench-") as folder:
        load_feast(Path(folder))
        with RedisServer(Path(folder)) as server:
            yield Setup(Path(folder), server)


def plain_feast(setup: Setup) -> Any:
    """Feast as its own tutorial has it: a view without versions, written by `write_to_online_store`."""
    from feast import Entity, FeatureStore, FeatureView, Field, FileSource
    from feast.types import Float64, Int64

    repo = setup.folder / "plain"
    config = write_repo(
        repo, f"sqlite:///{repo}/registry.db", RedisOnline.from_url(setup.url(1)), cache_ttl_seconds=600
    )
    text = config.read_text().replace("verify", "auto")
    config.write_text(text.replace("enable_online_feature_view_versioning: true", ""))
    store = FeatureStore(repo_path=str(repo))
    entity = Entity(name="k", join_keys=["k"], value_type=Int64.to_value_type())
    schema = [Field(name="k", dtype=Int64), *(Field(name=name, dtype=Float64) for name in FEATURES)]
    source = FileSource(name="source", path="none.parquet", timestamp_field="event_timestamp")
    store.apply(
        [entity, FeatureView(name=VIEW, entities=[entity], schema=schema, source=source, ttl=timedelta(0))]
    )
    frame = state(1, KEYS).tables["counts"].to_pandas()
    frame["event_timestamp"] = START
    store.write_to_online_store(VIEW, frame)
    return store


def through(store: Any) -> Ask:
    """`get_online_features` as users call it."""
    return lambda n: store.get_online_features(
        features=REFERENCES, entity_rows=[{"k": k} for k in range(n)]
    ).to_dict()


def raw(setup: Setup) -> Ask:
    """The same values from the same hashes by redis-py alone: one pipeline of HMGET, nothing decoded."""
    import redis
    from feast.infra.online_stores.helpers import _mmh3, _redis_key
    from feast.protos.feast.types.EntityKey_pb2 import EntityKey
    from feast.protos.feast.types.Value_pb2 import Value

    client = redis.Redis.from_url(setup.url(1))
    fields = [_mmh3(f"{VIEW}:{name}") for name in FEATURES]
    hashes = [
        _redis_key("ptk", EntityKey(join_keys=["k"], entity_values=[Value(int64_val=k)])) for k in range(KEYS)
    ]

    def ask(n: int) -> Any:
        with client.pipeline(transaction=False) as pipe:
            for name in hashes[:n]:
                pipe.hmget(name, fields)
            return pipe.execute()

    if any(None in row for row in ask(100)):
        raise RuntimeError("raw Redis does not hold what Feast wrote")
    return ask


def sdk(setup: Setup) -> Store:
    """The SDK on the packed store."""
    settings = Settings(home=setup.folder / "home", redis_url=setup.url(3), online_store="packed")
    return Store(Service(settings))


def turns(asks: dict[str, Ask], n: int, *, rounds: int, calls: int) -> dict[str, list[float]]:
    """Per round and subject the seconds of the quickest call; subjects take turns.

    The quickest, because other work on the machine only ever slows a call down, and long ones more often.

    The first call of a turn does not count: Feast keeps what it resolved per process, not per store.
    """
    taken: dict[str, list[float]] = {name: [] for name in asks}
    for _ in range(rounds):
        for name, ask in asks.items():
            ask(n)
            times = []
            for _ in range(calls):
                start = time.perf_counter()
                ask(n)
                times.append(time.perf_counter() - start)
            taken[name].append(min(times))
    return taken


def ratio(ours: list[float], theirs: list[float]) -> float:
    """The median over rounds: other work on the machine meets both in a round."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def subjects(setup: Setup) -> dict[str, Ask]:
    """All ways to the same thousand rows; refuses to measure ways that answer differently."""
    from feast import FeatureStore

    published = state(1, KEYS)
    client = sdk(setup)
    for store in (
        setup.ours("stock", 2, packed=False),
        setup.ours("packed", 6, packed=True),
        local(client).features,
    ):
        store.stage(published)
        store.flip(published)
    plain = plain_feast(setup)
    asks = {
        "raw": raw(setup),
        "plain": through(plain),
        "stock": through(FeatureStore(repo_path=str(setup.folder / "stock"))),
        "packed": through(FeatureStore(repo_path=str(setup.folder / "packed"))),
        "sdk": lambda n: client.look_up(REFERENCES, [{"k": k} for k in range(n)]),
    }
    expected = asks["plain"](100)
    rows = [{name: expected[name][k] for name in FEATURES} for k in range(100)]
    if not expected == asks["stock"](100) == asks["packed"](100) or asks["sdk"](100) != rows:
        raise RuntimeError("the ways to look up answer differently")
    return asks


def lookups(setup: Setup) -> list[Row]:
    """Rows about one and about a hundred entities."""
    asks = subjects(setup)
    found = []
    for n, rounds, calls in ((1, 41, 15), (100, 31, 8)):
        taken = turns(asks, n, rounds=rounds, calls=calls)
        micros = {name: statistics.median(times) * 1e6 for name, times in taken.items()}

        def row(
            name: str,
            what: str,
            over: str,
            goal: float,
            *,
            n: int = n,
            taken: Any = taken,
            micros: Any = micros,
        ) -> Row:
            return measured(
                f"service-lookup-{name}-vs-{over}-{n}",
                f"{what}, 10 features of {n} {'entity' if n == 1 else 'entities'}",
                unit="us",
                ours=micros[name],
                against=NAMES[over],
                theirs=micros[over],
                judged=ratio(taken[name], taken[over]),
                goal=goal,
                direction="min",
            )

        found.append(row("stock", "our views on Feast's Redis store", "plain", 1.05))
        if n == 1:
            found.append(row("packed", "our views on the packed store, through Feast", "stock", 0.5))
            found.append(row("sdk", "our SDK on the packed store", "raw", 1.3))
        else:
            found.append(row("packed", "our views on the packed store, through Feast", "raw", 0.5))
            found.append(row("sdk", "our SDK on the packed store", "raw", 0.5))
    return found


NAMES = {"plain": "plain Feast", "stock": "our views on Feast's Redis store", "raw": "raw pipelined HMGET"}


def writes(setup: Setup) -> list[Row]:
    """Rows per second into either store, and how long a publication takes to be seen."""
    stock, packed = setup.ours("stock-writes", 4, packed=False), setup.ours("packed-writes", 5, packed=True)
    rates = {}
    for name, store, n_keys in (("stock", stock, STOCK_KEYS), ("packed", packed, MANY_KEYS)):
        published = state(1, n_keys)
        (table,) = view_tables(published)
        view = ptk_view(table, published, store._history)
        taken = []
        with store._sessions.use() as session:
            for _ in range(3 if name == "stock" else 7):
                start = time.perf_counter()
                online.write_rows(session, view, table, START)
                taken.append(time.perf_counter() - start)
        rates[name] = n_keys / statistics.median(taken)
    seen = []
    for version in range(1, VERSIONS + 1):
        published = state(version, MANY_KEYS)
        start = time.perf_counter()
        packed.stage(published)
        packed.flip(published)
        (answer,) = packed.look_up([f"{VIEW}:ptk_version", f"{VIEW}:f0"], [{"k": MANY_KEYS - 1}])
        seen.append(time.perf_counter() - start)
        if answer["ptk_version"] != version:
            raise RuntimeError("the lookup after a publication answers from an older version")
    return [
        measured(
            "service-online-writes",
            "rows written to the packed store, 11 features",
            unit="rows/s",
            ours=rates["packed"],
            against="Feast's Redis store",
            theirs=rates["stock"],
            goal=150_000,
            direction="max",
        ),
        measured(
            "service-publish-to-lookup",
            "a version of 100,000 keys from its tables to the first lookup that sees it, packed store "
            f"(slowest of versions 2 to {VERSIONS}; the first imports Feast)",
            unit="s",
            ours=max(seen[1:]),
            goal=2.0,
            direction="min",
        ),
    ]


def rows() -> list[Row]:
    with running() as setup:
        return [*lookups(setup), *writes(setup)]
