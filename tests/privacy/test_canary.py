"""Canaries in the rows of a running service: none leaves the raw zone, nor can be read inside it, and no count does."""

from __future__ import annotations

import json
import random
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ptklib import CountFeaturizer, HistoricalStatistics
from ptklib.mechanisms.comparisons import Comparison as Comparing
from ptklib.mechanisms.threshold import DrawnThreshold
from ptklib.profiling.estimates import UNITS
from ptkstore.adapters.processes import RedisServer
from ptkstore.application.versions.candidates import CONTENT_FILE
from ptkstore.cli.service.machine import running
from ptkstore.domain.budgeting.thresholds import Comparison, ReleasedLoss, Threshold
from ptkstore.domain.jobs import JobKind, JobState, Outcome
from ptkstore.domain.scheduling.shares import Share
from ptkstore.domain.streams.blocks import HASH_RANGE, rows_behind, train_blocks
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import PtkStoreError
from ptkstore.sdk import Store
from ptkstore.settings import Settings
from ptkstore.wiring import Service
from tests.faults.scenario import DAY, ORIGIN
from tests.privacy.canary import FRACTION, TEXT, WHOLE, find, numbers_in, search, values
from tests.privacy.service import process_texts, redis_values
from tests.support.local import local
from tests.support.receiver import WebhookReceiver

pytestmark = [pytest.mark.real, pytest.mark.long]

STREAM, ADAPTIVE, MEASURED, RELEASED, JUDGED = "birds", "adaptive", "measured", "released", "judged"
STREAMS = (STREAM, ADAPTIVE, MEASURED, RELEASED, JUDGED)
ROWS = 7_919
REFUSED = 1_237
MARKED = 20
SCHEMA = {"at": "timestamp", "zone": "int64", "note": "string", "weight": "float64", "ring": "int64"}
ZONES = list(range(8))
GOOD, COUNTS, BAD, TESTED = "birds.weights", "birds.rings", "birds.notes", "birds.tested"
WAITS = "birds.waits"
REJECTED, MEANS, MISSES = "birds.rejected", "birds.means", "birds.misses"
WINDOWS = 2
PATIENCE_SECONDS = 150.0


@dataclass
class Run:
    """What was seen while the service ran and after it."""

    home: Path
    temporary: Path
    received: Path
    hits: list[str] = field(default_factory=list)
    looks: int = 0
    errors: list[str] = field(default_factory=list)
    outcomes: dict[str, list[Outcome | None]] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)
    allowed: tuple[Share, ...] = ()
    thresholds: tuple[Threshold, ...] = ()
    compared: tuple[Comparison, ...] = ()
    released: tuple[ReleasedLoss, ...] = ()
    verdicts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)

    def look(self, redis_url: str) -> None:
        """Search every file, process and key there is at this moment."""
        self.look_at_files()
        for name, content in (*process_texts(), *redis_values(redis_url)):
            self.hits += [f"{name}: {what}" for what in find(content)]

    def look_at_files(self) -> None:
        """Search every file of the home, of temporary places and of the receiver."""
        self.looks += 1
        for tree in (self.home, self.temporary, self.received.parent):
            self.hits += [f"{tree}/{name}: {what}" for name, what in search(tree).items()]


def rows(window: int, n: int) -> pa.Table:
    """Rows of a window: a canary in every note, and in the other columns of so many that some are trained on."""
    draw = random.Random(window)
    seconds = [draw.randrange(86_400) for _ in range(n)]
    plain = range(min(n, MARKED), n)
    marked = n - len(plain)
    start = ORIGIN + window * DAY
    return pa.table(
        {
            "at": pa.array([start + timedelta(seconds=s) for s in seconds], pa.timestamp("us", tz="UTC")),
            "zone": pa.array([draw.choice(ZONES) for _ in seconds], pa.int64()),
            "note": pa.array([TEXT] * n),
            "weight": pa.array([FRACTION] * marked + [draw.uniform(1, 99) for _ in plain], pa.float64()),
            "ring": pa.array([WHOLE] * marked + [draw.randrange(100) for _ in plain], pa.int64()),
        }
    )


