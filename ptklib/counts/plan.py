"""The joint release of all tables: one budget, and a threshold where values are not declared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ptklib.events import composed
from ptklib.exceptions import PrivacyParameterError
from ptklib.mechanisms.partition import PartitionSelection, gaussian_selection, laplace_selection
from ptklib.privacy import PrivacyLoss, check_delta
from ptklib.release import Component, ReleasePlan, plan_release


@dataclass(frozen=True, slots=True)
class CountPlan(ReleasePlan):
    """A release plan whose `components` are the tables of known size; the others are in `selections`."""

    selections: Mapping[str, PartitionSelection]


def plan_counts(
    components: Sequence[Component],
    selected: Sequence[str],
    epsilon: object,
    delta: object,
    rows_per_unit: int,
) -> CountPlan:
    """Divide (epsilon, delta) over all tables and set the thresholds of the `selected` ones.

    Parameters
    ----------
    components : sequence of Component
        One per table; the size of a selected one is the number of cells per value.

    Notes
    -----
    A row touches one cell of each table whether its values are declared or not. So epsilon is divided as if
    all were declared, and the counts that are compared with a threshold are the ones that are released. With
    Laplace noise the thresholds share all of delta; with Gaussian noise they share half of it.
    """
    slack = check_delta(delta)
    if not selected:
        plan = plan_release(components, epsilon, slack, rows_per_unit)
        return CountPlan(plan.components, plan.loss, plan.scales, plan.epsilons, {})
    if slack == 0:
        raise PrivacyParameterError("select needs delta > 0: it is what choosing the released values costs")
    plan = plan_release(components, epsilon, slack / 2, rows_per_unit)
    each = (slack / 2 if plan.epsilons is None else slack) / len(selected) * (1 - 1e-12)  # sums round
    selections = {c.name: _selection(c, plan, each) for c in plan.components if c.name in selected}
    declared = plan.loss.event.parts() or (plan.loss.event,)
    events = [
        selections[c.name].event if c.name in selections else event
        for c, event in zip(plan.components, declared, strict=True)
    ]
    return CountPlan(
        tuple(c for c in plan.components if c.name not in selections),
        PrivacyLoss(plan.loss.epsilon, slack, composed(events)),
        plan.scales,
        plan.epsilons,
        selections,
    )


def _selection(component: Component, plan: ReleasePlan, delta: float) -> PartitionSelection:
    name, moved, size = component.name, component.sensitivity, component.size
    if plan.epsilons is None:
        return gaussian_selection(sensitivity=moved, scale=plan.scales[name], delta=delta, n_cells=size)
    return laplace_selection(sensitivity=moved, epsilon=plan.epsilons[name], delta=delta, n_cells=size)
