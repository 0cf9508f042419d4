"""Every use case, bound to the adapters."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from ptkstore import application
from ptkstore.domain.audit import DONE
from ptkstore.domain.identity import Action
from ptkstore.domain.jobs import RUNS, SMALL_AT_ONCE, Job, JobKind
from ptkstore.domain.streams.schemas import ColumnType
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import LeaseLost
from ptkstore.ports.operations import Upgraded
from ptkstore.ports.runtime import TellSteps, tell_nobody
from ptkstore.wiring.ptks import PtkChanging
from ptkstore.wiring.reading import Reading
from ptkstore.wiring.subscribing import Subscribing

if TYPE_CHECKING:
    import pyarrow as pa

    from ptkstore.application.devices.issue_tickets import Issued
    from ptkstore.domain.near_names import Names
    from ptkstore.wiring.devices import Devices


_APART = (JobKind.PREPARE, *RUNS)
"""Jobs that mostly wait: rows are read in a process of their own."""


class Service(Reading, Subscribing, PtkChanging):
    """Every use case, bound to the adapters that the settings name; those of a client are `StoreService`."""

    @cached_property
    def devices(self) -> Devices:
        """The requests of devices and their gateways."""
        from ptkstore.wiring.devices import Devices

        return Devices(self, self.device_ptk)

    def issue_tickets(self, stream: str, ptk_id: str, count: int) -> Issued:
        with self._recorded(Action.TICKET_ISSUE, "stream", stream):
            return self.devices.issue_tickets(stream, ptk_id, count, gateway="local")

    # use cases for people

    def create_stream(self, stream: Stream) -> None:
        with self._recorded(Action.STREAM_CREATE, "stream", stream.name):
            application.streams.create_stream.create_stream(
                stream, begin=self.begin, keys=self.keys, clock=self.clock
            )

    def evolve_stream(
        self, stream: str, column: str, kind: ColumnType, default: str | int | float | bool
    ) -> Stream:
        with self._recorded(Action.STREAM_EVOLVE, "stream", stream):
            return application.streams.evolve_stream.add_column(
                stream, column, kind, default, begin=self.begin
            )

    def ingest(
        self, stream: str, table: pa.Table, batch_id: str | None = None, part: tuple[int, int] | None = None
    ) -> application.ingest.ingest_records.IngestReply:
        with self._recorded(Action.STREAM_INGEST, "stream", stream):
            return application.ingest.ingest_records.ingest_records(
                stream,
                table,
                batch_id,
                part,
                begin=self.begin,
                clock=self.clock,
                keys=self.keys,
                raw=self.raw,
            )

    def close_windows(
        self,
        stream: str,
        until: datetime | None = None,
        *,
        expire_unfinished: bool = False,
        tell: TellSteps = tell_nobody,
    ) -> tuple[WindowId, ...]:
        with self._recorded(Action.STREAM_CLOSE, "stream", stream):
            return application.windows.close_windows.close_windows(
                stream,
                until,
                expire_unfinished=expire_unfinished,
                tell=tell,
                begin=self.begin,
                clock=self.clock,
            )

    def close_some_windows(self, stream: str) -> bool:
        """Take one step of `close_windows` by the clock; return whether there may be more to close."""
        step = application.windows.close_windows.STEP
        closed = application.windows.close_windows.close_windows(
            stream, at_most=step, begin=self.begin, clock=self.clock
        )
        return len(closed) == step

    def prepare_again(self, stream: str, window: int, *, without_lost: bool = False) -> None:
        with self._recorded(Action.STREAM_PREPARE, "stream", stream):
            application.windows.prepare_again.prepare_again(
                stream, window, without_lost=without_lost, begin=self.begin, clock=self.clock, keys=self.keys
            )

    def recover_ledger(self) -> tuple[application.ledger.recover_ledger.Recovered, ...]:
        with self._recorded(Action.LEDGER_RECOVER, "store"):
            return application.ledger.recover_ledger.recover_ledger(
                begin=self.begin,
                clock=self.clock,
                keys=self.keys,
                journal=self.catalog.journal_view(),
                lake=self.lake,
            )

    def upgrade_catalog(self, *, backed_up: bool, tell: TellSteps = tell_nobody) -> Upgraded:
        """Bring the catalog to this program's schema; recorded afterwards, as the trail is part of what is upgraded."""
        done = application.operations.upgrade_catalog.upgrade_catalog(
            schema=self.catalog_schema,
            keys=self.keys,
            begin=lambda: self.catalog.begin(),  # which no program opens before the upgrade
            backed_up=backed_up,
            tell=tell,
        )
        if self.in_home and not done.before.up_to_date:
            self.identity.record(Action.CATALOG_UPGRADE, "store", secrets.token_hex(8), None, DONE)
        return done

    def forget(self, stream: str, unit: str | int) -> None:
        with self._recorded(Action.STREAM_FORGET, "stream", stream):
            application.windows.forget_unit.forget_unit(
                stream,
                unit,
                begin=self.begin,
                keys=self.keys,
                raw=self.raw,
                eraser=self.eraser,
                ticks=application.paid_runs.release_ticks.ReleaseTicks(
                    self.clock, self.settings.tick, time.sleep
                ),
            )

    def export_ledger(
        self, stream: str, since: datetime | None = None, until: datetime | None = None
    ) -> application.ledger.export_ledger.Export:
        with self._recorded(Action.LEDGER_EXPORT, "stream", stream):
            return application.ledger.export_ledger.export_ledger(
                stream,
                since,
                until,
                begin=self.read_one_moment,
                clock=self.clock,
                signer=self.signer,
                journal=self.catalog.journal_view(),
                private=self.private_places,
            )

    def repair_online(self) -> tuple[str, ...]:
        return application.versions.materialize_ptk.repair_online(
            begin=self.begin, read=self.read, clock=self.clock, features=self.features
        )

    def destroy_refused_drafts(self) -> int:
        """Destroy drafts whose validation has ended without a version; how many were left."""
        return application.versions.refused_drafts.destroy_refused_drafts(
            read=self.read, keys=self.keys, staging=self.staging
        )

    def destroy_needless_partials(self) -> int:
        """Destroy what killed workers left of partials whose training has ended; how many drafts there were.

        Raises `CatalogBehind` in a process that still has the catalog of before a recovery.
        """
        with self.keys.working(self.catalog.journal_view().ledger_id):
            return application.training.partials.destroy_needless_partials(
                read=self.read, keys=self.keys, staging=self.staging
            )

    def report_alive(self, role: application.operations.liveness.ProcessRole, instance: str) -> None:
        application.operations.liveness.report_alive(role, instance, begin=self.begin, clock=self.clock)

    def garbage(
        self, older_than: timedelta, *, delete: bool = False
    ) -> tuple[application.operations.collect_garbage.Garbage, ...]:
        """Delete what `application.operations.collect_garbage` calls garbage, or only look for it."""
        if not delete:
            return application.operations.collect_garbage.find_garbage(
                older_than, begin=self.read, lake=self.lake, raw=self.raw
            )
        with self._recorded(Action.LAKE_CLEAN, "store"):
            return application.operations.collect_garbage.collect_garbage(
                older_than, begin=self.read, lake=self.lake, raw=self.raw, bundles=self.bundles
            )

    def unlisted_names(self) -> Mapping[str, Names]:
        return {
            "team": lambda _: self.identity.known_teams(),
            "token": lambda _: [token.id for token in self.identity.tokens()],
        }

    # work

    def due(self, limit: int = 1000, *, deliveries: bool = True) -> tuple[str, ...]:
        with self.read() as uow:
            return uow.jobs.due(self.clock.now(), limit, deliveries=deliveries)

    def due_for_workers(self, limit: int) -> tuple[str, ...]:
        """Return the jobs that a worker would take now, in the order in which workers do."""
        now = self.clock.now()
        with self.read() as uow:
            return uow.jobs.due(
                now, limit, deliveries=False, slots=application.operations.claim_job.slots_of(uow, now)
            )

    def claim_fairest(self) -> tuple[Job, ...]:
        return application.operations.claim_job.claim_fairest(
            begin=self.begin,
            clock=self.clock,
            lease=self.settings.lease,
            small_rows=self.settings.small_rows,
            steps=self.steps,
        )

    def work_on(self, job_id: str) -> bool:
        """Claim one job and do it; False if there was nothing to do."""
        job = application.operations.claim_job.claim_job(
            job_id, begin=self.begin, clock=self.clock, lease=self.settings.lease, steps=self.steps
        )
        if job is None:
            return False
        self.do(job)
        return True

    def do(self, job: Job) -> None:
        """Do a job that was claimed."""
        try:
            with (
                self.traces.job(job),
                self.keys.working(self.catalog.journal_view().ledger_id),
                application.operations.heartbeat.Heartbeat(
                    job,
                    self.begin,
                    self.clock,
                    self.settings.lease,
                    at_most_seconds=2
                    * max(self.settings.train_timeout_seconds, self.settings.profile_timeout_seconds),
                ) as heartbeat,
            ):
                self._work(job, heartbeat.check)
        except LeaseLost:
            return  # somebody else does it now
        except Exception as error:
            with suppress(LeaseLost):  # an expiry may have ended the job
                application.operations.claim_job.put_off(job, error, begin=self.begin, clock=self.clock)
            raise

    def work_until_idle(self, at_once: int = 1, tell: Callable[[str], None] = lambda _: None) -> int:
        """Do due work here until nobody has any, publish ticks included; return how many jobs were done here.

        For notebooks, scripts and tests; a service runs workers instead. Retries of unreachable endpoints are left. Up
        to `at_once` jobs that wait for a process of their own, such as trainings, run beside each other. `tell` is
        called for every job that begins here, and when all jobs have to wait. Small trainings mostly wait for their
        tick: for each of `at_once`, `SMALL_AT_ONCE` of these run beside each other.
        """
        done = 0
        with ThreadPoolExecutor(at_once) as threads, ThreadPoolExecutor(at_once * SMALL_AT_ONCE) as many:
            while self._busy():
                ready = self.due()
                apart, small = self._apart(ready) if at_once > 1 else ([], ())
                running = [(many if i in small else threads).submit(self.work_on, i) for i in apart]
                for job_id in (i for i in ready if i not in apart):
                    tell(f"{job_id} ({done} done)")
                    done += self.work_on(job_id)
                if running:
                    tell(f"{len(running)} beside each other ({done} done)")
                done += sum(job.result() for job in running)
                if not ready:
                    tell(f"waiting for jobs that others do, or that go on at a later tick ({done} done)")
                    time.sleep(0.05)
        return done

    def _apart(self, job_ids: Sequence[str]) -> tuple[list[str], Sequence[str]]:
        """Return the jobs that wait for a process of their own, and the small trainings among them."""
        with self.read() as uow:
            kinds = uow.jobs.kinds(job_ids)
            small = application.operations.claim_job.small_trainings(
                uow, self.clock.now(), len(job_ids), self.settings.small_rows
            )
        return [job_id for job_id in job_ids if kinds.get(job_id) in _APART], small

    def _busy(self) -> bool:
        now = self.clock.now()
        with self.read() as uow:
            return uow.jobs.busy(now, now + self.settings.tick + timedelta(seconds=1))

    def _work(self, job: Job, keep_alive: Callable[[], None]) -> None:
        from ptkstore.wiring import work  # reading commands do no jobs

        work.work_on(job, self, keep_alive)


class LocalService(Service):
    """The use cases as whoever works in the store's home has them: what changes anything is recorded, as over HTTP."""

    in_home = True
