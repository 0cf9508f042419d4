"""The charge protocol inside one transaction that holds the stream's lock (PAPERS F3)."""

from __future__ import annotations

from ptkstore.domain.ledger import BudgetRequest, Denied, Entry, EntryKind, Granted, decide, outcome_of
from ptkstore.ports.catalog import UnitOfWork


def reserve(uow: UnitOfWork, request: BudgetRequest, event: dict[str, object]) -> Granted | Denied:
    """Promise the loss on all blocks of the request, or on none.

    The key is looked up before the decision: a redelivered request gets its stored answer and no second reservation.
    """
    known = outcome_of(request, uow.ledger.history(request.key))
    if known is not None:
        return known
    decision = decide(uow.ledger.blocks(request.stream, request.blocks), request)
    if isinstance(decision, Granted):
        uow.ledger.append(request, EntryKind.RESERVE, event)
    return decision


def spend(uow: UnitOfWork, reservation: Entry, event: dict[str, object]) -> Entry:
    """Make a reservation irrevocable: from the commit on its rows may be opened."""
    return uow.ledger.append(reservation.request, EntryKind.SPEND, event)


def release_unopened(uow: UnitOfWork, key: str | None) -> None:
    """Give a reservation back if it was neither spent nor released."""
    history = uow.ledger.history(key) if key else ()
    if len(history) == 1:
        uow.ledger.append(history[0].request, EntryKind.RELEASE, {})
