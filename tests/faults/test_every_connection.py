"""Whatever becomes of one request to PostgreSQL, S3, Redis or a webhook's endpoint, a window ends as if it had not.

Between us and each real server stands a proxy. For one window after another it strikes a later one of the requests
that a window takes, from the first ingest to the expiry: the checker then finds nothing lost and nothing twice.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import fsspec
import pyarrow as pa
import pytest
import s3fs
from fsspec.config import conf
from sqlalchemy.engine import make_url

from ptkstore.adapters.processes import RedisServer
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import OutcomeUnknown, Unavailable
from ptkstore.sdk import Store
from ptkstore.settings import Settings
from ptkstore.wiring import LocalService, Service
from tests.faults import scenario
from tests.faults.checker import Evidence, check, spends_without_version
from tests.faults.rig import Rig, rig
from tests.services import proxy, wire
from tests.services.postgres import Postgres
from tests.services.proxy import FaultyHttp
from tests.services.wire import FaultyWire
from tests.support.local import local
from tests.support.s3 import serving
from tests.support.world import ErasesHere

pytestmark = [pytest.mark.real, pytest.mark.long]

T = TypeVar("T")
BUCKET = "ptk-faults"
STRIDE = 7  # how many requests lie between two that are struck in the short form
MOSTLY = 0.7  # windows differ by a few requests, so that a late strike may meet none
ENDS = ("cut-before", "cut-after")
COMMIT = b"COMMIT\0"  # not the READ COMMITTED of a beginning


@dataclass
class Chain:
    """A rig behind a proxy, and the windows that it has published."""

    rig: Rig
    windows: int = 0
    failed: list[str] = field(default_factory=list)

    def window(self) -> None:
        """One more window, from its rows to what its subscribers hear; people ask again when they are told to."""
        n, self.windows = self.windows, self.windows + 1
        store = self.rig.store
        self.persist(lambda: store.ingest(scenario.STREAM, scenario.rows(n), f"day {n}"))
        self.persist(lambda: store.close_windows(scenario.STREAM, scenario.end_of(n)))
        self.persist(lambda: self.rig.work(local(self.rig.store)))

    def persist(self, act: Callable[[], T]) -> T:
        """What a client does that was told to wait and retry, or to look."""
        for _ in range(4):
            try:
                return act()
            except (Unavailable, OutcomeUnknown) as error:
                self.failed.append(str(error))
        return act()


def published(chain: Chain) -> list[int]:
    return [version.number for version in local(chain.rig.store).versions(scenario.LONG)]


def begun(made: Rig) -> Chain:
    scenario.create_stream(made.store)
    scenario.register(made.store, [scenario.LONG])
    made.subscribe(scenario.LONG, "first")
    chain = Chain(made)
    chain.window()
    return chain


def expect_nothing_wrong(chain: Chain, evidence: Evidence) -> None:
    assert check(evidence, settled=True) == []
    assert spends_without_version(evidence) == []
    assert published(chain) == list(range(1, chain.windows + 1))
    asked = [f"{scenario.LONG.replace('.', '__')}:ptk_version"]
    assert chain.rig.store.look_up(asked, [{"hour": 1}]) == [{"ptk_version": chain.windows}]


# PostgreSQL: catalog and registry


@pytest.fixture(scope="module")
def postgres_wire(postgres: Postgres) -> Iterator[tuple[FaultyWire, str]]:
    """The proxy and the URL of a fresh database behind it."""
    with (
        postgres.fresh_database() as url,
        wire.between_us_and(f"{postgres.directory}/.s.PGSQL.5432") as faulty,
    ):
        name = make_url(url).database
        options = "sslmode=disable&gssencmode=disable"
        yield faulty, f"postgresql+psycopg://postgres@127.0.0.1:{faulty.port}/{name}?{options}"


@pytest.fixture(scope="module")
def on_postgres(
    postgres_wire: tuple[FaultyWire, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Chain]:
    with rig(tmp_path_factory.mktemp("postgres") / "home", database_url=postgres_wire[1]) as made:
        yield begun(made)


def commits_of_a_window(faulty: FaultyWire, chain: Chain) -> int:
    faulty.count(COMMIT)
    chain.window()
    return faulty.counted.pop(COMMIT)


def strike_postgres(faulty: FaultyWire, chain: Chain, stride: int, kinds: Sequence[str] = ENDS) -> None:
    commits = commits_of_a_window(faulty, chain)
    assert commits > 20
    struck = []
    for nth in range(0, commits, stride):
        for kind in kinds:
            rule = faulty.strike(kind, COMMIT, skip=nth)
            chain.window()
            struck.append(rule.struck)
            faulty.heal()
    assert sum(struck) >= MOSTLY * len(struck)
    expect_nothing_wrong(chain, chain.rig.evidence)


def test_commits_that_are_lost_or_unheard_change_nothing(postgres_wire, on_postgres):
    strike_postgres(postgres_wire[0], on_postgres, 5 * STRIDE)


@pytest.mark.soak
def test_every_commit_that_is_lost_or_unheard_changes_nothing(postgres_wire, on_postgres):
    strike_postgres(postgres_wire[0], on_postgres, 1, (*ENDS, "half-close", "slow"))


# S3: raw zone and lake


@dataclass(frozen=True)
class Bucket:
    """The proxy, and what lies behind it."""

    faulty: FaultyHttp
    endpoint: str

    def copied(self, folder: Path) -> Path:
        """The lake as local files, with the times at which they were written."""
        behind = s3fs.S3FileSystem(endpoint_url=self.endpoint, skip_instance_cache=True)
        shutil.rmtree(folder, ignore_errors=True)
        for name, entry in behind.find(f"{BUCKET}/lake", detail=True).items():
            target = folder / name.partition("/lake/")[2]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(behind.cat_file(name))
            written = entry["LastModified"].timestamp()
            os.utime(target, (written, written))
        return folder


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with pytest.MonkeyPatch.context() as environment, serving() as endpoint:
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        environment.setenv("AWS_ACCESS_KEY_ID", "test")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "test")
        quick = {"read_timeout": 2, "retries": {"mode": "standard", "total_max_attempts": 1}}
        environment.setitem(conf, "s3", {"config_kwargs": quick})
        s3fs.S3FileSystem(endpoint_url=endpoint, skip_instance_cache=True).mkdir(BUCKET)
        with proxy.between_us_and(endpoint) as faulty:
            environment.setenv("AWS_ENDPOINT_URL", faulty.url)
            s3fs.S3FileSystem.clear_instance_cache()
            yield Bucket(faulty, endpoint)
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture(scope="module")
def on_s3(bucket: Bucket, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    urls = {"lake_url": f"s3://{BUCKET}/lake", "raw_url": f"s3://{BUCKET}/raw"}
    with rig(tmp_path_factory.mktemp("s3") / "home", **urls) as made:
        yield begun(made)


def strike_s3(bucket: Bucket, chain: Chain, stride: int, copy: Path) -> None:
    bucket.faulty.heal()
    chain.window()
    requests = len(bucket.faulty.seen)
    assert requests > 20
    struck = []
    for turn, nth in enumerate(range(0, requests, stride)):
        kind = proxy.KINDS[turn % len(proxy.KINDS)]
        rule = bucket.faulty.strike(kind, skip=nth, times=2)  # also when the client library asks once more
        chain.window()
        struck.append(rule.struck > 0)
        bucket.faulty.heal()
    assert sum(struck) >= MOSTLY * len(struck)
    rig = chain.rig
    lake = bucket.copied(copy)
    evidence = Evidence(lake, rig.receiver.log, rig.settings.catalog_url, tuple(rig.subscribers))
    expect_nothing_wrong(chain, evidence)


def test_faults_of_the_object_store_change_nothing(bucket, on_s3, tmp_path):
    strike_s3(bucket, on_s3, STRIDE, tmp_path / "lake")


@pytest.mark.soak
@pytest.mark.parametrize("offset", range(len(proxy.KINDS)))
def test_every_fault_of_the_object_store_changes_nothing(bucket, on_s3, tmp_path, offset):
    """Over all offsets each kind strikes each request."""
    for _ in range(offset):
        on_s3.window()
    strike_s3(bucket, on_s3, 1, tmp_path / "lake")


def test_erased_and_expired_rows_are_gone_from_a_faulty_object_store(bucket, on_s3):
    """Expiry is a job and was struck above; nothing of the windows that have left their retention lies there."""
    found = fsspec.filesystem("s3").find(f"{BUCKET}/raw/{scenario.STREAM}")
    windows = {int(name.split("/")[3]) for name in found}
    assert windows <= {on_s3.windows - 1, on_s3.windows}


# Redis: rows for lookups


@pytest.fixture(scope="module")
def redis_wire(redis_server: RedisServer) -> Iterator[FaultyWire]:
    with wire.between_us_and(redis_server.client_url.removeprefix("unix://")) as faulty:
        yield faulty


@pytest.mark.parametrize("online_store", ["redis", "packed"])
@pytest.mark.parametrize("stride", [9, pytest.param(1, marks=pytest.mark.soak)])
def test_faults_of_redis_change_nothing(redis_wire, tmp_path, online_store, stride):
    database = {"redis": 13, "packed": 14}[online_store]
    url = f"redis://127.0.0.1:{redis_wire.port}/{database}"
    with rig(tmp_path / "home", online_store=online_store, redis_url=url) as made:
        chain = begun(made)
        redis_wire.count(b"*")
        chain.window()
        sent = redis_wire.counted.pop(b"*")
        assert sent >= 3
        struck = []
        for nth in range(0, sent, stride):
            for kind in (*ENDS, "slow"):
                rule = redis_wire.strike(kind, b"*", skip=nth)
                chain.window()
                struck.append(rule.struck)
                redis_wire.heal()
        assert sum(struck) >= MOSTLY * len(struck)
        expect_nothing_wrong(chain, made.evidence)


def test_a_redis_that_is_away_is_told_to_who_looks_up_and_delays_who_publishes(redis_wire, tmp_path):
    url = f"redis://127.0.0.1:{redis_wire.port}/15"
    with rig(tmp_path / "home", online_store="redis", redis_url=url) as made:
        chain = begun(made)
        asked = [f"{scenario.LONG.replace('.', '__')}:ptk_version"]
        redis_wire.strike("cut-before", b"*")
        redis_wire.refusing = True
        with pytest.raises(Unavailable):
            made.store.look_up(asked, [{"hour": 1}])
        redis_wire.heal()
        chain.window()
        expect_nothing_wrong(chain, made.evidence)


# The endpoint of a webhook


@pytest.mark.parametrize(
    "kind",
    [
        k if k in {"swallowed", "cut-after"} else pytest.param(k, marks=pytest.mark.soak)
        for k in proxy.KINDS
        if k != "hang"
    ],
)
def test_an_endpoint_hears_every_version_in_order_through_a_faulty_proxy(tmp_path, kind):
    with rig(tmp_path / "home") as made:
        scenario.create_stream(made.store)
        scenario.register(made.store, [scenario.LONG])
        with proxy.between_us_and(made.receiver.endpoint("").rstrip("/")) as faulty:
            subscribed = made.store.subscribe_to_ptk(scenario.LONG, f"{faulty.url}/behind")
            made.receiver.trust(subscribed.secret)
            made.subscribers.append(scenario.subscriber("behind", scenario.LONG))
            rule = faulty.strike(kind, "POST", times=2)
            chain = Chain(made)
            for _ in range(2):
                chain.window()
            assert rule.struck == 2
            expect_nothing_wrong(chain, made.evidence)


# What people ask for


def test_an_erasure_that_fails_half_way_is_complete_when_it_is_asked_for_again(bucket, tmp_path):
    """No row of the unit is left in any file, and every other row is, whatever became of which request."""
    urls = {"lake_url": f"s3://{BUCKET}/users/lake", "raw_url": f"s3://{BUCKET}/users/raw"}
    with rig(tmp_path / "home", **urls) as made:
        store, service = made.store, local(made.store)
        service.__dict__["eraser"] = ErasesHere(service)
        store.create_stream(
            "users",
            team=scenario.TEAM,
            schema={"at": "timestamp", "user": "string"},
            time_column="at",
            epsilon=1.0,
            origin=scenario.ORIGIN,
            closing="operator",
            privacy_unit="user-in-window",
            unit_column="user",
            max_rows_per_unit=5,
        )
        at = pa.array([scenario.ORIGIN] * 40, pa.timestamp("us", tz="UTC"))
        names = [f"u{number % 10}" for number in range(40)]
        for turn, kind in enumerate(("500", "swallowed", "cut-before", "cut-after")):
            unit = f"u{turn}"
            bucket.faulty.heal()
            store.ingest("users", pa.table({"at": at, "user": names}), f"batch {turn}")
            rule = bucket.faulty.strike(kind, "PUT", skip=turn, times=4)
            chain = Chain(made)
            chain.persist(lambda unit=unit: service.forget("users", unit))
            bucket.faulty.heal()
            service.forget("users", unit)
            assert rule.struck
            left = users_left(service)
            assert unit not in left
            assert set(left) >= {"u8", "u9"}


def users_left(service: Service) -> list[str]:
    """The users of all rows of the first window, by the service's own key."""
    window = WindowId("users", 0)
    with service.begin() as uow:
        tokens = uow.streams.tokens_for(window)
    tables = service.raw.read_batches(window, tokens, service.keys.sealing_key(window))
    return [user for table in tables for user in table["user"].to_pylist()]


