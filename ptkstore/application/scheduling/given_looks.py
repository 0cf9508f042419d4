"""What a PTK was given since it began to wait, read off the journal, its jobs and its verdicts.

Nothing of it is written down a second time: a look that was released, failed or got its verdict counts at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ptkstore.domain.jobs import Job, JobKind, JobState, job_id
from ptkstore.domain.ledger.journal import BudgetRequest, Entry, EntryKind
from ptkstore.domain.scheduling.model import Look
from ptkstore.domain.scheduling.waits import Wait
from ptkstore.domain.streams.blocks import windows_behind
from ptkstore.domain.streams.streams import Policy
from ptkstore.domain.validations import Validation
from ptkstore.errors import UnknownName
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
        What is reserved or spent for its looks.
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
        """What the last verdict decided."""
        return str(self.verdicts[-1].verdict["decision"]) if self.verdicts else None

    def used(self, block: int, coordinate: int) -> tuple[int, int]:
        """Return what the looks are charged of a block: units of a coordinate, and deltas."""
        mine = [one.charge for one in self.charged if block in one.blocks]
        return sum(one.amounts[coordinate] for one in mine), sum(one.delta_atto for one in mine)


def given_since(uow: CatalogView, wait: Wait, policy: Policy) -> Given:
    """Read what a PTK was given since it began to wait."""
    trainings = {job.id: job for job in uow.jobs.trainings(wait.ptk_id, start=wait.oldest)}
    reserved = _reserved(uow, list(trainings), wait)
    made = uow.versions.of_jobs([one.key for one in reserved])
    verdicts = {one.job_id: one for one in uow.validations.of(wait.ptk_id)}
    answered: list[Validation] = []
    last: Look | None = None
    served_in = fruitless_in = served_at = None
    for entry in reserved:
        job, verdict = trainings[entry.key], verdicts.get(_validation_of(entry.key))
        newest = job.window.index
        if verdict is not None:
            answered.append(verdict)
        if entry.key in made:
            served_in, (_, served_at) = newest, made[entry.key]
        elif verdict is not None or _is_under_way(uow, job):
            number = 1 if last is None else last.number + 1
            last = Look(number, len(entry.blocks.ranges), entry.loss, under_way=verdict is None)
        else:
            fruitless_in = newest
    untested: tuple[int, ...] = ()
    if reserved and last is not None and last.under_way:
        validation = _validation_of(reserved[-1].key)
        if not uow.ledger.history(validation):
            newest = trainings[reserved[-1].key].window.index
            untested = windows_behind(policy, reserved[-1].blocks, newest)
    requests = tuple(one.request for one in reserved)
    return Given(last, tuple(answered), served_in, fruitless_in, untested, requests, served_at)


def _reserved(uow: CatalogView, keys: Sequence[str], wait: Wait) -> list[Entry]:
    """Reservations since the PTK began to wait that were not released, in order."""
    found = []
    for history in uow.ledger.histories(keys).values():
        released = any(entry.kind is EntryKind.RELEASE for entry in history)
        if history and history[0].sequence > wait.after and not released:
            found.append(history[0])
    return sorted(found, key=lambda entry: entry.sequence)


def _is_under_way(uow: CatalogView, training: Job) -> bool:
    """Whether a training, or the validation of what it made, is to end yet."""
    if training.state is not JobState.ENDED:
        return True
    try:
        return uow.jobs.get(_validation_of(training.id)).state is not JobState.ENDED
    except UnknownName:
        return False


def _validation_of(training_id: str) -> str:
    _, _, name = training_id.partition("/")
    return job_id(JobKind.VALIDATE, name)
