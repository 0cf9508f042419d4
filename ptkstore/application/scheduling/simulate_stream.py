"""Simulate a stream under other schedulers: its PTKs arrive again, and the code that schedules decides.

Only public numbers go in: the policy, what PTKs declare, and what their profiles and versions have released.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache

from ptklib.exceptions import PtklibError
from ptkstore.application.planning.formula_plans import with_facts
from ptkstore.application.planning.window_plans import partition_rows
from ptkstore.application.scheduling.newcomers import why_it_never_fits
from ptkstore.application.scheduling.waiting_ptks import as_waiting, charges_of, is_of_context, line_of
from ptkstore.domain.accounting.accountants import Charge
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.scheduling.adaptive import Adaptive, Mode
from ptkstore.domain.scheduling.allowances import BlockRoom, whole_block
from ptkstore.domain.scheduling.choices import Scheduler, Significance
from ptkstore.domain.scheduling.competing import Competing
from ptkstore.domain.scheduling.model import ChargeOf, Proposal, Waiting
from ptkstore.domain.scheduling.orders import by_arrival, by_dominant_share, by_efficiency
from ptkstore.domain.scheduling.simulation.outcomes import Outcome
from ptkstore.domain.scheduling.simulation.rounds import Comer, Ground, play
from ptkstore.domain.scheduling.simulation.workload import drawn
from ptkstore.domain.scheduling.simulations import Asked, Fared, Simulated, Simulation, fared_under
from ptkstore.domain.scheduling.strategies import Strategy
from ptkstore.domain.streams.blocks import groups_of
from ptkstore.domain.streams.streams import Policy
from ptkstore.errors import InvalidRequest
from ptkstore.ports.catalog import Read

MOST_BLOCKS = 2_000
MOST_WORK = 8_000_000  # some ten seconds of one processor
_ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_ORDERS = {
    Simulated.ARRIVAL: by_arrival,
    Simulated.DPF: by_dominant_share,
    Simulated.DPACK: by_efficiency,
}
_WEIGHTS = {Simulated.AGGRESSIVE: 20, **dict.fromkeys(_ORDERS, 4)}


@dataclass(frozen=True, slots=True)
class _Line:
    """The PTKs that pay from one line of the budget, in the order in which they arrive."""

    capacity: Loss
    ground: Ground
    comers: tuple[Comer, ...]


def simulate_stream(stream: str, asked: Asked, *, team: str | None = None, begin: Read) -> Simulation:
    """Return when the PTKs of a stream would be released, and what its blocks would have left.

    PTKs registered on the stream arrive again, drawn at random with the seed that is asked for. A PTK with `accept` is
    accepted once a look has the rows that its menu names at this loss or less. One without `accept` is released by
    its first look. So is one without a menu, because nobody knows what it needs.

    Parameters
    ----------
    team : str, optional
        Of a stream with contexts, simulate the PTKs of this team's context alone.

    Raises
    ------
    UnknownName
        No such stream.
    InvalidRequest
        The stream's policy does not go with `adaptive`, or the simulation takes too much work.
    """
    with begin() as uow:
        policy = as_adaptive(uow.streams.get(stream).policy)
        _check_blocks(policy, asked.windows)
        specs = {
            spec.ptk_id: spec
            for spec in sorted(uow.ptks.find(stream=stream), key=lambda one: one.ptk_id)
            if not spec.has_given_up and _is_told(spec.ptk_id, team, policy)
        }
        arrivals = drawn(list(specs), asked.rate, asked.windows, asked.seed)
        named = [specs[ptk_id] for ptk_id in sorted({ptk_id for _, ptk_id in arrivals})]
        informed = {spec.ptk_id: spec for spec in with_facts(uow, named, policy)}
    refused = {spec.ptk_id: reason for spec in informed.values() if (reason := _refusal(spec, policy))}
    coming = [(time, ptk_id) for time, ptk_id in arrivals if ptk_id not in refused]
    lines = _lines(coming, informed, policy, asked.windows)
    return Simulation(
        stream,
        asked,
        len(coming),
        _fared(lines, asked.schedulers, partition_rows(policy)),
        tuple(sorted({_name(one) for line in lines for one in line.comers if _is_unknown(one, informed)})),
        tuple(sorted(refused.items())),
    )


def as_adaptive(policy: Policy) -> Policy:
    """Return the policy that a stream would have if it were adaptive."""
    return replace(
        policy,
        scheduler=Scheduler.ADAPTIVE,
        significance=Significance.RECENCY,
        least_significance=None,
        most_significance=None,
        comparison_epsilon=None,
    )


def strategy_of(scheduler: Simulated, rows_per_window: int, whole: BlockRoom) -> Strategy:
    """Return the scheduler of this name, for a line whose blocks have as much as `whole` while nothing is charged."""
    if (order := _ORDERS.get(scheduler)) is not None:
        return Competing(rows_per_window, Mode.GUIDED, order, whole)
    return Adaptive(rows_per_window, Mode(scheduler.value))


def _is_told(ptk_id: str, team: str | None, policy: Policy) -> bool:
    return team is None or not policy.sharing.contexts or is_of_context(ptk_id, team, policy)


def _check_blocks(policy: Policy, windows: int) -> None:
    kept = min(policy.retention_windows, windows) * groups_of(policy)
    if kept > MOST_BLOCKS:
        raise InvalidRequest(
            f"{kept} blocks would be kept at once, and at most {MOST_BLOCKS} are simulated; ask for fewer windows"
        )


def _refusal(spec: PtkSpec, policy: Policy) -> str | None:
    try:
        return why_it_never_fits(spec, policy)
    except (PtklibError, InvalidRequest) as error:
        return str(error)


def _lines(
    arrivals: Sequence[tuple[float, str]], specs: Mapping[str, PtkSpec], policy: Policy, windows: int
) -> list[_Line]:
    facts = {
        ptk_id: as_waiting(specs[ptk_id], policy, _ANY_TIME) for ptk_id in {name for _, name in arrivals}
    }
    by_line: dict[str, list[Comer]] = {}
    for count, (time, ptk_id) in enumerate(arrivals):
        again = replace(facts[ptk_id], ptk_id=f"{ptk_id}#{count:06}", arrived=int(time * 1e6))
        comer = Comer(again, time, _Test(again, specs[ptk_id]).accepts)
        by_line.setdefault(str(line_of(specs[ptk_id], policy)), []).append(comer)
    return [
        _line(policy.lines[line], comers, specs, policy, windows) for line, comers in sorted(by_line.items())
    ]


def _line(
    capacity: Loss, comers: Sequence[Comer], specs: Mapping[str, PtkSpec], policy: Policy, windows: int
) -> _Line:
    charged = _charges(specs, policy)
    least = [charged(name, one.facts.losses[0]) for name, one in {_name(one): one for one in comers}.items()]
    whole = whole_block(policy.accountant, capacity, least)
    blocks = tuple(replace(whole, group=group) for group in range(groups_of(policy)))
    ground = Ground(windows, policy.retention_windows, blocks, _below_all(least), charged)
    return _Line(capacity, ground, tuple(comers))


def _charges(specs: Mapping[str, PtkSpec], policy: Policy) -> ChargeOf:
    charged = cache(charges_of(specs, policy))
    return lambda ptk_id, loss: charged(ptk_id.partition("#")[0], loss)


def _below_all(charges: Iterable[Charge]) -> Charge:
    """A charge that is at each coordinate the least of all."""
    many = list(charges)
    amounts = zip(*(one.amounts for one in many), strict=True)
    return Charge(tuple(map(min, amounts)), min(one.delta_atto for one in many))


@dataclass(frozen=True, slots=True)
class _Test:
    """Whether a look of a PTK is accepted, by its menu; without one, the first is."""

    facts: Waiting
    spec: PtkSpec

    def accepts(self, look: Proposal) -> bool:
        if "accept" not in self.spec.config or not self.facts.menu:
            return True
        return any(
            entry.loss.epsilon_nano <= look.loss.epsilon_nano and entry.n_rows <= look.n_rows
            for entry in self.facts.menu
        )


def _is_unknown(one: Comer, specs: Mapping[str, PtkSpec]) -> bool:
    return "accept" in specs[_name(one)].config and not one.facts.menu


def _name(one: Comer) -> str:
    return one.facts.ptk_id.partition("#")[0]


def _fared(lines: Sequence[_Line], schedulers: Sequence[Simulated], rows: int) -> tuple[Fared, ...]:
    found, work = [], 0
    for scheduler in schedulers:
        outcomes = []
        for line in lines:
            ground = replace(line.ground, most_work=MOST_WORK - work, weight=_WEIGHTS.get(scheduler, 1))
            outcomes.append(play(line.comers, strategy_of(scheduler, rows, ground.blocks[0]), ground))
            work += outcomes[-1].work
        found.append(fared_under(scheduler, outcomes, _left(lines, outcomes)))
    return tuple(found)


def _left(lines: Sequence[_Line], outcomes: Sequence[Outcome]) -> float:
    """The share of the budget of all blocks that is left; a line counts by its epsilon. 1 if nobody came."""
    shares = [
        (line.capacity.epsilon_nano, sum(one.left.values()) / len(one.left) / line.ground.blocks[0].left_nano)
        for line, one in zip(lines, outcomes, strict=True)
    ]
    whole = sum(weight for weight, _ in shares)
    return sum(weight * share for weight, share in shares) / whole if whole else 1.0
