"""The ledger's rules: what is granted, what a repeated key gets, and whether a journal adds up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ptkstore.domain.accounting.accountants import Accountant, Charge
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.ledger.block_ledgers import BlockRecord, not_as_promised
from ptkstore.domain.ledger.filters import Filters
from ptkstore.domain.ledger.journal import (
    GENESIS,
    BudgetRequest,
    ChainLine,
    Entry,
    EntryKind,
    PolicyEntry,
    chained_digest,
)
from ptkstore.domain.streams.differences import policy_differences
from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.streams.policy_texts import policy_in
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
    """Grant all blocks or none; `InvalidRequest` if a block of the request does not exist."""
    exhausted = filters.exhausted(request)
    return Denied(request.key, exhausted) if exhausted else Granted(request.key)


def decide_all(filters: Filters, requests: Sequence[BudgetRequest]) -> list[Granted | Denied]:
    """Decide requests in order, each beside those granted before it; the filters are left as they were."""
    if filters.surely_fit(requests):
        return [Granted(request.key) for request in requests]
    answers: list[Granted | Denied] = []
    granted: list[BudgetRequest] = []
    try:
        for request in requests:
            answers.append(decide(filters, request))
            if isinstance(answers[-1], Granted):
                filters.promise(request)
                granted.append(request)
    finally:
        filters.take_back(*granted)
    return answers


def outcome_of(request: BudgetRequest, history: Sequence[Entry]) -> Granted | Denied | None:
    """Return the stored answer of a key, None for a new one; other content is a `Conflict` (differences.md F3)."""
    if not history:
        return None
    if history[0].request != request:
        raise Conflict(f"key {request.key!r} was used for another request")
    kinds = {entry.kind for entry in history}
    return Denied(request.key, ()) if EntryKind.RELEASE in kinds else Granted(request.key)


ChargeOf = Callable[[Mapping[str, object], Accountant, Loss], Charge]
"""Recomputes from a stored event what an accountant should have counted for a loss."""


def verify(
    blocks: Iterable[BlockRecord],
    lines: Sequence[ChainLine],
    charge_of: ChargeOf | None = None,
    policy: Policy | None = None,
) -> tuple[str, ...]:
    """Return what is wrong with a stream's journal, recomputed from its lines alone; empty when all is well.

    With `policy`, the one that the catalog says the stream has, the journal must hold the same, and each block must
    have the capacities that follow from it.
    """
    faults: list[str] = []
    created = tuple(blocks)
    if policy is not None:
        chained = chained_policy(lines)
        faults += _policy_faults(created, chained, policy)
        created = _as_promised(created, chained or policy)
    filters, previous = Filters.of(created), GENESIS
    ended: set[str] = set()
    for expected, line in enumerate(lines, start=1):
        if line.sequence != expected:
            return (*faults, f"sequence {expected} is missing before {line.sequence}")
        if chained_digest(previous, line) != line.digest:
            faults.append(f"entry {line.sequence} does not match its digest")
        previous = line.digest
        if isinstance(line, Entry):
            if line.kind is not EntryKind.RESERVE:
                ended.add(line.key)
            elif line.key in ended:
                faults.append(f"entry {line.sequence} repeats or follows the end of key {line.key!r}")
                continue
        faults += _applied(filters, line)
        if charge_of is not None and created and _undercharged(line, created[0].accountant, charge_of):
            faults.append(f"entry {line.sequence} charges less than its event costs")
    if not faults or policy is not None:
        faults += [f"block {number} is over its capacity" for number in filters.over()]
    return tuple(faults)


def chained_policy(lines: Iterable[ChainLine]) -> Policy | None:
    """Return the policy in a journal."""
    texts = (line.policy_text for line in lines if isinstance(line, PolicyEntry))
    text = next(texts, None)
    return None if text is None else policy_in(text)


def _applied(filters: Filters, line: ChainLine) -> list[str]:
    """Take a line in; what is wrong with it."""
    try:
        filters.apply(line)
    except InvariantBroken:
        if isinstance(line, PolicyEntry):
            return [f"entry {line.sequence} is a second policy; a stream keeps the one it was created with"]
        return [f"entry {line.sequence} ends no reservation like it, or repeats one"]
    except InvalidRequest:
        return [f"entry {line.sequence} is on a line that its blocks do not have"]
    return []


def _policy_faults(blocks: Sequence[BlockRecord], chained: Policy | None, policy: Policy) -> list[str]:
    if chained is None:
        return ["the journal holds no policy of the stream"]
    faults = [f"the catalog's policy: {one} as in the journal" for one in policy_differences(policy, chained)]
    wrong = not_as_promised(blocks, chained)
    return faults + [
        f"block {number} has another capacity than the policy in the journal" for number in wrong
    ]


def _as_promised(blocks: Sequence[BlockRecord], policy: Policy) -> tuple[BlockRecord, ...]:
    lines = policy.lines
    return tuple(replace(block, lines=lines, accountant=policy.accountant) for block in blocks)


def _undercharged(entry: ChainLine, accountant: Accountant, charge_of: ChargeOf) -> bool:
    if isinstance(entry, PolicyEntry) or entry.kind is not EntryKind.SPEND:
        return False  # what was given back cost nothing
    return not entry.charge.covers(charge_of(entry.event, accountant, entry.loss))
