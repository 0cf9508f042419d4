"""Separate contexts and reserved shares of a block's budget (Sage SOSP'19, section 3.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from ptkstore.domain.accounting.losses import MIN_EPSILON, NANO, Loss
from ptkstore.domain.names import checked_name, split_ptk_id, team_of
from ptkstore.errors import InvalidRequest, Refused

COMMON = "common"
"""The line of a block that is charged where the policy keeps no budget apart."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """How a policy shares a block's capacity.

    `contexts` names groups of teams (for example those of one geography) that each get the whole capacity for
    themselves. That is sound only if nobody who learns from one context learns from another, and no request of one
    reacts to an output of another (differences.md B9). So `no_collusion` must say why; otherwise the capacities of all
    contexts add up. `reserved` keeps a share of the capacity for one PTK each: nobody else can use it up, and that PTK
    uses no other.
    """

    contexts: tuple[tuple[str, tuple[str, ...]], ...] = ()
    no_collusion: str = ""
    reserved: tuple[tuple[str, Decimal], ...] = ()

    def lines(self, capacity: Loss) -> dict[str, Loss]:
        """Return what each line of a block may lose; the lines of a context add up to at most `capacity`.

        Each line has a filter of its own. Releases of several filters compose as the filters do: epsilons add up and
        deltas add up, whatever accountant each of them uses.
        """
        names = [context_line(name) for name, _ in self.contexts] or [COMMON]
        shares = dict.fromkeys(names, Decimal(1))
        own: dict[str, Loss] = {}
        for ptk_id, share in self.reserved:
            own[ptk_line(ptk_id)] = _part(capacity, share)
            shares[self._context_of(ptk_id)] -= share
        common = {name: _part(capacity, share) for name, share in shares.items() if share > 0}
        return {**common, **own}

    def line_of(self, ptk_id: str) -> str:
        """Return the line that a PTK pays from; `Refused` for a team that is in no context."""
        if ptk_id in dict(self.reserved):
            return ptk_line(ptk_id)
        return self._context_of(ptk_id)

    def _context_of(self, ptk_id: str) -> str:
        return self.line_of_team(team_of(ptk_id))

    def teams_beside(self, team: str) -> tuple[str, ...] | None:
        """Return the teams of the context that a team is in; None where there are no contexts."""
        if not self.contexts:
            return None
        return next((teams for _, teams in self.contexts if team in teams), ())

    def line_of_team(self, team: str) -> str:
        """Return the line from which PTKs without a share of their own pay; `Refused` as `line_of` raises it."""
        if not self.contexts:
            return COMMON
        for name, teams in self.contexts:
            if team in teams:
                return context_line(name)
        raise Refused(f"the stream keeps a budget per context, and team {team!r} is in none of them")

    def same_context(self, team: str, other: str) -> bool:
        """Tell whether two teams are in one context; all are where there are no contexts."""
        try:
            return self.line_of_team(team) == self.line_of_team(other)
        except Refused:  # one of them is in no context
            return False


ONE_BUDGET = Sharing()


def context_line(context: str) -> str:
    """Return the line of a context."""
    return f"context {context}"


def ptk_line(ptk_id: str) -> str:
    """Return the line of a PTK with a reserved share."""
    return f"ptk {ptk_id}"


def check_sharing(sharing: Sharing, capacity: Loss) -> None:
    """Raise `InvalidRequest` unless contexts are distinct and every line keeps something useful beside the shares."""
    names = [checked_name("context", name) for name, _ in sharing.contexts]
    teams = [checked_name("team", team) for _, members in sharing.contexts for team in members]
    if len(set(names)) != len(names) or len(set(teams)) != len(teams):
        raise InvalidRequest("contexts have different names, and a team is in one of them only")
    if any(not members for _, members in sharing.contexts):
        raise InvalidRequest("a context has at least one team")
    if sharing.contexts and len(sharing.no_collusion.strip()) < 10:
        raise InvalidRequest(
            "separate budgets per context need no_collusion (ten letters or more): why nobody learns from two, and "
            "why no request of one reacts to an output of another"
        )
    if not sharing.contexts and sharing.no_collusion:
        raise InvalidRequest("no_collusion belongs to contexts, and there are none")
    if len(dict(sharing.reserved)) != len(sharing.reserved):
        raise InvalidRequest("a PTK has one reserved share")
    for ptk_id, share in sharing.reserved:
        split_ptk_id(ptk_id)
        if not isinstance(share, Decimal) or not 0 < share <= 1:
            raise InvalidRequest(f"the reserved share of {ptk_id} must be in (0, 1]")
    try:
        lines = sharing.lines(capacity)
    except Refused as error:
        raise InvalidRequest(f"a reserved share: {error}") from error
    for line, part in lines.items():
        if part.epsilon_nano < MIN_EPSILON * NANO:
            raise InvalidRequest(f"line {line!r} keeps {part}, less than any PTK can use")
    for context in {sharing._context_of(ptk_id) for ptk_id, _ in sharing.reserved}:
        taken = sum(share for ptk_id, share in sharing.reserved if sharing._context_of(ptk_id) == context)
        if taken > 1:
            raise InvalidRequest(f"the reserved shares of {context!r} add up to {taken}, more than 1")


def _part(capacity: Loss, share: Decimal) -> Loss:
    amounts = capacity.epsilon_nano, capacity.delta_atto
    return Loss(*(int((amount * share).to_integral_value(ROUND_FLOOR)) for amount in amounts))


def sharing_json(sharing: Sharing) -> dict[str, Any]:
    """Plain JSON."""
    return {
        "contexts": {name: list(teams) for name, teams in sharing.contexts},
        "no_collusion": sharing.no_collusion,
        "reserved": {ptk_id: str(share) for ptk_id, share in sharing.reserved},
    }


def sharing_of(content: Mapping[str, Any]) -> Sharing:
    """Return the sharing that `sharing_json` wrote."""
    return Sharing(
        tuple((name, tuple(teams)) for name, teams in content["contexts"].items()),
        content["no_collusion"],
        tuple((ptk_id, Decimal(share)) for ptk_id, share in content["reserved"].items()),
    )
