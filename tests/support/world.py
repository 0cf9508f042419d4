"""A whole service in a temporary home, with a clock that stands still until told otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ptklib import HistoricalStatistics
from ptkstore.adapters.keys import AesGcmSealer, split_hash
from ptkstore.adapters.sandbox.child.compare import compare, release
from ptkstore.adapters.sandbox.child.evaluate import evaluate
from ptkstore.adapters.sandbox.child.forget import forget
from ptkstore.adapters.sandbox.child.prepare import prepare
from ptkstore.adapters.sandbox.child.profile import has_drifted, profile
from ptkstore.adapters.sandbox.child.train import collect, train
from ptkstore.adapters.sandbox.parent.draft_check import verified
from ptkstore.adapters.sql.catalog import SqlUnitOfWork
from ptkstore.adapters.sql.streams import SqlStreams
from ptkstore.domain.accounting.assurances import Assured
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.evaluations import RiskMass
from ptkstore.domain.jobs import Job, JobKind
from ptkstore.domain.ptks.profiles import Point
from ptkstore.domain.streams.policies import Closing, Policy
from ptkstore.domain.streams.schemas import ColumnType, Schema
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import WindowState
from ptkstore.domain.versions.provenance import Provenance
from ptkstore.domain.versions.versions import Draft
from ptkstore.errors import OutcomeUnknown
from ptkstore.ports.features import Answers, PublishedState
from ptkstore.ports.row_processes import (
    CollectRequest,
    Compared,
    CompareRequest,
    DriftRequest,
    EvaluateRequest,
    ForgetRequest,
    NoisyLosses,
    PrepareRequest,
    ProfileRequest,
    ReleaseRequest,
    RunFailed,
    TrainRequest,
)
from ptkstore.settings import Settings
from ptkstore.wiring import Service

ORIGIN = datetime(2026, 1, 5, tzinfo=UTC)
DAY = timedelta(days=1)
NOW = ORIGIN + 30 * DAY
STREAM = "taxi"
SCHEMA = Schema(
    (
        ("at", ColumnType.TIMESTAMP),
        ("hour", ColumnType.INT64),
        ("speed", ColumnType.FLOAT64),
        ("zone", ColumnType.STRING),
        ("long", ColumnType.BOOL),
    ),
    "at",
)
CHAIN = ("prepare", "allocate", "train", "partial", "place")


class StandingClock:
    """Says what it was told."""

    def __init__(self, now: datetime = NOW) -> None:
        self.time = now

    def now(self) -> datetime:
        return self.time

    def pass_(self, **span: float) -> None:
        self.time += timedelta(**span)


class Hooks:
    """Runs something the first time a step is reached."""

    def __init__(self) -> None:
        self.at: dict[str, Callable[[], object]] = {}
        self.seen: list[str] = []

    def reached(self, step: str, job_id: str) -> None:
        self.seen.append(step)
        hook = self.at.pop(step, None)
        if hook is not None:
            hook()


class TrainsHere:
    """What the child process does, without the process; `failing` and `meanwhile` are for one run."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.requests: list[TrainRequest] = []
        self.collected: list[CollectRequest] = []
        self.failing: RunFailed | None = None
        self.meanwhile: Callable[[], object] = lambda: None

    def train(self, request: TrainRequest, keep_alive: Callable[[], None]) -> Draft | RunFailed:
        self.requests.append(request)
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        keep_alive()
        failing, self.failing = self.failing, None
        if failing is not None:
            return failing
        made = train(request, self._service.raw, self._service.staging)
        if isinstance(made, RunFailed):
            return made
        return verified(made, request, self._service.staging) or RunFailed("bad-output")

    def collect(self, request: CollectRequest, keep_alive: Callable[[], None]) -> RunFailed | None:
        self.collected.append(request)
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        keep_alive()
        failing, self.failing = self.failing, None
        return failing or collect(request, self._service.raw, self._service.staging)


class ProfilesHere:
    """What the child process does with a profile set, without the process; `failing` is for one run."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.requests: list[ProfileRequest | DriftRequest] = []
        self.failing: RunFailed | None = None
        self.meanwhile: Callable[[], object] = lambda: None

    def profile(
        self, request: ProfileRequest, keep_alive: Callable[[], None]
    ) -> tuple[Point, ...] | RunFailed:
        failing = self._begin(request, keep_alive)
        return failing or profile(request, self._service.raw)

    def has_drifted(self, request: DriftRequest, keep_alive: Callable[[], None]) -> bool | RunFailed:
        failing = self._begin(request, keep_alive)
        return failing or has_drifted(request, self._service.raw)

    def _begin(
        self, request: ProfileRequest | DriftRequest, keep_alive: Callable[[], None]
    ) -> RunFailed | None:
        self.requests.append(request)
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        keep_alive()
        failing, self.failing = self.failing, None
        return failing


class EvaluatesHere:
    """What the child process does with a test set, without the process; `failing` and `meanwhile` are for one run."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.requests: list[EvaluateRequest] = []
        self.failing: RunFailed | None = None
        self.meanwhile: Callable[[], object] = lambda: None

    def evaluate(self, request: EvaluateRequest, keep_alive: Callable[[], None]) -> RiskMass | RunFailed:
        self.requests.append(request)
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        keep_alive()
        failing, self.failing = self.failing, None
        return failing or evaluate(request, self._service.raw)


