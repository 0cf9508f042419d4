"""Real Redis, real PostgreSQL, and a consumer process that has only Feast."""

import ctypes
import json
import multiprocessing
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from ptkstore.adapters.feast import FeastFeatureStore, RedisOnline, SqliteOnline, write_repo
from ptkstore.adapters.feast.loading import load_feast
from ptkstore.adapters.processes import RedisServer
from ptkstore.domain.accounting.assurances import assured
from ptkstore.domain.ptks.serving import serving_of
from ptkstore.domain.versions.provenance import Provenance
from ptkstore.ports.features import PublishedState

START = datetime(2026, 1, 1, tzinfo=UTC)
PLUGIN = (
    "ptkstore.adapters.feast",
    "ptkstore.domain.accounting.assurances",
    "ptkstore.domain.names",
    "ptkstore.domain.versions.provenance",
    "ptkstore.domain.ptks.serving",
    "ptkstore.domain.ptks.views",
    "ptkstore.errors",
    "ptkstore.ports.features",
)
FORMS = [("value", "double"), ("n", "int64"), ("zone", "string"), ("open", "bool")]
EVERYTHING = {
    "defaults": {"value": -1.5, "n": 7, "zone": "none", "open": True},
    "request": ["mph"],
    "derived": {
        "over": {"difference": ["mph", "value"]},
        "share": {"ratio": ["n", "value"]},
        "double": {"product": ["n", 2]},
        "size": {"bucket": "n", "edges": [5, 6]},
        "log_double": {"log": "double"},
    },
}
FORK = multiprocessing.get_context("fork")


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@pytest.fixture
def redis_online(redis_server: RedisServer) -> RedisOnline:
    """An empty Redis."""
    import redis

    redis.Redis.from_url(redis_server.client_url).flushall()
    return RedisOnline.from_url(redis_server.client_url)


@pytest.fixture
def postgres_url(fresh_postgres_url: str) -> str:
    """A fresh database."""
    return fresh_postgres_url.replace("+psycopg", "", 1)


@pytest.fixture
def cache_ttl_seconds(request: pytest.FixtureRequest) -> int:
    """How long readers keep the registry; a test whose steps must all fall within it asks for more."""
    return int(getattr(request, "param", 1))


@pytest.fixture
def packed_online(redis_online: RedisOnline) -> RedisOnline:
    """An empty Redis behind the packed store."""
    return replace(redis_online, packed=True)


IN_LONG_RUNS = pytest.param("sqlite+redis", marks=pytest.mark.long)  # the others have each half of this pair


@pytest.fixture(params=["sqlite+sqlite", IN_LONG_RUNS, "postgres+redis", "sqlite+packed"])
def repo(request: pytest.FixtureRequest, tmp_path: Path, cache_ttl_seconds: int) -> Path:
    """A repository on each pair of registry and online store."""
    registry, _, online = request.param.partition("+")
    folder = tmp_path / "feast"
    url = (
        f"sqlite:///{folder}/registry.db" if registry == "sqlite" else request.getfixturevalue("postgres_url")
    )
    where = SqliteOnline() if online == "sqlite" else request.getfixturevalue(f"{online}_online")
    write_repo(folder, url, where, cache_ttl_seconds=cache_ttl_seconds)
    return folder


@pytest.fixture
def light_repo(tmp_path: Path) -> Path:
    """A repository on SQLite alone, where the backend does not matter."""
    folder = tmp_path / "feast"
    write_repo(folder, f"sqlite:///{folder}/registry.db", SqliteOnline(), cache_ttl_seconds=1)
    return folder


@pytest.fixture
def store(repo: Path) -> Iterator[FeastFeatureStore]:
    feature_store = FeastFeatureStore(repo)
    yield feature_store
    feature_store.close()


@pytest.fixture
def light_store(light_repo: Path) -> Iterator[FeastFeatureStore]:
    feature_store = FeastFeatureStore(light_repo)
    yield feature_store
    feature_store.close()