def create(store: Store) -> None:
    store.create_stream(
        STREAM,
        team=STREAM,
        schema=SCHEMA,
        time_column="at",
        epsilon=1.0,
        origin=ORIGIN,
        closing="operator",
        rows_per_window=10_000,
    )
    zones = {"zone": ZONES}
    bounds = {"weight": (0.0, 100.0), "ring": (0, 100)}
    trained = {
        GOOD: HistoricalStatistics(["zone"], list(bounds), domains=zones, bounds=bounds, epsilon=0.3),
        COUNTS: CountFeaturizer(["zone"], "ring", classes=[0, 1], domains=zones, epsilon=0.3),
        TESTED: HistoricalStatistics(["zone"], list(bounds), domains=zones, bounds=bounds, epsilon=0.1),
        BAD: HistoricalStatistics(["zone"], ["ring"], domains=zones, bounds={"ring": (0, 1)}, epsilon=0.3),
    }
    configs = {
        COUNTS: {"epsilons": [0.3, 0.3]},
        GOOD: {"evaluate": {"epsilon": 0.3}},
        TESTED: {"accept": {"metric": "loss", "epsilon": 0.3, "timeout": "1d"}},
    }
    # of COUNTS fewer rows than a partial takes, and yet some marked ones; none of TESTED can pass
    targets = {COUNTS: 0.03, TESTED: 1e-9}
    for ptk_id, estimator in trained.items():
        target = targets.get(ptk_id, 0.5)
        name, config = ptk_id.partition(".")[2], configs.get(ptk_id)
        store.register_ptk(estimator, name=name, stream=STREAM, target=target, config=config)
    with local(
        store
    ).begin() as uow:  # past registration: a training that meets a text where it wants a number
        good = uow.ptks.get(BAD)
        params = {**good.estimator["params"], "values": ["note"], "bounds": {"note": [0, 1]}}
        uow.ptks.replace(replace(good, estimator={**good.estimator, "params": params}))
        uow.commit()


def create_adaptive(store: Store) -> None:
    """A second stream of the same rows, whose PTK never passes its test and so waits, with allowances."""
    store.create_stream(
        ADAPTIVE,
        team=STREAM,
        schema=SCHEMA,
        time_column="at",
        epsilon=1.0,
        origin=ORIGIN,
        closing="operator",
        rows_per_window=10_000,
        retention=WINDOWS,
        scheduler="adaptive",
    )
    bounds = {"weight": (0.0, 100.0), "ring": (0, 100)}
    waits = HistoricalStatistics(["zone"], list(bounds), domains={"zone": ZONES}, bounds=bounds, epsilon=0.1)
    tested = {"accept": {"metric": "loss", "epsilon": 0.1}, "epsilons": [0.1, 1.0]}
    store.register_ptk(waits, name="waits", stream=ADAPTIVE, target=1e-9, config=tested, windows=(1, WINDOWS))


def create_measured(store: Store) -> None:
    """A third stream of the same rows. Its PTKs compare their losses with a threshold that no window reaches."""
    store.create_stream(
        MEASURED,
        team=STREAM,
        schema=SCHEMA,
        time_column="at",
        epsilon=10.0,
        origin=ORIGIN,
        closing="operator",
        rows_per_window=10_000,
        retention=WINDOWS,
        scheduler="budgeting",
        significance="loss",
        least_significance=1e6,
        most_significance=1e10,
        comparison_epsilon=1.0,
    )
    bounds = {"weight": (0.0, 100.0), "ring": (0, 100)}
    for name in ("first", "second"):  # each takes a tenth of a window
        model = HistoricalStatistics(
            ["zone"], list(bounds), domains={"zone": ZONES}, bounds=bounds, epsilon=1.0
        )
        store.register_ptk(model, name=name, stream=MEASURED, target=0.5)


def create_released(store: Store) -> None:
    """A fourth one, whose windows release the losses of a PTK, and grant what they are worth."""
    store.create_stream(
        RELEASED,
        team=STREAM,
        schema=SCHEMA,
        time_column="at",
        epsilon=10.0,
        origin=ORIGIN,
        closing="operator",
        rows_per_window=10_000,
        retention=WINDOWS,
        scheduler="budgeting",
        significance="released-loss",
        least_significance=1e-6,
        most_significance=1.0,
        comparison_epsilon=1.0,
    )
    bounds = {"weight": (0.0, 100.0), "ring": (0, 100)}
    model = HistoricalStatistics(["zone"], list(bounds), domains={"zone": ZONES}, bounds=bounds, epsilon=0.5)
    tested = {"epsilons": [0.5, 2.0]}
    store.register_ptk(model, name="taught", stream=RELEASED, target=0.5, config=tested)


