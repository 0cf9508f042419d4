"""Simulate a stream under other schedulers: its PTKs arrive again, and the code that schedules decides.

Only public numbers go in: the policy, what PTKs declare, and what their profiles and versions have released.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any

from ptklib.exceptions import PtklibError
from ptkstore.application.planning.estimators import event_of
from ptkstore.application.planning.formula_plans import with_facts
from ptkstore.application.planning.window_plans import partition_rows
from ptkstore.application.scheduling.newcomers import why_it_never_fits
from ptkstore.application.scheduling.waiting_ptks import as_waiting, charges_of, is_of_context, line_of
from ptkstore.domain.accounting.accountants import Charge, caps_of
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.budgeting.declared import recency_of, rule_of
from ptkstore.domain.budgeting.public import PublicBudgeting
from ptkstore.domain.budgeting.simulation.waiting import BudgetingState
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.scheduling.adaptive import Adaptive, Mode
from ptkstore.domain.scheduling.block_rooms import BlockRoom, whole_block
from ptkstore.domain.scheduling.choices import Scheduler, ServedFirst, Significance
from ptkstore.domain.scheduling.competing import Competing
from ptkstore.domain.scheduling.model import ChargeOf, Proposal, Waiting
from ptkstore.domain.scheduling.orders import ORDERS
from ptkstore.domain.scheduling.simulation.outcomes import (
    Outcome,
    RefusedPtk,
    SchedulerResult,
    SimulationResult,
    summarise,
)
from ptkstore.domain.scheduling.simulation.requests import SimulatedScheduler, SimulationRequest
from ptkstore.domain.scheduling.simulation.simulator import (
    SchedulerState,
    SimulatedPtk,
    SimulatedStream,
    StrategyState,
    simulate,
)
from ptkstore.domain.scheduling.simulation.work import CALIBRATION, CHARGE, Work
from ptkstore.domain.scheduling.simulation.workload import draw_arrivals
from ptkstore.domain.scheduling.strategies import Strategy
from ptkstore.domain.streams.blocks import groups_of
from ptkstore.domain.streams.policies import Policy
from ptkstore.errors import InvalidRequest
from ptkstore.ports.catalog import Read
from ptkstore.ports.runtime import TellSteps, tell_nobody

MOST_BLOCKS = 2_000
MOST_STEPS = 8_000_000  # some ten seconds of one processor
_ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_MODES = {mode.value: mode for mode in Mode}


@dataclass(frozen=True, slots=True)
class _Line:
    """The PTKs that pay from one line of the budget, in the order in which they arrive."""

    capacity: Loss
    stream: SimulatedStream
    ptks: tuple[SimulatedPtk, ...]


def simulate_stream(
    stream: str,
    request: SimulationRequest,
    *,
    team: str | None = None,
    tell: TellSteps = tell_nobody,
    begin: Read,
) -> SimulationResult:
    """Return when the PTKs of a stream would be released, and what its blocks would have left.

    PTKs registered on the stream arrive again, drawn at random with the seed that is asked for. A PTK with `accept` is
    accepted once a look has the rows that its menu names at this loss or less. One without `accept` is released by
    its first look. So is one without a menu, because nobody knows what it needs.

    Under `budgeting`, the significance of a window for a PTK is its declared recency. One that is measured on rows is
    not public, so it is not simulated.

    Parameters
    ----------
    team : str, optional
        Of a stream with contexts, simulate the PTKs of this team's context alone.
    tell : callable
        Hears how many windows are simulated, of those of all schedulers.

    Raises
    ------
    UnknownName
        No such stream.
    InvalidRequest
        The stream's policy does not go with `adaptive`, `budgeting` lacks bounds on significance, or the simulation
        takes too much work.
    """
    with begin() as uow:
        owner = uow.streams.get(stream)
        if owner.policy.on_devices:
            raise InvalidRequest(f"the rows of stream {stream!r} stay on devices, and no scheduler serves it")
        own = owner.policy
        policy, budgeting = as_adaptive(own), as_budgeting(own, request) if request.has_budgeting else None
        _check_blocks(policy, request.windows)
        specs = {
            spec.ptk_id: spec
            for spec in sorted(uow.ptks.find(stream=stream), key=lambda one: one.ptk_id)
            if not spec.has_given_up and _is_told(spec.ptk_id, team, policy)
        }
        arrivals = draw_arrivals(list(specs), request.rate, request.windows, request.seed)
        named = [specs[ptk_id] for ptk_id in sorted({ptk_id for _, ptk_id in arrivals})]
        informed = {spec.ptk_id: spec for spec in with_facts(uow, named, policy)}
    if budgeting is not None:
        request = replace(
            request,
            least_significance=budgeting.least_significance,
            most_significance=budgeting.most_significance,
        )
    tell(0, request.windows * len(request.schedulers))  # more where contexts have lines of their own
    work = Work(MOST_STEPS)
    priced = _Priced(work)
    refused = _refused(informed.values(), policy, priced)
    coming = [(time, ptk_id) for time, ptk_id in arrivals if ptk_id not in refused]
    lines = _lines(coming, informed, policy, request.windows, priced)
    unserved = {} if budgeting is None else _refused(informed.values(), budgeting, priced)
    return SimulationResult(
        stream,
        request,
        len(coming),
        _results(lines, request, informed, policy, budgeting, work, tell),
        tuple(sorted({_name(one) for line in lines for one in line.ptks if _is_unknown(one, informed)})),
        tuple(refused.get(ptk_id) or unserved[ptk_id] for ptk_id in sorted({*refused, *unserved})),
    )


def as_adaptive(policy: Policy) -> Policy:
    """Return the policy that a stream would have if it were adaptive."""
    return replace(
        policy,
        scheduler=Scheduler.ADAPTIVE,
        significance=Significance.RECENCY,
        served_first=ServedFirst.ARRIVAL,
        least_significance=None,
        most_significance=None,
        comparison_epsilon=None,
    )


def as_budgeting(policy: Policy, request: SimulationRequest) -> Policy:
    """Return the policy that a stream would have under `budgeting`, with a declared significance.

    Raises
    ------
    InvalidRequest
        Neither the request nor the stream has bounds on a declared significance, or they do not go together.
    """
    least, most = request.least_significance, request.most_significance
    if policy.significance is Significance.RECENCY:
        least = policy.least_significance if least is None else least
        most = policy.most_significance if most is None else most
    if least is None or most is None:
        measured = policy.significance.is_measured
        raise InvalidRequest(
            "to simulate 'budgeting', give least_significance and most_significance: bounds on the declared "
            "significance per epsilon. "
            + (
                "Those of this stream are in losses, which are measured on rows, and a simulation reads no row"
                if measured
                else "This stream has another scheduler, and so no bounds"
            )
        )
    return replace(
        policy,
        scheduler=Scheduler.BUDGETING,
        scheduler_mode=Mode.GUIDED,
        significance=Significance.RECENCY,
        least_significance=least,
        most_significance=most,
        comparison_epsilon=None,
    )


def strategy_of(scheduler: SimulatedScheduler, rows_per_window: int, whole: BlockRoom) -> Strategy:
    """Return the strategy of this name, for a line whose blocks have as much as `whole` while nothing is charged."""
    if (mode := _MODES.get(scheduler.value)) is not None:
        return Adaptive(rows_per_window, mode)
    return Competing(rows_per_window, Mode.GUIDED, ORDERS[ServedFirst(scheduler.value)], whole)


def _is_told(ptk_id: str, team: str | None, policy: Policy) -> bool:
    return team is None or not policy.sharing.contexts or is_of_context(ptk_id, team, policy)


def _check_blocks(policy: Policy, windows: int) -> None:
    kept = min(policy.retention_windows, windows) * groups_of(policy)
    if kept > MOST_BLOCKS:
        raise InvalidRequest(
            f"{kept} blocks would be kept at once, and at most {MOST_BLOCKS} are simulated; ask for fewer windows"
        )


def _refused(specs: Iterable[PtkSpec], policy: Policy, priced: _Priced) -> dict[str, RefusedPtk]:
    """The PTKs that a stream of this policy would not register."""
    reasons = ((spec.ptk_id, _refusal(spec, policy, priced)) for spec in specs)
    return {
        ptk_id: RefusedPtk(ptk_id, policy.scheduler.value, reason)
        for ptk_id, reason in reasons
        if reason is not None
    }


def _refusal(spec: PtkSpec, policy: Policy, priced: _Priced) -> str | None:
    try:
        one, why = as_waiting(spec, policy, _ANY_TIME), why_it_never_fits(spec, policy)
        losses = {*one.losses, *(entry.loss for entry in one.menu)}
        events = [event_of(spec.estimator, loss) for loss in losses]
    except (PtklibError, InvalidRequest) as error:
        return str(error)
    for event in events:
        priced.note(event)
    return why


def _lines(
    arrivals: Sequence[tuple[float, str]],
    specs: Mapping[str, PtkSpec],
    policy: Policy,
    windows: int,
    priced: _Priced,
) -> list[_Line]:
    charged = _charges(specs, policy, priced)
    facts = {
        ptk_id: as_waiting(specs[ptk_id], policy, _ANY_TIME) for ptk_id in {name for _, name in arrivals}
    }
    by_line: dict[str, list[SimulatedPtk]] = {}
    for count, (time, ptk_id) in enumerate(arrivals):
        again = replace(facts[ptk_id], ptk_id=f"{ptk_id}#{count:06}", arrived=int(time * 1e6))
        ptk = SimulatedPtk(again, time, _Test(again, specs[ptk_id]).accepts)
        by_line.setdefault(str(line_of(specs[ptk_id], policy)), []).append(ptk)
    return [
        _line(policy.lines[line], ptks, charged, policy, windows) for line, ptks in sorted(by_line.items())
    ]


def _line(
    capacity: Loss, ptks: Sequence[SimulatedPtk], charged: ChargeOf, policy: Policy, windows: int
) -> _Line:
    least = [charged(name, one.facts.losses[0]) for name, one in {_name(one): one for one in ptks}.items()]
    whole = whole_block(policy.accountant, capacity, least)
    blocks = tuple(replace(whole, group=group) for group in range(groups_of(policy)))
    stream = SimulatedStream(windows, policy.retention_windows, blocks, _below_all(least), charged)
    return _Line(capacity, stream, tuple(ptks))


class _Priced:
    """Events that were priced: each is counted once, for the library remembers its noise."""

    def __init__(self, work: Work) -> None:
        self._work, self._seen = work, set[str]()

    def note(self, event: Mapping[str, Any]) -> None:
        """Count what it takes to price an event, if it was not priced before."""
        if (key := json.dumps(event, sort_keys=True)) not in self._seen:
            self._seen.add(key)
            self._work.count(_steps_of_charge(event))


def _charges(specs: Mapping[str, PtkSpec], policy: Policy, priced: _Priced) -> ChargeOf:
    """The charges for losses of PTKs; each is computed once."""
    charged = cache(charges_of(specs, policy, priced.note))
    return lambda ptk_id, loss: charged(ptk_id.partition("#")[0], loss)


def _steps_of_charge(event: Mapping[str, Any]) -> int:
    parts = event.get("events", ())
    return CALIBRATION if event["name"] == "PoissonSampled" else max([CHARGE, *map(_steps_of_charge, parts)])


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
        if self.spec.accept is None or not self.facts.menu:
            return True
        return any(
            entry.loss.epsilon_nano <= look.loss.epsilon_nano and entry.n_rows <= look.n_rows
            for entry in self.facts.menu
        )


def _is_unknown(one: SimulatedPtk, specs: Mapping[str, PtkSpec]) -> bool:
    return specs[_name(one)].accept is not None and not one.facts.menu


def _name(one: SimulatedPtk) -> str:
    return one.facts.ptk_id.partition("#")[0]


def _results(
    lines: Sequence[_Line],
    request: SimulationRequest,
    specs: Mapping[str, PtkSpec],
    policy: Policy,
    budgeting: Policy | None,
    work: Work,
    tell: TellSteps,
) -> tuple[SchedulerResult, ...]:
    found = []
    before, total = 0, request.windows * len(lines) * len(request.schedulers)
    for scheduler in request.schedulers:
        outcomes = []
        for line in lines:
            state: SchedulerState
            if scheduler is SimulatedScheduler.BUDGETING and budgeting is not None:
                state = _budgeting_state(line, specs, budgeting, work)
            else:
                strategy = strategy_of(scheduler, partition_rows(policy), line.stream.blocks[0])
                state = StrategyState(strategy, line.stream, work)
            told = partial(_tell_windows, tell, before, total)
            outcomes.append(simulate(line.ptks, state, line.stream, told))
            before += request.windows
        found.append(summarise(scheduler, outcomes, _left(lines, outcomes)))
    return tuple(found)


def _tell_windows(tell: TellSteps, before: int, total: int, done: int) -> None:
    tell(before + done, total)


def _budgeting_state(line: _Line, specs: Mapping[str, PtkSpec], policy: Policy, work: Work) -> BudgetingState:
    recencies = {one.facts.ptk_id: recency_of(specs[_name(one)].config, policy) for one in line.ptks}
    rules = PublicBudgeting(rule_of(policy), partition_rows(policy))
    caps = caps_of(policy.accountant, line.capacity)
    return BudgetingState(rules, line.stream, caps, recencies, work, policy.served_first)


def _left(lines: Sequence[_Line], outcomes: Sequence[Outcome]) -> float:
    """The unspent share of the budget of all blocks; a line counts by its epsilon. 1 if nobody came."""
    shares = [
        (line.capacity.epsilon_nano, sum(one.left.values()) / len(one.left) / line.stream.blocks[0].left_nano)
        for line, one in zip(lines, outcomes, strict=True)
    ]
    whole = sum(weight for weight, _ in shares)
    return sum(weight * share for weight, share in shares) / whole if whole else 1.0