@pytest.fixture(scope="session")
def make() -> SimpleNamespace:
    """Builders of states: `make.state(3)` says value 3.0 for every hour, as of day 3."""

    def state(
        version: int,
        *,
        ptk_id: str = "taxi.speed_by_hour",
        tables: dict[str, pa.Table] | None = None,
        keys: dict[str, tuple[str, ...]] | None = None,
        hours: tuple[int, ...] = tuple(range(24)),
        day: float | None = None,
        assurance: str = "library",
    ) -> PublishedState:
        as_of = START + timedelta(days=version if day is None else day)
        if tables is None:
            values = pa.array([float(version)] * len(hours))
            tables = {"statistics": pa.table({"hour": pa.array(hours, pa.int64()), "value": values})}
            keys = {"statistics": ("hour",)}
        return PublishedState(
            ptk_id=ptk_id,
            version=version,
            tables=tables,
            keys=keys or {},
            as_of=as_of,
            window_end=as_of,
            published_at=as_of + timedelta(minutes=5),
            made=Provenance(
                0.5,
                1e-9,
                assured(assurance, ptk_id),
                "record",
                oldest=("2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00"),
                newest=(as_of.isoformat(), (as_of + timedelta(days=1)).isoformat()),
            ),
            manifest_url=f"file:///lake/{ptk_id}/v{version}",
            sha256=f"{version:064x}",
            owner=ptk_id.partition(".")[0],
            description="for tests",
        )

    def publish(feature_store: FeastFeatureStore, *states: PublishedState) -> None:
        for published in states:
            feature_store.stage(published)
            feature_store.flip(published)

    def in_child(work: Callable[[], None]) -> int:
        """Run in a forked process; its exit code, negative for a signal."""
        child = FORK.Process(target=work)
        child.start()
        child.join(60)
        assert child.exitcode is not None
        return child.exitcode

    load_feast(Path())  # children inherit it

    return SimpleNamespace(
        state=state, publish=publish, in_child=in_child, day=lambda n: START + timedelta(days=n)
    )


@pytest.fixture
def filled(make):
    """Builds states whose table has four types of features, and a declaration."""

    def state(version: int, declared=EVERYTHING, *, hours=(7, 8), table="t", **more):
        rows = pa.table(
            {
                "hour": pa.array(hours, pa.int64()),
                "value": pa.array([None if hour == 8 else float(version) for hour in hours], pa.float64()),
                "n": pa.array([version] * len(hours), pa.int64()),
                "zone": ["z"] * len(hours),
                "open": [False] * len(hours),
            }
        )
        made = make.state(version, tables={table: rows}, keys={table: ("hour",)}, **more)
        config = {} if declared is None else {"serve": declared}
        return replace(made, serving=serving_of(config, {table: FORMS}))

    return state


class Consumer:
    """The other end of `plain_consumer.py`; may import no module of ours, but `mine` and what these need."""

    def __init__(self, *mine: str, marked: bool = True) -> None:
        self.mine = mine
        self.packages = {name.rpartition(".")[0] for name in mine} | {"ptkstore"}
        script = Path(__file__).with_name("plain_consumer.py")
        self.process = subprocess.Popen(
            [sys.executable, "-I", str(script), *(["--marked"] if marked else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent,
        )

    def send(self, do: str, **request: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **request}) + "\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer = json.loads(self.process.stdout.readline())
        ours = answer["ours"]
        if self.mine:
            ours = [n for n in ours if n not in self.packages and not n.startswith(self.mine)]
        assert ours == []
        return answer

    def __call__(self, do: str, **request: Any) -> Any:
        self.send(do, **request)
        answer = self.receive()
        assert "error" not in answer, answer
        return answer["answer"]

    def error(self, do: str, **request: Any) -> str:
        self.send(do, **request)
        return str(self.receive().get("error"))


def running(consumer: Consumer) -> Iterator[Consumer]:
    yield consumer
    assert consumer.process.stdin is not None
    consumer.process.stdin.close()
    consumer.process.wait(10)


@pytest.fixture(scope="session")
def plain_consumer() -> Iterator[Consumer]:
    yield from running(Consumer())


@pytest.fixture(scope="session")
def packed_consumer() -> Iterator[Consumer]:
    """One who has our plugin for the online store; it brings no service with it."""
    yield from running(Consumer(*PLUGIN))


@pytest.fixture(scope="session")
def plain_reader() -> Iterator[Consumer]:
    """A consumer whose Feast is as it was installed; reads one repository after the other."""
    yield from running(Consumer(marked=False))


@pytest.fixture(scope="session")
def packed_reader() -> Iterator[Consumer]:
    """The same with our plugin."""
    yield from running(Consumer(*PLUGIN, marked=False))


@pytest.fixture
def reader(request: pytest.FixtureRequest) -> Consumer:
    """As `consumer`, with Feast as it was installed."""
    packed = "packed" in str(request.node.callspec.params)
    reader: Consumer = request.getfixturevalue("packed_reader" if packed else "plain_reader")
    return reader


@pytest.fixture
def consumer(request: pytest.FixtureRequest) -> Consumer:
    """A consumer process of its own; with the plugin where the repository names it."""
    packed = "packed" in str(getattr(request.node, "callspec", None) and request.node.callspec.params)
    consumer: Consumer = request.getfixturevalue("packed_consumer" if packed else "plain_consumer")
    return consumer
