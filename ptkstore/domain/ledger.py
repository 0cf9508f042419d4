"""The ledger's rules: what is granted, what a repeated key gets, and whether a journal adds up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ptkstore.domain.accountants import Accountant, Charge
from ptkstore.domain.filters import BlockRecord, Filters
from ptkstore.domain.journal import GENESIS, BudgetRequest, Entry, EntryKind, chained_digest
from ptkstore.errors import Conflict, InvalidRequest, InvariantBroken


@dataclass(frozen=True, slots=True)
class Granted:
    """The loss is reserved, or was already spent, on every block of the request."""

    key: str


@dataclass(frozen=True, slots=True)
class Denied:
    """Nothing was reserved anywhere; these blocks have no room, or the reservation has ended."""

    key: str
    exhausted: tuple[int, ...]


def decide(filters: Filters, request: BudgetRequest) -> Granted | Denied:
    """All blocks or none; `InvalidRequest` if a block of the request does not exist."""
    exhausted = filters.exhausted(request)
    return Denied(request.key, exhausted) if exhausted else Granted(request.key)


def decide_all(filters: Filters, requests: Sequence[BudgetRequest]) -> list[Granted | Denied]:
    """Decide requests in order, each beside those granted before it; the filters are left as they were."""
    answers: list[Granted | Denied] = []
    granted: list[BudgetRequest] = []
    try:
        for request in requests:
            answers.append(decide(filters, request))
            if isinstance(answers[-1], Granted):
                filters.promise(request)
                granted.append(request)
    finally:
        for request in granted:
            filters.take_back(request)
    return answers


def outcome_of(request: BudgetRequest, history: Sequence[Entry]) -> Granted | Denied | None:
    """The stored answer of a key, None for a new one; other content under it is a `Conflict` (differences.md F3)."""
    if not history:
        return None
    if history[0].request != request:
        raise Conflict(f"key {request.key!r} was used for another request")
    kinds = {entry.kind for entry in history}
    return Denied(request.key, ()) if EntryKind.RELEASE in kinds else Granted(request.key)


ChargeOf = Callable[[Mapping[str, object], Accountant, BudgetRequest], Charge]
"""Recomputes from a stored event what an accountant should have counted for a request."""


def verify(
    blocks: Iterable[BlockRecord], entries: Sequence[Entry], charge_of: ChargeOf | None = None
) -> tuple[str, ...]:
    """What is wrong with a stream's journal, recomputed from the entries alone; empty when all is well."""
    faults: list[str] = []
    created = tuple(blocks)
    filters, previous = Filters.of(created), GENESIS
    ended: set[str] = set()
    for expected, entry in enumerate(entries, start=1):
        if entry.sequence != expected:
            return (*faults, f"sequence {expected} is missing before {entry.sequence}")
        if chained_digest(previous, entry) != entry.digest:
            faults.append(f"entry {entry.sequence} does not match its digest")
        previous = entry.digest
        if entry.kind is not EntryKind.RESERVE:
            ended.add(entry.key)
        elif entry.key in ended:
            faults.append(f"entry {entry.sequence} repeats or follows the end of key {entry.key!r}")
            continue
        try:
            filters.apply(entry)
        except InvariantBroken:
            faults.append(f"entry {entry.sequence} ends no reservation like it, or repeats one")
        except InvalidRequest:
            faults.append(f"entry {entry.sequence} is on a line that its blocks do not have")
        if charge_of is not None and created and _undercharged(entry, created[0].accountant, charge_of):
            faults.append(f"entry {entry.sequence} charges less than its event costs")
    if not faults:
        faults += [f"block {number} is over its capacity" for number in filters.over()]
    return tuple(faults)


def _undercharged(entry: Entry, accountant: Accountant, charge_of: ChargeOf) -> bool:
    if entry.kind is not EntryKind.SPEND:  # a reservation that was given back cost nothing
        return False
    return not entry.charge.covers(charge_of(entry.event, accountant, entry.request))
