"""Say how many more PTKs like the one that was registered last fit into a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ptkstore.application.ledger.charging import Price
from ptkstore.application.planning.evaluation_plans import check_evaluations, price_of_test
from ptkstore.application.planning.window_plans import (
    Offer,
    as_newcomer,
    as_promised,
    cheapest,
    offers_of,
    plan_window,
)
from ptkstore.application.scheduling.waiting_ptks import is_of_context
from ptkstore.domain.accounting.accountants import Caps, Charge, caps_of
from ptkstore.domain.allocation.model import Infeasible
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.ptks.room_for_more import Basis, RoomForMore
from ptkstore.domain.streams.blocks import BlockRange, train_blocks
from ptkstore.domain.streams.policies import Policy, PrivacyUnit
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import Refused
from ptkstore.ports.catalog import CatalogView, Read

MOST = 100
"""Where counting ends."""


def room_for_more(stream: str, *, team: str | None = None, begin: Read) -> RoomForMore | None:
    """Count how many more PTKs fit like the last that was registered, by the rules that admit and charge them.

    None if no PTK is registered, or rows stay on devices: then no block is charged.

    Parameters
    ----------
    team : str, optional
        Of a stream with contexts, look at the PTKs of this team's context alone.

    Raises
    ------
    UnknownName
        No such stream.
    """
    with begin() as uow:
        policy = uow.streams.get(stream).policy
        if policy.on_devices:
            return None
        specs = uow.ptks.find(stream=stream)
        last = _last(uow, specs, stream, team, policy)
        if last is None:
            return None
        tested = uow.ptks.tested_on(stream)
        menu = offers_of(as_promised(last, policy), policy)
        if not menu:
            return None
        offer, of_users = cheapest(menu), policy.privacy_unit is PrivacyUnit.USER
        more, basis = _on_users(uow, last, offer, policy) if of_users else 0, Basis.LIFE
    if not of_users and policy.scheduler.lets_wait:
        more, basis = _on_a_fresh_block(last, offer, policy), Basis.FRESH_BLOCK
    elif not of_users:
        more, basis = _most(_Counted(last, specs, tested, policy).fit), Basis.WINDOW
    return RoomForMore(last.ptk_id, offer.loss, min(more, MOST), more >= MOST, basis)


def _last(
    uow: CatalogView, specs: Iterable[PtkSpec], stream: str, team: str | None, policy: Policy
) -> PtkSpec | None:
    told = {spec.ptk_id: spec for spec in specs if team is None or is_of_context(spec.ptk_id, team, policy)}
    return next((told[one] for one in reversed(uow.ptks.by_age(stream)) if one in told), None)


def _most(fits: Callable[[int], bool]) -> int:
    """The largest number up to `MOST` that fits; what is more than fits does not."""
    if not fits(1):
        return 0
    low, high = 1, 2
    while low < MOST and fits(min(high, MOST)):
        low, high = min(high, MOST), 2 * high
    high = min(high, MOST + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


class _Counted:
    """Plans with more and more copies of one PTK; offers and prices are made once, whatever the number of plans.

    PTKs that differ in their names alone have the same offers and prices, so those are made once for all of them.

    Parameters
    ----------
    specs, tested : sequence of PtkSpec
        The PTKs of the stream, and those of others whose verdicts it pays for.
    """

    def __init__(
        self, last: PtkSpec, specs: Sequence[PtkSpec], tested: Sequence[PtkSpec], policy: Policy
    ) -> None:
        self._last, self._policy = replace(last, facts=None), policy
        self._tested = (*specs, *tested)
        self._newcomer = as_newcomer(self._last, policy)
        self._new_offers = offers_of(self._newcomer, policy)
        self._asks = {spec.ptk_id: _nameless(spec) for spec in self._tested}
        self._promised, self._offers = _menus(specs, self._asks, policy)
        self._prices: dict[str, Price | None] = {}

    def fit(self, n: int) -> bool:
        """Whether so many copies would be admitted one after the other, by the check of a registration."""
        copies = [replace(self._newcomer, ptk_id=f"{self._last.ptk_id}.{number}") for number in range(n)]
        try:
            check_evaluations((*self._tested, *copies), self._policy, self._price)
            plan = plan_window((*self._promised, *copies), self._policy, self._menu)
        except Refused:  # a part of its line is not there for a new PTK
            return False
        return not isinstance(plan, Infeasible)

    def _menu(self, spec: PtkSpec, policy: Policy) -> tuple[Offer, ...]:
        known = self._offers.get(spec.ptk_id)
        return tuple(replace(one, ptk_id=spec.ptk_id) for one in self._new_offers) if known is None else known

    def _price(self, spec: PtkSpec, policy: Policy) -> Price | None:
        asks = self._asks[_original(spec.ptk_id)]
        if asks not in self._prices:
            self._prices[asks] = price_of_test(spec, policy)
        return self._prices[asks]


def _menus(
    specs: Iterable[PtkSpec], asks: Mapping[str, str], policy: Policy
) -> tuple[tuple[PtkSpec, ...], dict[str, tuple[Offer, ...]]]:
    """The PTKs as they are promised room, and the offers of each by its id."""
    known: dict[str, tuple[PtkSpec, tuple[Offer, ...]]] = {}
    promised, offers = [], {}
    for spec in specs:
        if (ask := asks[spec.ptk_id]) not in known:
            first = as_promised(spec, policy)
            known[ask] = first, offers_of(first, policy)
        like, menu = known[ask]
        promised.append(replace(like, ptk_id=spec.ptk_id, team=spec.team, name=spec.name))
        offers[spec.ptk_id] = tuple(replace(one, ptk_id=spec.ptk_id) for one in menu)
    return tuple(promised), offers


def _nameless(spec: PtkSpec) -> str:
    """All that offers and prices of a PTK may depend on: what it says and what is known of it, without its names."""
    return repr(replace(spec, ptk_id="", team="", name="", description="", tags=()))


def _original(ptk_id: str) -> str:
    """The PTK that an id is of, also that of a copy."""
    return ".".join(ptk_id.split(".")[:2])


def _on_a_fresh_block(last: PtkSpec, offer: Offer, policy: Policy) -> int:
    capacity = policy.lines.get(policy.line_of(last.ptk_id))
    return 0 if capacity is None else _times(caps_of(policy.accountant, capacity), offer.charge)


def _on_users(uow: CatalogView, last: PtkSpec, offer: Offer, policy: Policy) -> int:
    """Trainings that the part of the users with the most room has left, on each of its shards."""
    line = policy.line_of(last.ptk_id)
    capacity = policy.lines.get(line)
    if capacity is None:
        return 0
    parts = [train_blocks(WindowId(last.stream, 0), policy, part) for part in range(policy.train_partitions)]
    if not uow.ledger.blocks(last.stream, parts[0], 1):  # no window has closed yet
        return _times(caps_of(policy.accountant, capacity), offer.charge)
    filters = uow.ledger.filters(last.stream)
    return max(_least(filters.left(line, part), part, offer.charge) for part in parts)


def _least(left: Mapping[int, Caps], part: BlockRange, charge: Charge) -> int:
    """How often every shard of a part takes a charge; one that is retired takes none."""
    return min(_times(left[number], charge) if number in left else 0 for number in part)


def _times(caps: Caps, charge: Charge) -> int:
    """How often a charge fits, up to `MOST`: by the rule of the filter, some coordinate and the deltas."""
    pairs = zip(caps.amounts, charge.amounts, strict=True)
    by_amount = max(max(0, cap) // amount for cap, amount in pairs)
    by_delta = max(0, caps.delta_atto) // charge.delta_atto if charge.delta_atto else MOST
    return min(by_amount, by_delta, MOST)
