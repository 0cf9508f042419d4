"""Hints and the one task: repeated while due, silent about everything but fixed codes."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import structlog
from celery import Celery
from sqlalchemy.exc import IntegrityError

from ptkstore.adapters.processes import RedisServer
from ptkstore.adapters.runtime import LoggedSteps, configure_logging
from ptkstore.application.operations.liveness import ProcessRole
from ptkstore.application.windows import close_windows
from ptkstore.domain.jobs import Job, JobKind, JobState
from ptkstore.errors import LeaseLost, PtkRejected, Unavailable
from ptkstore.sdk import Store
from ptkstore.settings import Settings
from ptkstore.wiring import Service
from workers import online_check, process, relay, schedule
from workers.app import make_app
from workers.broker import Broker
from workers.liveness import LivenessReporter
from workers.relay import BATCH, HINT_AGAIN_SECONDS, MOST_WAITING, Relay
from workers.tasks import run_job

CANARY = "Ann 271828"


class Outbox:
    """What is due, and what was sent."""

    def __init__(self, *due: str) -> None:
        self.due = list(due)
        self.sent: list[str] = []
        self.asked: list[int] = []

    def look(self, limit: int) -> tuple[str, ...]:
        self.asked.append(limit)
        return tuple(self.due[:limit])


def test_a_due_job_is_hinted_at_once_and_again_while_it_stays_due() -> None:
    outbox = Outbox("a", "b")
    relay = Relay(outbox.look, outbox.sent.append, lambda: 0)
    assert relay.pass_once(100.0) == 2
    assert relay.pass_once(100.0 + HINT_AGAIN_SECONDS - 0.01) == 0
    assert relay.pass_once(100.0 + HINT_AGAIN_SECONDS) == 2
    assert outbox.sent == ["a", "b", "a", "b"]
    assert set(outbox.asked) == {BATCH}


def test_a_job_that_was_done_and_is_due_anew_is_hinted_at_once() -> None:
    outbox = Outbox("a")
    relay = Relay(outbox.look, outbox.sent.append, lambda: 0)
    relay.pass_once(100.0)
    outbox.due = []
    assert relay.pass_once(100.1) == 0
    outbox.due = ["a"]
    assert relay.pass_once(100.2) == 1


def test_a_hint_that_could_not_be_sent_is_sent_at_the_next_look() -> None:
    outbox = Outbox("a", "b", "c")
    broken = ["b"]

    def send(job_id: str) -> None:
        if job_id in broken:
            raise ConnectionError
        outbox.sent.append(job_id)

    relay = Relay(outbox.look, send, lambda: 0)
    with pytest.raises(ConnectionError):
        relay.pass_once(100.0)
    broken.clear()
    assert relay.pass_once(100.1) == 2
    assert outbox.sent == ["a", "b", "c"]


def test_a_relay_started_anew_hints_everything_that_is_due() -> None:
    outbox = Outbox("a")
    for _ in range(2):
        Relay(outbox.look, outbox.sent.append, lambda: 0).pass_once(100.0)
    assert outbox.sent == ["a", "a"]


# the task


JOB = Job("train/taxi.speed/0", JobKind.TRAIN, "taxi", JobState.READY, datetime(2026, 1, 10, tzinfo=UTC))


class Fails:
    """A service whose work raises, and in which a job waits that was not the one hinted."""

    def __init__(self, error: BaseException | None, *jobs: Job) -> None:
        self.error, self.jobs = error, jobs
        self.done: list[Job] = []

    def claim_fairest(self) -> tuple[Job, ...]:
        return self.jobs

    def do(self, job: Job) -> None:
        self.done.append(job)
        if self.error is not None:
            raise self.error


@pytest.fixture
def written(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> Iterator[Callable[[], str]]:
    """Everything that anybody writes: standard output and error, and Python's logging."""
    caplog.set_level(logging.DEBUG)
    so_far: list[str] = []

    def all_of_it() -> str:
        so_far.extend(capfd.readouterr())
        return "".join(so_far) + caplog.text

    configure_logging()
    yield all_of_it
    structlog.reset_defaults()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PtkRejected(f"block 7 of {CANARY}"), "ptk-rejected"),
        (LeaseLost(CANARY), "lease-lost"),
        (ValueError(CANARY), "ValueError"),
        (KeyError(CANARY), "KeyError"),
        (RecursionError(CANARY), "RecursionError"),
        (MemoryError(CANARY), "MemoryError"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_error_in_a_task_is_logged_as_a_code_and_goes_nowhere_else(
    error: Exception, code: str, written: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Fails(error, JOB)
    monkeypatch.setattr(process, "service", lambda: service)
    with Celery("test", broker="memory://", set_as_current=False) as app:
        result = app.tasks["ptk.run_job"].apply(args=("train/taxi.other/0",))
    assert (result.state, result.result, result.traceback) == ("SUCCESS", None, None)
    assert service.done == [JOB]
    assert CANARY not in written()
    (line,) = [json.loads(one) for one in written().splitlines() if one.startswith("{")]
    assert (line["code"], line["job"], line["level"]) == (code, "train/taxi.speed/0", "warning")


def test_a_hint_that_comes_when_nothing_is_due_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = Fails(ValueError(CANARY))
    monkeypatch.setattr(process, "service", lambda: idle)
    assert run_job.run("place/taxi.speed") is None
    assert idle.done == []


def test_a_task_that_works_says_nothing(written: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "service", lambda: Fails(None, JOB))
    assert run_job.run("place/taxi.speed") is None
    assert written() == ""


def test_jobs_that_share_a_slot_run_beside_each_other_and_the_failure_of_one_is_its_own(
    written: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [replace(JOB, id=f"train/taxi.p{number}/0") for number in range(3)]
    all_of_them = threading.Barrier(3)

    class Together(Fails):
        def do(self, job: Job) -> None:
            all_of_them.wait(30)
            if job is jobs[1]:
                raise ValueError(CANARY)
            self.done.append(job)

    service = Together(None, *jobs)
    monkeypatch.setattr(process, "service", lambda: service)
    assert run_job.run("train/taxi.p0/0") is None
    assert sorted(job.id for job in service.done) == ["train/taxi.p0/0", "train/taxi.p2/0"]
    assert CANARY not in written()
    (line,) = [json.loads(one) for one in written().splitlines() if one.startswith("{")]
    assert (line["code"], line["job"]) == ("ValueError", "train/taxi.p1/0")


def test_on_a_machine_without_room_for_threads_jobs_come_one_after_the_other(
    written: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [replace(JOB, id=f"train/taxi.p{number}/0") for number in range(3)]
    service = Fails(None, *jobs)
    monkeypatch.setattr(process, "service", lambda: service)

    def no_thread(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    assert run_job.run("train/taxi.p0/0") is None
    assert sorted(job.id for job in service.done) == [job.id for job in jobs]
    assert written() == ""


def test_a_steps_log_holds_step_and_job_only(written: Callable[[], str]) -> None:
    LoggedSteps().reached("spent", "train/taxi.speed/0")
    line = json.loads(written())
    assert set(line) == {"event", "job", "level", "step", "timestamp"}


# Celery


def test_celery_keeps_nothing_waits_for_nothing_and_counts_on_nothing() -> None:
    conf = make_app("redis://127.0.0.1:1/0").conf
    assert conf.result_backend is None
    assert conf.task_ignore_result is True
    assert conf.task_store_errors_even_if_ignored is False
    assert conf.task_acks_late is False
    assert conf.worker_cancel_long_running_tasks_on_connection_loss is False
    assert conf.worker_prefetch_multiplier == 1
    assert (conf.task_serializer, list(conf.accept_content)) == ("json", ["json"])
    assert conf.worker_send_task_events is False
    assert conf.worker_hijack_root_logger is False
    assert conf.broker_connection_max_retries is None
    assert list(conf.include) == ["workers.tasks"]
    assert not conf.beat_schedule


def test_the_only_task_takes_an_id_and_ignores_its_result() -> None:
    app = make_app("memory://")
    app.loader.import_default_modules()
    ours = {name: task for name, task in app.tasks.items() if not name.startswith("celery.")}
    assert set(ours) == {"ptk.run_job"}
    assert ours["ptk.run_job"].ignore_result is True


# schedule and process


def test_trouble_with_one_stream_does_not_keep_others_waiting(written: Callable[[], str]) -> None:
    closed: list[str] = []

    class Streams:
        def close_some_windows(self, stream: str) -> bool:
            if stream == "bad":
                raise PtkRejected(CANARY)
            closed.append(stream)
            return False

    for name in ("a", "bad", "c"):
        schedule.close_due(Streams(), name)  # type: ignore[arg-type]
    assert closed == ["a", "c"]
    assert "ptk-rejected" in written()
    assert CANARY not in written()


@pytest.mark.parametrize("where", ["streams_by_clock", "close_some_windows", "report_alive"])
def test_a_schedule_goes_on_after_trouble_of_any_kind(written: Callable[[], str], where: str) -> None:
    calls: list[str] = []

    class Store:
        settings = Settings()

        def streams_by_clock(self) -> tuple[str, ...]:
            return self.called("streams_by_clock") or ("a", "b")

        def close_some_windows(self, stream: str) -> bool:
            return bool(self.called("close_some_windows"))

        def report_alive(self, *_: object) -> None:
            self.called("report_alive")

        def called(self, name: str) -> None:
            calls.append(name)
            if name == where and calls.count(name) == 1:
                raise IntegrityError("INSERT", None, Exception(CANARY))

    store = Store()
    liveness = LivenessReporter(store, ProcessRole.SCHEDULE)  # type: ignore[arg-type]
    for _ in range(2):
        schedule.pass_once(store, liveness)  # type: ignore[arg-type]
    whole = ["streams_by_clock", "close_some_windows", "close_some_windows", "report_alive"]
    first = whole[:1] if where == "streams_by_clock" else whole
    again = whole[:3] if where == "close_some_windows" else whole
    assert calls == first + again
    assert "IntegrityError" in written()
    assert CANARY not in written()


def test_a_stream_with_many_windows_to_close_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(close_windows, "STEP", 3)
    now = datetime.now(UTC).replace(microsecond=0)
    with closing(Service(Settings(home=tmp_path / "home"))) as service:
        for name, windows in (("a_behind", 8), ("b_even", 2)):
            Store(service).create_stream(
                name,
                team="taxi",
                schema={"at": "timestamp"},
                time_column="at",
                epsilon=1.0,
                window="1d",
                origin=now - timedelta(days=windows, hours=1),
            )

        def closed() -> list[int]:
            with service.read() as uow:
                return [len(uow.windows.of(name)) for name in ("a_behind", "b_even")]

        liveness = LivenessReporter(service, ProcessRole.SCHEDULE)
        seen = [(schedule.pass_once(service, liveness), closed()) for _ in range(4)]
    assert seen == [(True, [3, 2]), (True, [6, 2]), (False, [8, 2]), (False, [8, 2])]


@pytest.mark.parametrize("error", [Unavailable(CANARY), ValueError(CANARY), MemoryError(CANARY)])
def test_a_check_of_online_rows_that_fails_is_logged_as_a_code_and_made_again(
    error: Exception, written: Callable[[], str]
) -> None:
    answers: list[Exception | tuple[str, ...]] = [error, ("taxi.speed",), ()]

    class Store:
        def repair_online(self) -> tuple[str, ...]:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

    while answers:
        online_check.check_once(Store())  # type: ignore[arg-type]
    told = [json.loads(line) for line in written().splitlines()]
    code = error.code if isinstance(error, Unavailable) else type(error).__name__
    assert [(line["job"], line["code"]) for line in told] == [("-", code), ("taxi.speed", "online-rows-lost")]
    assert CANARY not in written()


def test_a_relay_that_is_told_to_stop_gives_back_what_it_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = Service(Settings(home=tmp_path / "home", redis_url="redis://127.0.0.1:1/0"))
    alive: list[list[str]] = []
    close = made.close

    def closing() -> None:
        names = [thread.name for thread in threading.enumerate()]
        alive.append([name for name in names if name in ("deliveries", "hints")])
        close()

    told = threading.Event()
    told.set()
    monkeypatch.setattr(made, "close", closing)
    monkeypatch.setattr(process, "make_service", lambda: made)
    monkeypatch.setattr(process, "stop_event", lambda: told)
    monkeypatch.setattr(relay, "configure_logging", lambda: None)
    monkeypatch.setattr(relay, "log_no_texts", lambda: None)
    relay.main()
    assert alive == [[]]


def test_a_process_has_one_service_and_a_fork_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process, "_made", None)
    monkeypatch.setattr(process, "make_service", lambda: Service(Settings(home=tmp_path)))
    first = process.service()
    assert process.service() is first
    monkeypatch.setattr(process.os, "getpid", lambda: -1)  # type: ignore[attr-defined]
    assert process.service() is not first


def test_hints_do_not_pile_up_while_nobody_reads_them() -> None:
    outbox = Outbox(*(f"job-{i}" for i in range(BATCH)))
    relay = Relay(outbox.look, outbox.sent.append, lambda: len(outbox.sent))
    for second in range(600):
        relay.pass_once(100.0 + second)
    assert len(outbox.sent) < MOST_WAITING + BATCH
    outbox.sent.clear()  # a worker reads on
    relay.pass_once(701.0)
    assert len(outbox.sent) == BATCH


def test_the_length_of_the_queue_is_read_from_the_real_broker(redis_server: RedisServer) -> None:
    broker = Broker(make_app(redis_server.celery_url))
    before = broker.waiting()
    for number in range(3):
        broker.hint(f"job-{number}")
    assert broker.waiting() == before + 3


@pytest.mark.long
def test_a_broker_that_was_away_is_asked_again(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    broker = Broker(make_app(server.celery_url))
    with server:
        assert broker.waiting() == 0
        broker.hint("one")
        assert broker.waiting() == 1
    for _ in range(2):
        with pytest.raises(Unavailable):
            broker.waiting()
        with pytest.raises(Unavailable):
            broker.hint("lost")
    with RedisServer(tmp_path):
        waiting = broker.waiting()  # Redis keeps what it had when it ended
        broker.hint("two")
        assert broker.waiting() == waiting + 1
