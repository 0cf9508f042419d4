"""The one composition root: settings in, use cases bound to real adapters out."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptkstore.adapters.feast import FeastFeatureStore, RedisOnline, SqliteOnline, write_repo
from ptkstore.adapters.keys import AesGcmSealer, FileKeyStore, FileSigner
from ptkstore.adapters.objects import FsspecLake, FsspecRawZone, FsspecStaging
from ptkstore.adapters.processes import RedisServer
from ptkstore.adapters.sandbox import ProcessEraser, ProcessPreparer, ProcessTrainer, Program
from ptkstore.adapters.sql import SqlCatalog
from ptkstore.adapters.webhooks import HttpMessenger
from ptkstore.adapters.world import SilentSteps, SystemClock
from ptkstore.application import (
    allocate_window,
    claim_job,
    close_windows,
    create_stream,
    deliver_event,
    expire_window,
    export_ledger,
    forget_unit,
    ingest_records,
    materialize_state,
    odometers,
    place_state,
    prepare_window,
    read_exposure,
    read_ledger,
    recover_ledger,
    register_ptk,
    subscribe,
    train_ptk,
    versions,
)
from ptkstore.application.heartbeat import Heartbeat
from ptkstore.application.ticks import Ticks
from ptkstore.domain.filters import BlockLedger
from ptkstore.domain.jobs import Job, JobKind
from ptkstore.domain.odometers import Odometers
from ptkstore.domain.ptks import PtkSpec
from ptkstore.domain.snapshots import Version
from ptkstore.domain.streams import Closing, Stream
from ptkstore.domain.subscriptions import Subscription
from ptkstore.domain.windows import WindowId
from ptkstore.errors import LeaseLost
from ptkstore.ports.catalog import Begin
from ptkstore.ports.features import FeatureStore
from ptkstore.ports.world import Clock, Steps
from ptkstore.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa


class Service:
    """Every use case, bound to the adapters that the settings name.

    Adapters are made at first use, so that a process pays only for what it does. Not shared between processes: after a
    fork, make a new one.
    """

    def __init__(self, settings: Settings, *, clock: Clock | None = None, steps: Steps | None = None) -> None:
        self.settings = settings
        self.clock: Clock = clock or SystemClock()
        self.steps: Steps = steps or SilentSteps()

    # adapters

    @cached_property
    def catalog(self) -> SqlCatalog:
        """SQL of everything but rows and keys."""
        return SqlCatalog(self.settings.catalog_url)

    @cached_property
    def keys(self) -> FileKeyStore:
        """Keys, apart from what they open."""
        return FileKeyStore(self.settings.root / "keys")

    @cached_property
    def signer(self) -> FileSigner:
        """The key that reports are signed with."""
        return FileSigner(self.settings.root / "keys")

    @cached_property
    def raw(self) -> FsspecRawZone:
        """Encrypted rows."""
        return FsspecRawZone(self.settings.raw, AesGcmSealer())

    @cached_property
    def staging(self) -> FsspecStaging:
        """Encrypted drafts."""
        return FsspecStaging(self.settings.raw, AesGcmSealer())

    @cached_property
    def lake(self) -> FsspecLake:
        """Published states."""
        return FsspecLake(self.settings.lake)

    @cached_property
    def trainer(self) -> ProcessTrainer:
        """One process per run."""
        return ProcessTrainer(self._program, staging=self.staging)

    @cached_property
    def preparer(self) -> ProcessPreparer:
        """One process per window."""
        return ProcessPreparer(self._program)

    @cached_property
    def eraser(self) -> ProcessEraser:
        """One process per window."""
        return ProcessEraser(self._program)

    @property
    def _program(self) -> Program:
        return Program(
            raw_url=self.raw.url,
            staging_url=self.staging.url,
            timeout_seconds=self.settings.train_timeout_seconds,
            memory_bytes=self.settings.train_memory_mib * 2**20,
            python=sys.executable,
        )

    @cached_property
    def features(self) -> FeatureStore:
        """Feast, which its room imports at first use because that takes seconds."""
        return FeastFeatureStore(self.feast_repo)

    @cached_property
    def messenger(self) -> HttpMessenger:
        """Signed webhooks."""
        return HttpMessenger(allowed_networks=self.settings.webhook_networks)

    @property
    def begin(self) -> Begin:
        """Starts a transaction on the catalog."""
        return self.catalog.begin

    @property
    def broker_url(self) -> str:
        """The broker's URL as Celery takes it."""
        return self.settings.redis_url or RedisServer(self.settings.root).celery_url

    @cached_property
    def feast_repo(self) -> Path:
        """A plain Feast repository, written from the settings."""
        repo = self.settings.root / "feast"
        online: RedisOnline | SqliteOnline = SqliteOnline()
        if self.settings.online_in_redis:
            url = self.settings.redis_url or RedisServer(self.settings.root).client_url
            online = RedisOnline.from_url(url)
        write_repo(repo, self.settings.database_url or f"sqlite:///{repo / 'registry.db'}", online)
        return repo

    def ptk_version(self, ptk_id: str, number: int) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Manifest and files of a published version, verified against what was elected."""
        with self.begin() as uow:
            version = uow.versions.get(ptk_id, number)
        return version.content, versions.files_of(version, self.lake)

    def close(self) -> None:
        """Give connections back."""
        if "catalog" in self.__dict__:
            self.catalog.close()

    # use cases for people

    def create_stream(self, stream: Stream) -> None:
        """See `application.create_stream`."""
        create_stream.create_stream(stream, begin=self.begin, keys=self.keys)

    def ingest(self, stream: str, table: pa.Table, batch_id: str | None = None) -> ingest_records.IngestReply:
        """See `application.ingest_records`."""
        return ingest_records.ingest_records(
            stream, table, batch_id, begin=self.begin, clock=self.clock, keys=self.keys, raw=self.raw
        )

    def close_windows(
        self, stream: str, until: datetime | None = None, *, expire_unfinished: bool = False
    ) -> tuple[WindowId, ...]:
        """See `application.close_windows`."""
        return close_windows.close_windows(
            stream, until, expire_unfinished=expire_unfinished, begin=self.begin, clock=self.clock
        )

    def recover_ledger(self) -> tuple[recover_ledger.Recovered, ...]:
        """See `application.recover_ledger`."""
        return recover_ledger.recover_ledger(
            begin=self.begin,
            clock=self.clock,
            keys=self.keys,
            journal=self.catalog.journal_view(),
            lake=self.lake,
        )

    def forget(self, stream: str, unit: str | int) -> None:
        """See `application.forget_unit`."""
        forget_unit.forget_unit(
            stream,
            unit,
            begin=self.begin,
            keys=self.keys,
            raw=self.raw,
            eraser=self.eraser,
            ticks=Ticks(self.clock, self.settings.tick, time.sleep),
        )

    def exposure(self, stream: str) -> read_exposure.Exposure:
        """See `application.read_exposure`."""
        return read_exposure.exposure_of(
            stream, begin=self.begin, clock=self.clock, keys=self.keys, raw=self.raw, staging=self.staging
        )

    def streams_by_clock(self) -> tuple[str, ...]:
        """The streams whose windows the clock closes."""
        return tuple(s.name for s in self.streams() if s.policy.closing is Closing.CLOCK)

    def register_ptk(
        self,
        *,
        team: str,
        name: str,
        stream: str,
        estimator: Mapping[str, Any],
        target: float,
        train_frequency: str,
        config: Mapping[str, Any] | None = None,
        description: str = "",
    ) -> str:
        """See `application.register_ptk`."""
        return register_ptk.register_ptk(
            team=team,
            name=name,
            stream=stream,
            estimator=estimator,
            target=target,
            train_frequency=train_frequency,
            config=config,
            description=description,
            begin=self.begin,
            clock=self.clock,
            features=self.features,
        )

    def update_ptk(
        self,
        ptk_id: str,
        *,
        estimator: Mapping[str, Any] | None = None,
        target: float | None = None,
        config: Mapping[str, Any] | None = None,
        description: str | None = None,
    ) -> PtkSpec:
        """See `application.register_ptk.update_ptk`."""
        return register_ptk.update_ptk(
            ptk_id,
            estimator=estimator,
            target=target,
            config=config,
            description=description,
            begin=self.begin,
            features=self.features,
        )

    def deregister_ptk(self, ptk_id: str) -> None:
        """See `application.register_ptk.deregister_ptk`."""
        register_ptk.deregister_ptk(ptk_id, begin=self.begin, clock=self.clock)

    def subscribe_to_ptk(self, ptk_id: str, endpoint: str) -> tuple[Subscription, str]:
        """See `application.subscribe`."""
        return subscribe.subscribe_to_ptk(
            ptk_id, endpoint, begin=self.begin, clock=self.clock, keys=self.keys, messenger=self.messenger
        )

    def unsubscribe(self, subscription_id: str) -> None:
        """See `application.subscribe`."""
        subscribe.unsubscribe(subscription_id, begin=self.begin)

    def notify_new_ptk_state(self, ptk_id: str) -> int:
        """See `application.subscribe`."""
        return subscribe.notify_new_ptk_state(ptk_id, begin=self.begin, clock=self.clock)

    def look_up(self, features: Sequence[str], entities: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Read the online store through Feast."""
        return self.features.look_up(features, entities)

    def budget(self, stream: str) -> tuple[BlockLedger, ...]:
        """See `application.read_ledger`."""
        return read_ledger.budget_of(stream, begin=self.begin)

    def verify_ledger(self, stream: str) -> read_ledger.LedgerCheck:
        """See `application.read_ledger`."""
        return read_ledger.verify_ledger(stream, begin=self.begin)

    def odometers(self, stream: str) -> Odometers:
        """See `application.odometers`."""
        return odometers.read_odometers(stream, begin=self.begin)

    def export_ledger(
        self, stream: str, since: datetime | None = None, until: datetime | None = None
    ) -> export_ledger.Export:
        """See `application.export_ledger`."""
        return export_ledger.export_ledger(
            stream,
            since,
            until,
            begin=self.begin,
            clock=self.clock,
            signer=self.signer,
            ledger_id=self.catalog.journal_view().ledger_id,
        )

    def streams(self) -> tuple[Stream, ...]:
        """All streams."""
        with self.begin() as uow:
            return uow.streams.all()

    def ptks(self, *, stream: str | None = None, team: str | None = None) -> tuple[PtkSpec, ...]:
        """Registered PTKs."""
        with self.begin() as uow:
            return uow.ptks.find(stream=stream, team=team)

    def versions(self, ptk_id: str) -> tuple[Version, ...]:
        """The elected versions of a PTK that are in the lake."""
        with self.begin() as uow:
            placed = {job.position for job in uow.jobs.find(ptk_id=ptk_id) if job.kind is JobKind.PLACE}
            return tuple(v for v in uow.versions.of(ptk_id) if v.number <= max(placed, default=0))

    # work

    def due(self, limit: int = 1000) -> tuple[str, ...]:
        """Ids of jobs that could be worked on now."""
        with self.begin() as uow:
            return uow.jobs.due(self.clock.now(), limit)

    def work_on(self, job_id: str) -> bool:
        """Claim one job and do it; False if there was nothing to do."""
        job = claim_job.claim_job(
            job_id, begin=self.begin, clock=self.clock, lease=self.settings.lease, steps=self.steps
        )
        if job is None:
            return False
        try:
            with Heartbeat(
                job, self.begin, self.clock, self.settings.lease, at_most_seconds=self._longest_job_seconds
            ) as heartbeat:
                self._work(job, heartbeat.check)
        except LeaseLost:
            return True  # somebody else does it now
        except Exception:
            with suppress(LeaseLost):  # an expiry may have ended the job
                claim_job.put_off(job, begin=self.begin, clock=self.clock)
            raise
        return True

    @property
    def _longest_job_seconds(self) -> float:
        return 2 * self.settings.train_timeout_seconds

    def work_until_idle(self) -> int:
        """Do due work here until nobody has any, publish ticks included; returns how many jobs were done here.

        For notebooks, scripts and tests; a service runs workers instead. Retries of unreachable endpoints are left.
        """
        done = 0
        while self._busy():
            ready = self.due()
            done += sum(self.work_on(job_id) for job_id in ready)
            if not ready:
                time.sleep(0.05)
        return done

    def _busy(self) -> bool:
        now = self.clock.now()
        with self.begin() as uow:
            return uow.jobs.busy(now, now + self.settings.tick + timedelta(seconds=1))

    def _work(self, job: Job, keep_alive: Callable[[], None]) -> None:
        begin, clock, keys, steps = self.begin, self.clock, self.keys, self.steps
        settings = self.settings
        ticks = Ticks(clock, settings.tick, time.sleep)
        work: dict[JobKind, Callable[[], None]] = {
            JobKind.PREPARE: lambda: prepare_window.prepare_window(
                job,
                begin=begin,
                clock=clock,
                keys=keys,
                preparer=self.preparer,
                keep_alive=keep_alive,
                ticks=ticks,
                steps=steps,
            ),
            JobKind.ALLOCATE: lambda: allocate_window.allocate_window(
                job, begin=begin, clock=clock, steps=steps
            ),
            JobKind.TRAIN: lambda: train_ptk.train_ptk(
                job,
                begin=begin,
                clock=clock,
                keys=keys,
                journal=self.catalog.journal_view(),
                raw=self.raw,
                staging=self.staging,
                lake=self.lake,
                trainer=self.trainer,
                keep_alive=keep_alive,
                ticks=ticks,
                steps=steps,
            ),
            JobKind.PLACE: lambda: place_state.place_state(
                job, begin=begin, clock=clock, keys=keys, staging=self.staging, lake=self.lake, steps=steps
            ),
            JobKind.FLIP: lambda: materialize_state.materialize_state(
                job, begin=begin, clock=clock, lake=self.lake, features=self.features, steps=steps
            ),
            JobKind.NOTIFY: lambda: deliver_event.deliver_event(
                job,
                begin=begin,
                clock=clock,
                keys=keys,
                lake=self.lake,
                messenger=self.messenger,
                steps=steps,
            ),
            JobKind.EXPIRE: lambda: expire_window.expire_window(
                job, begin=begin, clock=clock, keys=keys, raw=self.raw, staging=self.staging, steps=steps
            ),
        }
        work[job.kind]()
