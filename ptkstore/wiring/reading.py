"""Use cases that only read, bound to the adapters."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from ptkstore import application
from ptkstore.adapters.processes import answers_ping, kept_running
from ptkstore.domain.accounting.assurances import UNKNOWN, Assurance, assured_in
from ptkstore.domain.evaluations import Evaluation
from ptkstore.domain.jobs import JobKind, job_id
from ptkstore.domain.ledger.block_ledgers import BlockLedger
from ptkstore.domain.ledger.odometers import LossPart, Odometers
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.ptks.room_for_more import RoomForMore
from ptkstore.domain.scheduling.queues import WAITS_TOLD, QueuedPtk, WaitSpan
from ptkstore.domain.scheduling.simulation.outcomes import SimulationResult
from ptkstore.domain.scheduling.simulation.requests import SimulationRequest
from ptkstore.domain.streams.blocks import BlockRange
from ptkstore.domain.streams.persons import PersonLoss
from ptkstore.domain.streams.policies import Closing
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import Window, n_spent_on
from ptkstore.domain.subscriptions import Attempt, DeadLetter
from ptkstore.domain.validations import Validation
from ptkstore.domain.versions.versions import Version
from ptkstore.errors import UnknownName
from ptkstore.ports.catalog import ReadTransaction
from ptkstore.ports.devices import DevicePtk
from ptkstore.ports.runtime import TellSteps, tell_nobody
from ptkstore.wiring.adapters import Adapters

if TYPE_CHECKING:
    from ptkstore.application.identity.sight import Sight
    from ptkstore.application.planning.recommend_rows import StreamAdvice
    from ptkstore.domain.notices import Notice
    from ptkstore.ports.features import Answers


LOOK_SECONDS = 0.5


class Reading(Adapters):
    """The reads of `StoreService`, and more for the service itself; no writer is waited for."""

    def exposure(self, stream: str) -> application.streams.exposure.Exposure:
        return application.streams.exposure.exposure_of(
            stream, begin=self.read, clock=self.clock, private=self.private_places
        )

    def streams_by_clock(self) -> tuple[str, ...]:
        """Return the streams whose windows the clock closes."""
        return tuple(s.name for s in self.streams() if s.policy.closing is Closing.CLOCK)

    def look_up(self, features: Sequence[str], entities: Sequence[Mapping[str, Any]]) -> Answers:
        return self.features.look_up(features, entities)

    def budget(
        self, stream: str, *, after: int | None = None, limit: int | None = None
    ) -> tuple[BlockLedger, ...]:
        return application.ledger.budgets.budget_of(stream, after=after, limit=limit, begin=self.read)

    def verify_ledger(self, stream: str) -> application.ledger.verification.LedgerCheck:
        return application.ledger.verification.verify_ledger(
            stream, begin=self.read_one_moment, keys=self.keys, journal=self.catalog.journal_view()
        )

    def recommend_rows(self, stream: str, partitions: int | None = None) -> StreamAdvice:
        from ptkstore.application.planning.recommend_rows import recommend_rows

        return recommend_rows(stream, partitions=partitions, begin=self.read)

    def room_for_more(self, stream: str, *, team: str | None = None) -> RoomForMore | None:
        return application.ptks.room_for_more.room_for_more(stream, team=team, begin=self.read)

    def loss_parts(
        self, stream: str, blocks: BlockRange, by: application.ledger.loss_parts.Party
    ) -> Mapping[tuple[int, str], tuple[LossPart, ...]] | None:
        return application.ledger.loss_parts.loss_parts(stream, blocks, by, begin=self.read_one_moment)

    def time_line(
        self, stream: str, limit: int, before: int | None = None, *, with_versions: bool = False
    ) -> application.streams.read_time_line.TimeLine:
        """Return windows of a stream, as `read_time_line` reads them."""
        return application.streams.read_time_line.read_time_line(
            stream, limit, before, with_versions=with_versions, begin=self.read, clock=self.clock
        )

    def budgets(self, streams: Sequence[str]) -> Mapping[str, Sequence[BlockLedger]]:
        """Return the blocks of each of these streams, without the shares of what was spent."""
        with self.read() as uow:
            return {stream: uow.ledger.blocks(stream) for stream in streams}

    def assurance_on(self, stream: str) -> tuple[Assurance, tuple[str, ...]]:
        return application.ledger.budgets.assurance_on(stream, begin=self.read)

    def queue(self, stream: str, *, team: str | None = None) -> tuple[QueuedPtk, ...]:
        return application.scheduling.read_queue.read_queue(stream, team=team, begin=self.read)

    def waits(self, stream: str, *, team: str | None = None, limit: int = WAITS_TOLD) -> tuple[WaitSpan, ...]:
        """Return when PTKs of a stream waited, of the `limit` waits that began last."""
        return application.scheduling.read_queue.read_waits(stream, team=team, limit=limit, begin=self.read)

    def ended_waits(self, stream: str, *, team: str | None = None) -> tuple[WaitSpan, ...]:
        return application.scheduling.read_queue.read_waits(stream, team=team, ended=True, begin=self.read)

    def simulate(
        self,
        stream: str,
        request: SimulationRequest,
        *,
        team: str | None = None,
        tell: TellSteps = tell_nobody,
    ) -> SimulationResult:
        return application.scheduling.simulate_stream.simulate_stream(
            stream, request, team=team, tell=tell, begin=self.read
        )

    def odometers(self, stream: str) -> Odometers:
        return application.ledger.odometers.read_odometers(stream, begin=self.read_one_moment)

    def person_loss(self, streams: Sequence[str]) -> PersonLoss:
        return application.ledger.person_losses.read_person_loss(
            streams, begin=self.read_one_moment, keys=self.keys, journal=self.catalog.journal_view()
        )

    def streams(self) -> tuple[Stream, ...]:
        with self.read() as uow:
            return uow.streams.all()

    def stream(self, name: str) -> Stream:
        with self.read() as uow:
            return uow.streams.get(name)

    def windows_spent_on(self, stream: str) -> int:
        """Count the windows on which losses may have been spent, with those that a recovery put in doubt."""
        with self.read() as uow:
            return n_spent_on(uow.windows.of(stream), uow.streams.progress(stream).retired_before)

    def windows(self, stream: str) -> tuple[Window, ...]:
        with self.read() as uow:
            uow.streams.get(stream)
            return uow.windows.of(stream)

    def newest_versions(self) -> Mapping[str, int]:
        with self.read() as uow:
            return uow.jobs.placed()

    def newest_times(self) -> Mapping[str, datetime]:
        with self.read() as uow:
            return uow.versions.newest_times()

    def ptks(self, *, stream: str | None = None, team: str | None = None) -> tuple[PtkSpec, ...]:
        with self.read() as uow:
            return uow.ptks.find(stream=stream, team=team)

    def ptks_tested_on(self, stream: str) -> tuple[PtkSpec, ...]:
        """Return registered PTKs of other streams for whose verdicts this one pays, by id."""
        with self.read() as uow:
            return uow.ptks.tested_on(stream)

    def ptk(self, ptk_id: str) -> PtkSpec:
        with self.read() as uow:
            return uow.ptks.get(ptk_id)

    def device_ptk(self, ptk_id: str) -> DevicePtk:
        """Return a PTK that devices train, read afresh; `UnknownName` if there is none of this id."""
        return application.training.device_models.device_ptk_of(ptk_id, begin=self.read, lake=self.lake)

    def profile(self, ptk_id: str) -> application.profiling.read_profile.ProfileView:
        return application.profiling.read_profile.read_profile(ptk_id, begin=self.read)

    def validations(self, ptk_id: str, *, newest: int | None = None) -> tuple[Validation, ...]:
        with self.read() as uow:
            return uow.validations.of(ptk_id, newest=newest)

    def evaluations(self, ptk_id: str, *, after: int = 0) -> tuple[Evaluation, ...]:
        with self.read() as uow:
            found = uow.evaluations.of(ptk_id, after=after)
            if not found:
                return ()
            versions = uow.versions.of(ptk_id, after=found[0].number - 1, until=found[-1].number)
        assured = {one.number: assured_in(one.content, ptk_id) for one in versions}
        return tuple(replace(one, assured=assured.get(one.number, UNKNOWN)) for one in found)

    def versions(self, ptk_id: str, *, after: int = 0, limit: int | None = None) -> tuple[Version, ...]:
        with self.read() as uow:
            return uow.versions.of(ptk_id, after=after, until=_placed(uow, ptk_id), limit=limit)

    def newest_version(self, ptk_id: str) -> int:
        with self.read() as uow:
            return _placed(uow, ptk_id)

    def elected_since(self, at: datetime) -> tuple[tuple[str, int, datetime], ...]:
        """Return PTK, number and time of election of all versions since then, the oldest first."""
        with self.read() as uow:
            return uow.versions.elected_since(at)

    def online_versions(self, ptk_ids: Iterable[str]) -> Mapping[str, int]:
        """Return the newest version online of each of these PTKs that was ever registered."""
        heads: dict[str, int] = {}
        with self.read() as uow:
            for ptk_id in ptk_ids:
                with suppress(UnknownName):
                    heads[ptk_id] = uow.jobs.get(job_id(JobKind.FLIP, ptk_id)).position
        return heads

    def trace_window(
        self, stream: str, window: int, *, after: tuple[str, int] | None = None, limit: int | None = None
    ) -> tuple[application.versions.trace_window.Descendant, ...]:
        return application.versions.trace_window.trace_window(
            stream, window, after=after, limit=limit, begin=self.read
        )

    def ptk_version(self, ptk_id: str, number: int) -> tuple[dict[str, Any], dict[str, bytes]]:
        version = self.version(ptk_id, number)
        return version.content, application.versions.elected_files.files_of(version, self.lake)

    def state_table(
        self, ptk_id: str, number: int, ask: application.states.state_tables.TableAsk
    ) -> application.states.state_tables.StateTable | None:
        """Return rows of a table of a version; None if it has none, or is too large to be looked at."""
        version, tables = self.version(ptk_id, number), application.states.state_tables
        if not tables.is_small(version.content):
            return None
        files = application.versions.elected_files.files_of(version, self.lake)
        return tables.state_table(version.content, files, ask)

    def version(self, ptk_id: str, number: int) -> Version:
        with self.read() as uow:
            return uow.versions.get(ptk_id, number)

    def diff_versions(
        self, ptk_id: str, one: int, other: int
    ) -> application.states.diff_versions.VersionDiff:
        return application.states.diff_versions.diff_versions(
            ptk_id, one, other, begin=self.read, lake=self.lake
        )

    def small_diff(
        self, ptk_id: str, one: int, other: int
    ) -> application.states.diff_versions.VersionDiff | None:
        """Compare two versions for a page; None if one is too large for that."""
        versions = [self.version(ptk_id, number) for number in (one, other)]
        if not all(application.states.state_tables.is_small(version.content) for version in versions):
            return None
        before, after = (
            (version.content, application.versions.elected_files.files_of(version, self.lake))
            for version in versions
        )
        diffs = application.states.diff_versions
        if not (diffs.has_few_rows(before[1]) and diffs.has_few_rows(after[1])):
            return None
        return diffs.difference(ptk_id, (one, other), before, after)

    def report_key(self) -> str:
        return self.signer.public_key().hex()

    def liveness(
        self,
    ) -> Mapping[application.operations.liveness.ProcessRole, application.operations.liveness.Liveness]:
        """Return when a process of each role was last alive."""
        return application.operations.liveness.read_liveness(begin=self.read, clock=self.clock)

    def numbers(self) -> application.operations.read_numbers.StoreNumbers:
        """Return the store's numbers for `/metrics`."""
        return application.operations.read_numbers.read_numbers(begin=self.read, clock=self.clock)

    def overview(
        self,
        sight: Sight | None = None,
        parts: Mapping[str, str] | None = None,
        failing: Sequence[str] = (),
    ) -> application.operations.read_overview.Overview:
        """Return the overview of a reader, by default of all; without `parts`, with the processes of this home."""
        read_overview, service_parts = (
            application.operations.read_overview,
            application.operations.service_parts,
        )
        if parts is None:
            named = self.settings.redis_url
            parts, failing = service_parts.parts_in_home(
                self.liveness(),
                kept_running=kept_running(self.settings.root),
                redis_answers=None if named is None else answers_ping(named),
            )
        parts, failing = service_parts.with_ledger(
            parts, failing, begin=self.read, keys=self.keys, journal=self.catalog.journal_view()
        )
        return read_overview.read_overview(
            sight or read_overview.EVERYTHING,
            parts,
            failing,
            begin=self.read,
            clock=self.clock,
            private=self.private_places,
        )

    def work_on_stream(self, stream: str) -> application.operations.read_work.StreamWork:
        return application.operations.read_work.work_on_stream(stream, begin=self.read_one_moment)

    def spends_on(self, stream: str) -> Mapping[str, int]:
        return application.operations.read_work.spends_on(stream, begin=self.read)

    def takes_writes(self, at_most_seconds: float) -> bool:
        return self.catalog.takes_writes(at_most_seconds)

    def ledger_id(self) -> str:
        """Return the id of this catalog's journal; `CatalogBehind` or `Unavailable` if its schema is not read here."""
        return self.catalog.journal_view().ledger_id

    def origin_for(self, stream: str, window: timedelta) -> datetime:
        return application.streams.create_stream.origin_for(stream, window, begin=self.read, clock=self.clock)

    def notices(
        self,
        team: str | None = None,
        *,
        since: datetime | None = None,
        skip: int = 0,
        limit: int | None = None,
        newest: bool = False,
    ) -> Sequence[Notice]:
        return application.delivery.read_notices.notices_of(
            team, since=since, skip=skip, limit=limit, newest=newest, begin=self.read
        )

    def trainings(
        self,
        ptk_id: str,
        *,
        start: int = 0,
        look: int = 1,
        limit: int | None = None,
        newest: bool = False,
    ) -> tuple[application.training.read_trainings.Training, ...]:
        return application.training.read_trainings.trainings_of(
            ptk_id, start=start, look=look, limit=limit, newest=newest, begin=self.read
        )

    def subscriptions(
        self,
        ptk_id: str | None = None,
        *,
        team: str | None = None,
        after: str = "",
        limit: int | None = None,
    ) -> tuple[application.delivery.read_deliveries.DeliveryState, ...]:
        return application.delivery.read_deliveries.subscriptions_of(
            ptk_id, team, after=after, limit=limit, begin=self.read
        )

    def deliveries(
        self, subscription_id: str, *, after: int = 0, limit: int | None = None
    ) -> application.delivery.read_deliveries.DeliveryState:
        return application.delivery.read_deliveries.deliveries_of(
            subscription_id, after=after, limit=limit, begin=self.read
        )

    def attempts(
        self, subscription_id: str, *, before: int | None = None, limit: int | None = None
    ) -> tuple[Attempt, ...]:
        return application.delivery.read_deliveries.attempts_of(
            subscription_id, before=before, limit=limit, begin=self.read, clock=self.clock
        )

    def newest_dead_letters(self, subscription_ids: Iterable[str], limit: int) -> tuple[DeadLetter, ...]:
        with self.read() as uow:
            return uow.subscriptions.newest_dead_letters(subscription_ids, limit)

    def wait_for_version(self, ptk_id: str, after: int, timeout_seconds: float) -> int | None:
        until = time.monotonic() + timeout_seconds
        while True:
            with self.read() as uow:
                shown = uow.jobs.get(job_id(JobKind.FLIP, ptk_id)).position
            left = until - time.monotonic()
            if shown > after or left <= 0:
                return shown if shown > after else None
            time.sleep(min(LOOK_SECONDS, left))

    def lost_online(self) -> frozenset[str]:
        return application.versions.materialize_ptk.lost_online(read=self.read, features=self.features)


def _placed(uow: ReadTransaction, ptk_id: str) -> int:
    try:
        return uow.jobs.get(job_id(JobKind.PLACE, ptk_id)).position
    except UnknownName:  # never registered
        return 0