def create_stream(store: Store, name: str) -> None:
    store.create_stream(
        name,
        team=scenario.TEAM,
        schema={"at": "timestamp", "hour": "int64", "speed": "float64", "long": "bool"},
        time_column="at",
        epsilon=1.0,
        origin=scenario.ORIGIN,
        closing="operator",
    )


def test_what_people_ask_for_is_done_once_whatever_becomes_of_the_commit(postgres_wire, tmp_path):
    """Asked again after a lost answer, each request succeeds."""
    faulty, url = postgres_wire
    with rig(tmp_path / "home", database_url=f"{url}&application_name=people") as made:
        store = made.store
        for kind in ENDS:
            name = f"stream_{kind.replace('-', '_')}"
            asked: list[Callable[[], object]] = [
                lambda name=name: create_stream(store, name),
                lambda name=name: store.ingest(name, scenario.rows(0), "only"),
                lambda name=name: store.close_windows(name, scenario.end_of(0)),
            ]
            for act in asked:
                faulty.strike(kind, COMMIT)
                with pytest.raises((Unavailable, OutcomeUnknown)):
                    act()
                faulty.heal()
                act()
            assert [stream.name for stream in local(store).streams()].count(name) == 1
            assert len([p for p in local(made.store).raw.files(name) if "/batches/" in p]) <= 2