def create_judged(store: Store) -> None:
    """A fourth stream of the same rows: one target is beyond the class, and errors of means are judged."""
    store.create_stream(
        JUDGED,
        team=STREAM,
        schema=SCHEMA,
        time_column="at",
        epsilon=10.0,
        origin=ORIGIN,
        closing="operator",
        rows_per_window=10_000,
    )
    bounds = {"weight": (0.0, 100.0), "ring": (0, 100)}
    error = {"metric": "error", "epsilon": 3.0}
    both = {"metric": "loss", "epsilon": 1.0, "reject_epsilon": 3.0}
    asked = {
        REJECTED: (list(bounds), both, 1e-9),
        MEANS: (["weight"], error, 90.0),
        MISSES: (["ring"], error, 1e-6),
    }
    for ptk_id, (columns, accept, target) in asked.items():
        model = HistoricalStatistics(
            ["zone"],
            columns,
            domains={"zone": ZONES},
            bounds={column: bounds[column] for column in columns},
            epsilon=2.0,
        )
        name = ptk_id.partition(".")[2]
        store.register_ptk(model, name=name, stream=JUDGED, target=target, config={"accept": accept})


def hostile(store: Store) -> Iterator[str]:
    """What the service says to tables that it refuses as a whole, the whole chain of errors included."""
    good = rows(0, 5)
    note = pa.array([TEXT] * 5)
    spoilt = {
        "text for a number": good.set_column(3, "weight", note),
        "a fraction for a whole number": good.set_column(4, "ring", pa.array([FRACTION] * 5)),
        "a column too many": good.append_column("more", note),
        "a column too few": good.drop_columns(["note"]),
        "a column twice": good.append_column("note", note),
        "text for a time": good.set_column(0, "at", note),
    }
    beyond = good.set_column(4, "ring", pa.array([2**64 - WHOLE] * 5, pa.uint64()))
    assert store.ingest(STREAM, beyond).refused == {"not-exact": 5}
    for what, table in spoilt.items():
        with pytest.raises(PtkStoreError) as caught:
            store.ingest(STREAM, table, what)
        yield "".join(traceback.format_exception(caught.value))


def unwelcome() -> pa.Table:
    """Rows that are refused one by one: before the origin."""
    return rows(-1, REFUSED)