class ComparesHere:
    """What the child process does with a comparison, without the process; `failing` and `meanwhile` are for one run."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.requests: list[CompareRequest] = []
        self.releases: list[ReleaseRequest] = []
        self.failing: RunFailed | None = None
        self.meanwhile: Callable[[], object] = lambda: None

    def compare(self, request: CompareRequest, keep_alive: Callable[[], None]) -> Compared | RunFailed:
        self.requests.append(request)
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        keep_alive()
        failing, self.failing = self.failing, None
        return failing or compare(request, self._service.raw, AesGcmSealer())

    def release(self, request: ReleaseRequest, keep_alive: Callable[[], None]) -> NoisyLosses | RunFailed:
        self.releases.append(request)
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        keep_alive()
        failing, self.failing = self.failing, None
        return failing or release(request, self._service.raw)


class PreparesHere:
    """What the child process does with a closed window, without the process."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.meanwhile: Callable[[], object] = lambda: None

    def prepare(self, request: PrepareRequest, keep_alive: Callable[[], None]) -> None:
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        keep_alive()
        prepare(request, self._service.raw, split_hash)


class ErasesHere:
    """What the child process does with a unit that is to be forgotten, without the process."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.meanwhile: Callable[[], object] = lambda: None

    def forget(self, request: ForgetRequest, keep_alive: Callable[[], None]) -> None:
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        keep_alive()
        forget(request, self._service.raw)


class SeenViews:
    """Remembers what was shown, in place of Feast, which takes seconds to import."""

    def __init__(self) -> None:
        self.shown: dict[str, int] = {}
        self.assured: dict[str, Assured] = {}
        self.staged: list[tuple[str, int]] = []
        self.recalled: list[tuple[str, int]] = []
        self.silent: dict[str, tuple[int, ...]] = {}
        self.told: dict[tuple[str, int], Provenance] = {}

    def check_names(self, ptk_id: str, columns: Mapping[str, tuple[str, ...]]) -> None:
        """Any name will do here; the room of Feast tests which do there."""

    def stage(self, state: PublishedState, *, earlier: Iterable[PublishedState] = ()) -> None:
        if state.ptk_id not in self.shown:
            self.recalled += [(one.ptk_id, one.version) for one in earlier]
        self.staged.append((state.ptk_id, state.version))

    def flip(self, state: PublishedState) -> None:
        self.shown[state.ptk_id] = state.version
        self.assured[state.ptk_id.replace(".", "__")] = state.made.assured

    def look_up(self, features: Sequence[str], entities: Sequence[Mapping[str, Any]]) -> Answers:
        views = {feature.partition(":")[0] for feature in features}
        told = {view: one for view, one in self.assured.items() if view in views}
        return Answers((dict.fromkeys(features) for _ in entities), told)

    def withdraw(self, ptk_id: str) -> None:
        self.shown.pop(ptk_id, None)

    def without_provenance(self, ptk_ids: Sequence[str]) -> dict[str, tuple[int, ...]]:
        return {ptk_id: numbers for ptk_id, numbers in self.silent.items() if ptk_id in ptk_ids}

    def add_provenance(self, ptk_id: str, made: Mapping[int, Provenance]) -> None:
        self.told.update({(ptk_id, number): one for number, one in made.items()})
        self.silent.pop(ptk_id)

    def lost(self, ptk_ids: Sequence[str]) -> frozenset[str]:
        return frozenset(ptk_ids) - self.shown.keys()


class World:
    """The service and the parts a test holds in its hand."""

    def __init__(self, home: Path, **settings: Any) -> None:
        self.clock, self.steps = StandingClock(), Hooks()
        defaults = {
            "online_store": "sqlite",
            "publish_tick_seconds": 1.0,
            "webhook_networks": ("127.0.0.0/8",),
        }
        self.service = Service(
            Settings(home=home, **{**defaults, **settings}), clock=self.clock, steps=self.steps
        )
        self.trainer, self.preparer = TrainsHere(self.service), PreparesHere(self.service)
        self.profiler = ProfilesHere(self.service)
        self.eraser, self.views = ErasesHere(self.service), SeenViews()
        self.evaluator = EvaluatesHere(self.service)
        self.comparer = ComparesHere(self.service)
        self.service.__dict__.update(
            profiler=self.profiler,
            trainer=self.trainer,
            preparer=self.preparer,
            eraser=self.eraser,
            evaluator=self.evaluator,
            comparer=self.comparer,
            features=self.views,
        )

    def in_processes(self) -> None:
        """From here on rows are opened in processes of their own, as in earnest."""
        for name in ("trainer", "preparer", "profiler", "eraser", "evaluator", "comparer"):
            del self.service.__dict__[name]

    def stream(self, name: str = STREAM, epsilon: object = 1, **policy: Any) -> Stream:
        defaults = {"closing": Closing.OPERATOR, "retention_windows": 2, "rows_per_window": 100}
        made = Stream(
            name,
            "taxi",
            SCHEMA,
            Policy(
                Loss.capacity(epsilon, policy.pop("capacity_delta", 0)),
                policy.pop("window", DAY),
                ORIGIN,
                **{**defaults, **policy},
            ),
        )
        self.service.create_stream(made)
        return made

    def register(self, name: str = "speed", epsilon: object = 0.1, stream: str = STREAM, **more: Any) -> str:
        fields = {"target": 0.1, "train_frequency": "1d", "estimator": speed(epsilon)}
        return self.service.register_ptk(team="taxi", name=name, stream=stream, **{**fields, **more})

    def ingest(self, days: Sequence[float] = (0.5,), **more: Any) -> Any:
        return self.service.ingest(STREAM, trips(days), **more)

    def close(self, windows: int) -> None:
        """Close the first so many windows."""
        self.service.close_windows(STREAM, ORIGIN + windows * DAY)

    def work(self, *kinds: str) -> list[str]:
        """Do all due work of these kinds; which jobs were worked on."""
        done: list[str] = []
        while ready := [j for j in self.service.due() if j.split("/")[0] in (kinds or CHAIN)]:
            done += [job_id for job_id in ready if self.service.work_on(job_id)]
        return done

    def publish(self, day: int) -> None:
        """One more window from rows to online views."""
        self.ingest((day + 0.5,))
        self.close(day + 1)
        self.work(*CHAIN, "flip")

    def job(self, job_id: str) -> Job:
        with self.service.begin() as uow:
            return uow.jobs.get(job_id)

    def state(self, index: int, stream: str = STREAM) -> WindowState:
        with self.service.begin() as uow:
            return next(w.state for w in uow.windows.of(stream) if w.id.index == index)

    def notices(self) -> list[tuple[str, str]]:
        with self.service.begin() as uow:
            return [(n.subject, n.code) for n in uow.notices("taxi")]

    def train_block(self, window: int) -> tuple[int, int]:
        """Reserved and spent nano-epsilon of the window's train partition."""
        block = next(b for b in self.service.budget(STREAM) if b.number == window * 128 + 2)
        return block.reserved.epsilon_nano, block.spent.epsilon_nano

    def drafts(self) -> list[str]:
        """Drafts that exist in staging, which shares its tree with the raw zone's streams."""
        return [name for name in self.service.staging.drafts() if "." in name]

    def cursor(self, kind: JobKind, name: str) -> Job:
        return self.job(f"{kind}/{name}")