@pytest.mark.parametrize("kind", ENDS)
def test_people_and_the_trail_hear_of_a_commit_that_nobody_answered(postgres_wire, tmp_path, kind):
    """`Unavailable` promises that nothing was done; of the three commits only the first can be lost like that."""
    faulty, url = postgres_wire
    settings = Settings(home=tmp_path / "home", database_url=f"{url}&application_name=told")
    names = [f"commit_{kind.replace('-', '_')}_{nth}" for nth in range(3)]
    told: list[type[Exception]] = []
    with Store(LocalService(settings)) as store:
        before = newest_line(local(store))
        for nth, name in enumerate(names):
            faulty.strike(kind, COMMIT, skip=nth)
            try:
                with pytest.raises((Unavailable, OutcomeUnknown)) as caught:
                    create_stream(store, name)
            finally:
                faulty.heal()
            told.append(caught.type)
        created = [stream.name for stream in local(store).streams() if stream.name in names]
        with local(store).begin() as uow:
            trail = [(line.subject, line.outcome) for line in uow.audit.after(before, 10_000)]
    assert told == [Unavailable, OutcomeUnknown, OutcomeUnknown]
    written = kind == "cut-after"
    assert created == (names[1:] if written else names[2:])
    first, second, third = (f"stream/{name}" for name in names)
    begun_only = [(first, "started")] if written else []
    assert trail == [*begun_only, (second, "outcome-unknown"), (third, "done" if written else "started")]


def newest_line(service: Service) -> int:
    with service.begin() as uow:
        return max((line.number for line in uow.audit.after(0, 10_000)), default=0)
