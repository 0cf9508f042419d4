"""The looks of a PTK since it began to wait, read off the journal, its jobs and its verdicts.

Nothing of it is written down a second time: a look that was released, failed or got its verdict counts at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ptkstore.domain.jobs import Job, JobKind, JobState, job_id
from ptkstore.domain.ledger.journal import BudgetRequest, Entry, EntryKind
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.scheduling.model import Look
from ptkstore.domain.scheduling.waits import Wait
from ptkstore.domain.streams.blocks import windows_behind
from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.validations import Validation
from ptkstore.ports.catalog import CatalogView


@dataclass(frozen=True, slots=True)
class Given:
    """The looks of one PTK since it began to wait.

    Attributes
    ----------
    last : Look or None
        The last look that is under way or was answered with RETRY.
    verdicts : tuple of Validation
        Its verdicts since then, oldest first.
    served_in, served_at : int or None, datetime or None
        The newest window of the training that made a version, and when it was published.
    fruitless_in : int or None
        The newest window of a training that was paid for and ended without a verdict.
    untested : tuple of int
        The windows of a look that is under way and has not reserved for its test yet.
    charged : tuple of BudgetRequest
        The loss that is reserved or spent for its looks.
    """

    last: Look | None = None
    verdicts: tuple[Validation, ...] = ()
    served_in: int | None = None
    fruitless_in: int | None = None
    untested: tuple[int, ...] = ()
    charged: tuple[BudgetRequest, ...] = ()
    served_at: datetime | None = None

    @property
    def waits(self) -> bool:
        """Whether the PTK waits for a version still."""
        return self.served_in is None and self.decision != "reject"

    @property
    def decision(self) -> str | None:
        """The decision of the last verdict."""
        return str(self.verdicts[-1].verdict["decision"]) if self.verdicts else None

    def used(self, block: int, coordinate: int) -> tuple[int, int]:
        """Return what the looks are charged of a block: units of a coordinate, and deltas."""
        mine = [one.charge for one in self.charged if block in one.blocks]
        return sum(one.amounts[coordinate] for one in mine), sum(one.delta_atto for one in mine)


def given_since(uow: CatalogView, wait: Wait, policy: Policy) -> Given:
    """Read what a PTK was given since it began to wait."""
    return given_to_each(uow, [wait], policy)[wait.ptk_id]


def given_to_each(uow: CatalogView, waits: Sequence[Wait], policy: Policy) -> Mapping[str, Given]:
    """Read what each PTK was given since it began to wait, by its id, in a few statements for all of them."""
    oldest = {wait.ptk_id: wait.oldest for wait in waits}
    trainings: dict[str, dict[str, Job]] = {ptk_id: {} for ptk_id in oldest}
    for job in uow.jobs.trainings_since(oldest):
        trainings[str(job.ptk_id)][job.id] = job
    histories = uow.ledger.histories([key for mine in trainings.values() for key in mine])
    reserved = {wait.ptk_id: _reserved(histories, trainings[wait.ptk_id], wait) for wait in waits}
    keys = [entry.key for entries in reserved.values() for entry in entries]
    made, verdicts = uow.versions.of_jobs(keys), uow.validations.of_ptks(oldest)
    tests = {_validation_of(key) for key in keys}
    found = _Found(made, uow.jobs.many(tests), uow.ledger.histories(sorted(tests)))
    return {
        wait.ptk_id: _given(
            reserved[wait.ptk_id], trainings[wait.ptk_id], verdicts[wait.ptk_id], found, policy
        )
        for wait in waits
    }


def waits_that_last(uow: CatalogView, stream: Stream, specs: Iterable[PtkSpec]) -> tuple[Wait, ...]:
    """Return the waits of these PTKs of a stream that have not ended, by id."""
    waits = uow.waits.of(stream.name)
    last = [waits[spec.ptk_id] for spec in specs if not spec.has_given_up and spec.ptk_id in waits]
    given = given_to_each(uow, last, stream.policy)
    return tuple(wait for wait in last if given[wait.ptk_id].waits)


@dataclass(frozen=True, slots=True)
class _Found:
    """Versions by their trainings, and validations: their jobs, and what was reserved for them."""

    made: Mapping[str, tuple[int, datetime]]
    tests: Mapping[str, Job]
    paid: Mapping[str, Sequence[Entry]]

    def is_under_way(self, training: Job) -> bool:
        """Whether a training, or the validation of what it made, is to end yet."""
        if training.state is not JobState.ENDED:
            return True
        test = self.tests.get(_validation_of(training.id))
        return test is not None and test.state is not JobState.ENDED


def _given(
    reserved: Sequence[Entry],
    trainings: Mapping[str, Job],
    validations: Sequence[Validation],
    found: _Found,
    policy: Policy,
) -> Given:
    verdicts = {one.job_id: one for one in validations}
    answered: list[Validation] = []
    last: Look | None = None
    served_in = fruitless_in = served_at = None
    for entry in reserved:
        job, verdict = trainings[entry.key], verdicts.get(_validation_of(entry.key))
        newest = job.window.index
        if verdict is not None:
            answered.append(verdict)
        if entry.key in found.made:
            served_in, (_, served_at) = newest, found.made[entry.key]
        elif verdict is not None or found.is_under_way(job):
            number = 1 if last is None else last.number + 1
            last = Look(number, len(entry.blocks.ranges), entry.loss, under_way=verdict is None)
        else:
            fruitless_in = newest
    untested: tuple[int, ...] = ()
    is_tested = bool(reserved) and bool(found.paid[_validation_of(reserved[-1].key)])
    if reserved and last is not None and last.under_way and not is_tested:
        newest = trainings[reserved[-1].key].window.index
        untested = windows_behind(policy, reserved[-1].blocks, newest)
    requests = tuple(one.request for one in reserved)
    return Given(last, tuple(answered), served_in, fruitless_in, untested, requests, served_at)


def _reserved(histories: Mapping[str, Sequence[Entry]], keys: Iterable[str], wait: Wait) -> list[Entry]:
    """Reservations since the PTK began to wait that were not released, in order."""
    found = []
    for history in (histories[key] for key in keys):
        released = any(entry.kind is EntryKind.RELEASE for entry in history)
        if history and history[0].sequence > wait.after and not released:
            found.append(history[0])
    return sorted(found, key=lambda entry: entry.sequence)


def _validation_of(training_id: str) -> str:
    _, _, name = training_id.partition("/")
    return job_id(JobKind.VALIDATE, name)