def speed(epsilon: object = 0.1, top: float = 60.0) -> Mapping[str, Any]:
    """Mean speed by hour."""
    estimator = HistoricalStatistics(
        keys=["hour"],
        values=["speed"],
        domains={"hour": list(range(24))},
        bounds={"speed": (0.0, top)},
        epsilon=0.1,
    )
    spec = estimator.to_spec()
    return {"family": spec["family"], "params": {**spec["params"], "epsilon": epsilon}}


def trips(days: Sequence[float] = (0.5,), **columns: Any) -> pa.Table:
    """One trip at each of these days after the origin."""
    n = len(days)
    base: dict[str, Any] = {
        "at": pa.array([ORIGIN + day * DAY for day in days], pa.timestamp("us", "UTC")),
        "hour": pa.array(np.arange(n) % 24),
        "speed": pa.array(np.linspace(10.0, 50.0, n)),
        "zone": pa.array(["z"] * n),
        "long": pa.array([True] * n),
    }
    return pa.table({**base, **columns})


def unheard_batch(monkeypatch: pytest.MonkeyPatch, number: int = 1) -> None:
    """Have the commit of the next batch or part, or a later one, done and not answered."""
    add, commit = SqlStreams.add_batch, SqlUnitOfWork.commit
    left = number

    def added(*given: Any) -> None:
        nonlocal left
        add(*given)
        left -= 1
        if not left:
            monkeypatch.setattr(SqlStreams, "add_batch", add)
            monkeypatch.setattr(SqlUnitOfWork, "commit", unheard)

    def unheard(uow: SqlUnitOfWork) -> None:
        monkeypatch.setattr(SqlUnitOfWork, "commit", commit)
        commit(uow)
        raise OutcomeUnknown("no answer came")

    monkeypatch.setattr(SqlStreams, "add_batch", added)