def wait_until(condition: Callable[[], object], look: Callable[[], None]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        look()
        time.sleep(0.2)


def ended(store: Store) -> bool:
    with local(store).begin() as uow:
        jobs = [job for stream in STREAMS for job in uow.jobs.find(stream=stream)]
    return all(job.state in (JobState.ENDED, JobState.IDLE) for job in jobs)


def train_without_a_verdict(store: Store) -> list[str]:
    """One more window of the judged PTKs, once no worker is there; the drafts that wait for their verdict."""
    service = local(store)
    store.ingest(JUDGED, rows(WINDOWS, ROWS), f"b{WINDOWS}")
    store.close_windows(JUDGED, ORIGIN + (WINDOWS + 1) * DAY)
    while due := [
        one for one in service.due() if one.startswith(("prepare/", "allocate/", "train/", "partial/"))
    ]:
        for job_id in due:
            service.work_on(job_id)
    with service.begin() as uow:
        jobs = uow.jobs.find(stream=JUDGED)
    return [str(one.draft_id) for one in jobs if (one.kind, one.state) == (JobKind.VALIDATE, JobState.READY)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    base = tmp_path_factory.mktemp("canary")
    made = Run(base / "home", base / "tmp", base / "received" / "log.jsonl")
    made.temporary.mkdir()
    settings = Settings(
        home=made.home,
        online_store="redis",
        webhook_networks=("127.0.0.0/8",),
        publish_tick_seconds=0.5,
        lease_seconds=10,
        rows_per_partial=4_000,  # trainings that are planned for all rows are split in two
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(made.temporary))
        redis_url = RedisServer(made.home).client_url
        with (
            closing(Store(Service(settings))) as store,
            running(settings),
            WebhookReceiver(made.received) as receiver,
        ):
            create(store)
            create_adaptive(store)
            create_measured(store)
            create_released(store)
            create_judged(store)
            for ptk_id in (GOOD, COUNTS, BAD, TESTED, REJECTED, MEANS, MISSES):
                receiver.trust(store.subscribe_to_ptk(ptk_id, receiver.endpoint(ptk_id)).secret)
            made.errors += hostile(store)
            for window in range(WINDOWS):
                reply = store.ingest(
                    STREAM, pa.concat_tables([rows(window, ROWS), unwelcome()]), f"b{window}"
                )
                assert (reply.accepted, sum(reply.refused.values())) == (ROWS, REFUSED)
                for stream in (ADAPTIVE, MEASURED, RELEASED, JUDGED):
                    store.ingest(stream, rows(window, ROWS), f"b{window}")
                for stream in STREAMS:
                    store.close_windows(stream, ORIGIN + (window + 1) * DAY)
                wait_until(lambda: ended(store), lambda: made.look(redis_url))
                made.parts += part_sizes(store, window)
                made.look(redis_url)
            with local(store).begin() as uow:
                made.notices = [repr(notice) for notice in uow.notices()]
                made.allowed = uow.waits.allowed(ADAPTIVE)
                made.thresholds = uow.thresholds.of(MEASURED)
                made.compared = uow.thresholds.answers(MEASURED)
                made.released = uow.thresholds.released(RELEASED)
                made.verdicts = {
                    ptk_id: [dict(one.verdict) for one in uow.validations.of(ptk_id)]
                    for ptk_id in (REJECTED, MEANS, MISSES)
                }
                for job in (job for stream in STREAMS for job in uow.jobs.find(stream=stream)):
                    made.outcomes.setdefault(job.id.partition("/")[0] + str(job.ptk_id or ""), []).append(
                        job.outcome
                    )
        with closing(
            Store(Service(settings))
        ) as store:  # reading files above took away the locks of the other one
            made.waiting = train_without_a_verdict(store)
            made.look_at_files()
            yield made


def part_sizes(store: Store, window: int) -> list[int]:
    """How many rows each part of a window and each partial holds, as only the key store's owner can know."""
    service, where = local(store), WindowId(STREAM, window)
    key = service.keys.sealing_key(where)
    with service.begin() as uow:
        policy = uow.streams.get(STREAM).policy
    trained = rows_behind(policy, train_blocks(where, policy, 0), 8_000)
    parts = [(part, (0, HASH_RANGE)) for part in range(3)]
    parts += [(trained.part, (half.low, half.high)) for half in trained.split(2)]
    urls = [(service.raw.part_url(where, part), hashes) for part, hashes in parts]
    return [service.raw.read_part(url, key, hashes=hashes).num_rows for url, hashes in urls]


def test_the_run_did_what_it_should_and_failed_where_it_should(run: Run):
    assert run.outcomes[f"train{GOOD}"] == [Outcome.PUBLISHED] * WINDOWS
    assert run.outcomes[f"train{COUNTS}"] == [Outcome.PUBLISHED] * WINDOWS
    assert run.outcomes[f"train{BAD}"] == [Outcome.FAILED] * WINDOWS
    assert run.outcomes[f"partial{GOOD}"] == [Outcome.DONE] * 2 * WINDOWS
    assert f"partial{COUNTS}" not in run.outcomes
    assert run.outcomes[f"train{TESTED}"] == run.outcomes[f"validate{TESTED}"] == [Outcome.DONE]
    (given_up,) = (notice for notice in run.notices if "validation-timeout" in notice)
    assert TESTED in given_up
    assert run.outcomes[f"evaluate{GOOD}"] == [Outcome.DONE] * WINDOWS
    assert run.outcomes[f"partial{BAD}"] == [Outcome.WITHDRAWN] * 2 * WINDOWS
    assert len(run.parts) == 5 * WINDOWS
    assert run.looks > WINDOWS
    assert list((run.home / "raw" / STREAM).rglob("*.parquet")), "there were rows to search for"


def test_the_search_saw_a_queue_and_its_allowances(run: Run):
    assert {share.ptk_id for share in run.allowed} == {WAITS}
    assert len(run.allowed) == WINDOWS
    assert run.outcomes[f"validate{WAITS}"][0] is Outcome.DONE


def test_the_search_saw_a_threshold_whose_secret_is_nowhere_in_the_clear(run: Run):
    assert run.thresholds
    assert {one.above for one in run.compared} == {False}
    in_the_clear = DrawnThreshold(Comparing(UNITS, 1, monotonic=True), 7).secret().rstrip()[-25:]
    assert in_the_clear.endswith(b"%d}" % UNITS)
    files = [path for path in run.home.rglob("*") if path.is_file()]
    assert [path for path in files if in_the_clear in path.read_bytes()] == []


def test_the_search_saw_losses_that_were_released(run: Run):
    assert len(run.released) == WINDOWS - 1
    assert all(one.noisy is not None for one in run.released)


def test_the_search_saw_verdicts_that_reject_and_verdicts_on_errors(run: Run):
    decisions = {ptk_id: [one["decision"] for one in found] for ptk_id, found in run.verdicts.items()}
    assert decisions == {REJECTED: ["reject"], MEANS: ["accept"] * WINDOWS, MISSES: ["retry"] * WINDOWS}
    assert "minimum" in run.verdicts[REJECTED][0]
    assert {len(one["groups"]) for one in (*run.verdicts[MEANS], *run.verdicts[MISSES])} == {len(ZONES)}
    assert run.outcomes[f"validate{REJECTED}"] == [Outcome.DONE]
    assert run.outcomes[f"validate{MEANS}"] == [Outcome.PUBLISHED] * WINDOWS
    assert run.outcomes[f"validate{MISSES}"] == [Outcome.DONE] * WINDOWS
    assert list((run.home / "lake").rglob(f"{MEANS}/*/manifest.json")), (
        "its verdicts were searched in the lake"
    )


def test_the_search_saw_states_that_wait_for_their_verdict(run: Run):
    assert len(run.waiting) == len((MEANS, MISSES))
    files = [path for draft in run.waiting for path in (run.home / "raw" / "_staging" / draft).iterdir()]
    assert {path.parent.name for path in files} == set(run.waiting)
    candidates = [path.read_bytes() for path in files if path.name == CONTENT_FILE]
    assert [b"HistoricalStatistics" in content for content in candidates] == [False] * len(run.waiting)


def test_no_canary_was_seen_outside_or_inside_the_raw_zone(run: Run):
    assert run.hits == []


def test_errors_and_notices_hold_no_canary(run: Run):
    texts = [*run.errors, *run.notices]
    assert [text for text in texts if find(text.encode())] == []


def test_no_row_count_stands_in_catalog_logs_or_manifests(run: Run):
    known = {ROWS, ROWS + REFUSED, REFUSED, ROWS * WINDOWS}
    counts = known | {count for count in run.parts if count > 1_000}  # smaller ones could be any number
    lake = [path for path in (run.home / "lake").rglob("*") if path.is_file()]
    sizes = {path.stat().st_size for path in lake}
    assert not sizes & known
    # the plan has these from declared rows and noisy facts
    planned = {
        n
        for path in (run.home / "lake").rglob("manifest.json")
        if (n := (json.loads(path.read_text()).get("planned") or {}).get("n"))
    }
    assert planned
    assert not planned & known
    counts -= sizes | planned  # manifests tell those, and a part's number of rows may be one by chance
    databases = list(run.home.rglob("*.db"))
    assert databases
    texts = {str(path): "\n".join(map(repr, values(path))) for path in databases}
    readable = [*run.home.rglob("*.json"), *run.home.rglob("*.yaml"), run.received]
    readable = [
        path for path in readable if run.home / "raw" not in path.parents
    ]  # drafts there are encrypted
    logs = [
        path for path in run.home.rglob("*.log") if path.name != "redis.log"
    ]  # its lines begin with a pid
    texts |= {str(path): path.read_text() for path in (*readable, *logs)}
    assert len(logs) >= 3
    assert {
        name: numbers_in(text) & counts for name, text in texts.items() if numbers_in(text) & counts
    } == {}
