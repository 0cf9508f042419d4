"""Trainings that a strategy asks for: what is to be reserved, and the job that is queued then."""

from __future__ import annotations

from dataclasses import dataclass

from ptkstore.application.ledger.charging import Event
from ptkstore.domain.jobs import Job
from ptkstore.domain.ledger.journal import BudgetRequest


@dataclass(frozen=True, slots=True)
class AskedTraining:
    """A training that is to be reserved; the key of the request is the id of the job."""

    request: BudgetRequest
    event: Event
    job: Job
