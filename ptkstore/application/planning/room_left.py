"""How much loss one more PTK of a team could reserve in each block of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ptkstore.application.planning.refusals import largest
from ptkstore.application.planning.window_plans import (
    Offer,
    PlannedTraining,
    as_promised,
    cheapest,
    offers_of,
    partition_rows,
    plan_budget,
    room_of,
)
from ptkstore.application.planning.window_plans import Room as PlanningRoom
from ptkstore.domain.accounting.accountants import Accountant, Charge, caps_of, fit_together
from ptkstore.domain.accounting.losses import ATTO, NO_LOSS, Loss
from ptkstore.domain.allocation.model import Infeasible
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.streams.blocks import groups_where
from ptkstore.domain.streams.policies import Policy
from ptkstore.errors import Refused


@dataclass(frozen=True, slots=True)
class Room:
    """The capacity of a team's budget per block, and the largest loss that one more of its PTKs fits with.

    `context` names the group of teams that shares the budget; empty where all teams of the stream share it.
    """

    capacity: Loss
    left: Loss
    accountant: Accountant
    context: str = ""


def room_left(team: str, specs: Sequence[PtkSpec], policy: Policy) -> Room:
    """Return the room beside `specs` for one more PTK of the team that is trained on all groups of a window's blocks.

    The others count with the least loss that each of them was promised, as they do when a PTK is registered. The new
    one is a PTK of which nothing but its epsilon and delta is known. If trainings are spread over several partitions,
    the room is that of one way to spread them. Another way may leave more, and none of this is promised.

    Only the team's own budget is looked at: what teams of other contexts reserve is not told.
    """
    try:
        line = policy.sharing.line_of_team(team)
    except Refused:  # the team is in no context
        return Room(NO_LOSS, NO_LOSS, policy.accountant)
    context = line.removeprefix("context ") if policy.sharing.contexts else ""
    capacity = policy.lines.get(line)
    if capacity is None:  # all of it is reserved for single PTKs
        return Room(NO_LOSS, NO_LOSS, policy.accountant, context)
    members = [one for one in specs if policy.line_of(one.ptk_id) == line]
    return Room(capacity, _left(members, room_of(policy, line), policy), policy.accountant, context)


def _left(members: Sequence[PtkSpec], room: PlanningRoom, policy: Policy) -> Loss:
    offers = [offers_of(as_promised(spec, policy), policy) for spec in members]
    if not all(offers):
        return NO_LOSS
    menus = [(cheapest(menu),) for menu in offers]
    plan = plan_budget(menus, room)
    if isinstance(plan, Infeasible):
        return NO_LOSS
    losses = {_left_in(taken, room.capacity, policy.accountant) for taken in _taken(plan.planned, policy)}
    largest_first = sorted(losses, key=lambda loss: (loss.epsilon_nano, loss.delta_atto), reverse=True)
    if not members:
        return largest_first[0]
    n_rows, groups = min(partition_rows(policy), policy.n_max), groups_where(policy, None)
    for loss in largest_first:
        if loss == NO_LOSS:
            break
        newcomer = Offer("", loss, Charge.pure(policy.accountant, loss), {}, n_rows, groups)
        if not isinstance(plan_budget([*menus, (newcomer,)], room), Infeasible):
            return loss
    return NO_LOSS


Taken = Sequence[Sequence[Charge]]
"""What is charged to each group of blocks of one partition."""


def _taken(planned: Sequence[PlannedTraining], policy: Policy) -> list[Taken]:
    """The charges to each partition, by groups of blocks."""
    return [
        [
            [one.offer.charge for one in planned if one.partition == partition and group in one.offer.groups]
            for group in groups_where(policy, None)
        ]
        for partition in range(policy.train_partitions)
    ]


def _left_in(taken: Taken, capacity: Loss, accountant: Accountant) -> Loss:
    """The largest loss that fits on all groups of a partition: epsilon without a delta, then a delta beside it."""
    caps = caps_of(accountant, capacity)

    def fits(loss: Loss) -> bool:
        charge = Charge.pure(accountant, loss)
        return all(fit_together(caps, (*there, charge)) for there in taken)

    epsilon = largest(lambda nano: fits(Loss(nano)), capacity.epsilon_nano)
    if not epsilon:
        return NO_LOSS
    used = max((sum(one.delta_atto for one in there) for there in taken), default=0)
    return Loss(epsilon, min(max(0, caps.delta_atto - used), ATTO))
