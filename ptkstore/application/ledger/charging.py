"""The charge protocol inside one transaction that has the stream's lock (differences.md F3)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ptklib.accounting import event_delta, pure_epsilon, renyi_curve, zcdp_rho
from ptklib.canonical_json import canonical_json
from ptkstore.domain.accounting.accountants import ORDERS, Accountant, Charge
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.ledger.journal import BudgetRequest, Entry, EntryKind
from ptkstore.domain.ledger.rules import Denied, Granted, decide_all, outcome_of
from ptkstore.domain.streams.policies import Policy
from ptkstore.errors import CatalogBehind, Conflict
from ptkstore.ports.catalog import CatalogView, UnitOfWork

Event = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Price:
    """The charge of a release: the loss that it guarantees, and what the stream's accountant counts for its event."""

    loss: Loss
    charge: Charge
    event: Event


def price_of(event: Event, accountant: Accountant, loss: Loss) -> Price:
    """Price a release of `event` whose guarantee is `loss`."""
    return Price(loss, charge_of(event, accountant, loss), event)


def charge_of(event: Event, accountant: Accountant, loss: Loss) -> Charge:
    """Return what `accountant` counts for a release of `event` whose guarantee is `loss`."""
    if accountant is Accountant.BASIC:
        return Charge.basic(loss)
    return _curved(canonical_json(event), accountant).at_most_pure(loss)


@lru_cache(maxsize=4096)
def _curved(event_json: str, accountant: Accountant) -> Charge:
    event = json.loads(event_json)
    pure, delta = pure_epsilon(event), event_delta(event)
    if accountant is Accountant.ZCDP:
        return Charge.of((zcdp_rho(event), pure), delta)
    return Charge.of((*renyi_curve(event, ORDERS).tolist(), pure if pure else math.inf), delta)


def reserve(uow: UnitOfWork, request: BudgetRequest, event: Event) -> Granted | Denied:
    """Promise the loss on all blocks of the request, or on none."""
    return reserve_all(uow, request.stream, [(request, event)])[0]


def reserve_all(
    uow: UnitOfWork, stream: str, requests: Sequence[tuple[BudgetRequest, Event]]
) -> list[Granted | Denied]:
    """Answer requests in order, each as if it came alone.

    A key is looked up before the decision: a redelivered request gets its stored answer and no second reservation.

    Raises
    ------
    Conflict
        A key was used for another request; nothing of this call is written.
    """
    histories = uow.ledger.histories([request.key for request, _ in requests])
    answers = [outcome_of(request, histories[request.key]) for request, _ in requests]
    new: dict[str, tuple[BudgetRequest, Event]] = {}
    for (request, event), stored in zip(requests, answers, strict=True):
        if stored is None and new.setdefault(request.key, (request, event))[0] != request:
            raise Conflict(f"key {request.key!r} was used for another request")
    decisions = decide_all(uow.ledger.filters(stream), [request for request, _ in new.values()])
    decided = {decision.key: decision for decision in decisions}
    steps = [(new[d.key][0], EntryKind.RESERVE, new[d.key][1]) for d in decisions if isinstance(d, Granted)]
    uow.ledger.extend(stream, steps)
    return [stored or decided[request.key] for (request, _), stored in zip(requests, answers, strict=True)]


def spend(uow: UnitOfWork, reservation: Entry, event: Event, policy: Policy) -> Entry:
    """Make a reservation irrevocable: from the commit on its rows may be opened.

    Blocks whose spends leave no room for the policy's least useful loss retire.
    """
    request = reservation.request
    entry = uow.ledger.append(request, EntryKind.SPEND, event)
    least = Charge.pure(policy.accountant, policy.retire_below)
    uow.ledger.retire(request.stream, uow.ledger.filters(request.stream).used_up(request.blocks, least))
    return entry


def expect_spent(uow: CatalogView, spent: Entry) -> None:
    """Raise `CatalogBehind` unless this spend is the last of its reservation; for whoever waited since it."""
    if [entry.digest for entry in uow.ledger.history(spent.key)][-1:] != [spent.digest]:
        raise CatalogBehind(f"the catalog does not hold the spend of {spent.key}: it was restored or copied")


def release_unopened(uow: UnitOfWork, key: str | None) -> None:
    """Give a reservation back if it was neither spent nor released."""
    history = uow.ledger.history(key) if key else ()
    if len(history) == 1:
        uow.ledger.append(history[0].request, EntryKind.RELEASE, {})
