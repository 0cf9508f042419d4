"""The demo: trips in, private features out, on real parts, with a progress bar."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ptkstore.adapters.webhooks import WebhookReceiver
from ptkstore.cli.demo import collect, report, trips, truth
from ptkstore.cli.demo.records import Deliveries
from ptkstore.cli.output import progress, said
from ptkstore.cli.service.machine import running
from ptkstore.domain.jobs import JobKind, JobState, job_id
from ptkstore.errors import InvalidRequest, Unavailable, UnknownName
from ptkstore.sdk import load_repository
from ptkstore.sdk.store import HomeStore
from ptkstore.settings import Settings, load_settings
from ptkstore.wiring import Service

STREAM = collect.STREAM
TEAM = "taxi"
DEFAULT_DAYS = 5
DAY = timedelta(days=1)
LATENESS = timedelta(hours=1)
ROWS_A_DAY = 40_000  # the policy's public estimate for generated trips
ROWS_A_DAY_IN_FILES = 10_000  # and for files: the operator's round number, not counted from the rows
GENERATED_START = date(2026, 1, 5)
PATIENCE_SECONDS = 180.0
LOOPBACK = "127.0.0.0/8"


def run_demo(
    data: Path | None,
    home: Path | None,
    target: Path | None,
    days: int = DEFAULT_DAYS,
    *,
    quiet: bool = False,
) -> report.Report:
    """Run the whole chain for some more days of trips, as `ptk demo --help` says.

    A second run in the same home continues with the next days. `quiet` leaves the table of results out.
    """
    began = monotonic()
    started = datetime.now(UTC)
    settings = _settings(home)
    target = target or Path("demo-report.json")
    report.check_target(target, settings.root)
    if data is not None and not data.is_file():
        raise UnknownName("file", str(data))
    with running(settings), HomeStore(Service(settings)) as store, _progress(days) as step:
        step("reading trips")
        next_day = _next_day(store)
        given = _input(data, next_day, days)
        if next_day is None:
            step("creating the stream")
            _create_stream(store, given)
        step("applying the team's repository")
        repository = load_repository(collect.example("taxi_team"))
        store.apply(repository)
        ptk_ids = [f"{repository.team}.{ptk.name}" for ptk in repository.ptks]
        if not _settled(store):
            step("finishing what an interrupted run left")
            _wait(lambda: _settled(store), "the work of an interrupted run", settings)
        with _receiver(store, settings, ptk_ids) as (receiver, subscriptions):
            for number in range(days):
                _one_day(store, given, number, ptk_ids, subscriptions, step)
            step("letting the last window expire")
            store.close_windows(STREAM, given.start + (days + 1) * DAY)
            _wait(lambda: not store.service.raw.files(STREAM), "expiry", settings)
            deliveries = _deliveries(receiver)
        step("looking features up with plain Feast")
        lookups = collect.lookups(store, given)
        step("measuring error against epsilon on the demo's own input")
        errors = tuple(truth.error_by_epsilon(given.table))
        made = collect.report_of(store, given, ptk_ids, deliveries, lookups, errors, started, began)
        step("done")
    paths = report.write(made, target, settings.root)
    if not quiet:
        collect.tell(made, paths, settings)
    return made


def _settings(home: Path | None) -> Settings:
    settings = load_settings(home)
    networks = tuple(
        dict.fromkeys((*settings.webhook_networks, LOOPBACK))
    )  # the demo's receiver listens there
    return settings.model_copy(update={"webhook_networks": networks})


def _next_day(store: HomeStore) -> datetime | None:
    try:
        return store.service.work_on_stream(STREAM).goes_on_at
    except UnknownName:
        return None


def _input(data: Path | None, next_day: datetime | None, days: int) -> collect.Input:
    if data is None:
        first = next_day.date() if next_day else GENERATED_START
        table = trips.generate(ROWS_A_DAY * days, days=days, seed=first.toordinal(), start=first)
        return collect.Input(table, trips.GENERATED, _midnight(first), ROWS_A_DAY, days)
    table = trips.load(data)
    start = next_day or _midnight(trips.first_day(table))
    chosen = _between(table, start, start + days * DAY)
    if not chosen.num_rows:
        raise InvalidRequest(
            f"{data.name} has no trips from {start.date()} on, where this home continues; use another --home"
        )
    return collect.Input(chosen, data.name, start, ROWS_A_DAY_IN_FILES, days)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _between(table: pa.Table, start: datetime, end: datetime) -> pa.Table:
    times = table[trips.TIME_COLUMN]
    first, last = pa.scalar(start, times.type), pa.scalar(end, times.type)
    return table.filter(pc.and_(pc.greater_equal(times, first), pc.less(times, last)))


def _create_stream(store: HomeStore, given: collect.Input) -> None:
    store.create_stream(
        STREAM,
        team=TEAM,
        schema=trips.COLUMNS,
        time_column=trips.TIME_COLUMN,
        epsilon=1.0,
        delta=1e-6,
        window="1d",
        origin=given.start,
        lateness="1h",
        retention=1,
        rows_per_window=given.rows_a_day,
        n_max=10 * given.rows_a_day,
        closing="operator",
    )


def _one_day(
    store: HomeStore,
    given: collect.Input,
    number: int,
    ptk_ids: Sequence[str],
    subscriptions: dict[str, str],
    step: Any,
) -> None:
    start = given.start + number * DAY
    step(f"day {number + 1} of {given.days}: ingesting")
    store.ingest(STREAM, _between(given.table, start, start + DAY), f"{given.source} {start.date()}")
    step(f"day {number + 1} of {given.days}: window closed; training, publishing, notifying")
    store.close_windows(STREAM, start + DAY + LATENESS)
    _wait(
        lambda: _sent(store, ptk_ids, subscriptions, start),
        f"the states of {start.date()}",
        store.service.settings,
    )


def _settled(store: HomeStore) -> bool:
    """Whether no window of an earlier run still waits for its trainings."""
    return all(
        job.state is JobState.ENDED
        for job in store.service.work_on_stream(STREAM).jobs.values()
        if job.kind in (JobKind.PREPARE, JobKind.ALLOCATE, JobKind.TRAIN)
    )


def _sent(store: HomeStore, ptk_ids: Sequence[str], subscriptions: dict[str, str], start: datetime) -> bool:
    """Whether every training of the window has ended and every version so far was flipped and told."""
    policy, work = store.service.stream(STREAM).policy, store.service.work_on_stream(STREAM)
    window = (start - policy.origin) // policy.window
    for ptk_id in ptk_ids:
        training = work.jobs.get(job_id(JobKind.TRAIN, ptk_id, window))
        if training is None or training.state is not JobState.ENDED:
            return False
        notified = work.jobs[job_id(JobKind.NOTIFY, subscriptions[ptk_id])].position
        if notified < work.elected.get(ptk_id, 0):
            return False
    return True


def _wait(ready: Any, what: str, settings: Settings) -> None:
    deadline = monotonic() + PATIENCE_SECONDS
    while not ready():
        if monotonic() > deadline:
            raise Unavailable(
                f"waited {PATIENCE_SECONDS:g} s for {what}; the logs are in {settings.root / 'log'}"
            )
        sleep(0.1)


@contextmanager
def _receiver(
    store: HomeStore, settings: Settings, ptk_ids: Sequence[str]
) -> Iterator[tuple[WebhookReceiver, dict[str, str]]]:
    """A subscriber of every PTK; what an interrupted run left subscribed is ended first."""
    folder = settings.root / "demo"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = folder / "subscriptions.json"
    for subscription_id in json.loads(file.read_text()) if file.exists() else ():
        try:
            store.unsubscribe(subscription_id)
        except UnknownName:
            continue
    with WebhookReceiver(folder / "received.jsonl") as receiver:
        made = {}
        for ptk_id in ptk_ids:
            subscribed = store.subscribe_to_ptk(ptk_id, receiver.endpoint(ptk_id))
            made[ptk_id] = subscribed.id
            file.write_text(json.dumps(list(made.values())))
            receiver.trust(subscribed.secret)
        yield receiver, made
        for subscription_id in made.values():
            store.unsubscribe(subscription_id)
        file.unlink()


def _deliveries(receiver: WebhookReceiver) -> Deliveries:
    calls = receiver.calls
    verified = {call.webhook_id for call in calls if call.verified and call.status is not None}
    sent = {call.webhook_id for call in calls}
    return Deliveries(len(sent), len(verified), len(sent - verified))


@contextmanager
def _progress(days: int) -> Iterator[Any]:
    """Show each step: in a terminal on one line, with how long the rest may take, else on a line each."""
    steps = 8 + 2 * days  # a run that finishes, or begins, nothing has fewer steps
    done = count(1)
    with progress("starting redis, workers, relay and schedule", steps) as tell:

        def step(text: str) -> None:
            if not said.is_terminal:
                said.print(text)
            tell(text, next(done))

        yield step
