"""Tables and panels of the Sage scenario: what was measured, as text and lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from _common.intervals import mean_and_half, shown
from _common.pipelines import Pipeline
from _common.plots import Panel
from _common.release_times import Waits
from _common.sla import OURS, VALIDATORS
from _common.violations import Accepted, JustMissed, Plan, holds, upper_limit
from ptklib.arrays import Floats

NON_PRIVATE = "without noise"
Measured = dict[str, Any]


def violations(
    name: str, found: Mapping[str, Mapping[tuple[str, float], Accepted]], plans: Sequence[Plan]
) -> Measured:
    """Return the table of target violations; plans in the order of `found`."""
    rows, saved = [], []
    for pipeline, of_pipeline in found.items():
        for (validator, eta), accepted in sorted(of_pipeline.items(), key=lambda item: item[0][1]):
            yes = holds(accepted.limit, eta)
            rows.append(
                [
                    pipeline,
                    f"{eta:g}",
                    validator,
                    f"{accepted.n:,}",
                    f"{accepted.violations:,}",
                    f"{accepted.rate:.4f}",
                    f"{accepted.limit:.4f}",
                    "yes" if yes else "no",
                ]
            )
            saved.append(
                {
                    "pipeline": pipeline,
                    "eta": eta,
                    "validator": validator,
                    "accepted": accepted.n,
                    "violations": accepted.violations,
                    "limit": accepted.limit,
                    "holds": yes,
                }
            )
    sizes = {plan.seeds: len(plan.targets) * plan.repeats * plan.seeds for plan in plans}
    return {
        "table": f"sage: {name}",
        "said": f"{_either(sizes)} sequences of models, {_either(sizes.values())} runs for each row; "
        "limit: upper 95 %, Clopper-Pearson",
        "header": ["model", "η", "validator", "accepted", "violations", "rate", "limit", "limit < η"],
        "rows": rows,
        "found": saved,
    }


def _either(numbers: Iterable[int]) -> str:
    return " or ".join(f"{number:,}" for number in sorted(numbers))


def just_missed(found: Mapping[str, Sequence[JustMissed]]) -> Measured:
    """Return the table of models that just miss their target."""
    rows, saved = [], []
    for name, cases in found.items():
        for case in cases:
            rates = [f"{accepted / case.tries:.4f}" for accepted in case.accepted.values()]
            limit = upper_limit(case.accepted[OURS], case.tries)
            rows.append(
                [name, f"{case.n_test:,}", f"{case.epsilon:g}", f"{case.eta:g}", *rates, f"{limit:.4f}"]
            )
            saved.append({"pipeline": name, "limit": limit, **case.to_json()})
    tries = next(iter(found.values()))[0].tries
    return {
        "table": "sage: models that just miss their target",
        "said": f"share of {tries:,} test sets on which the model is accepted; limit: upper 95 % of ours",
        "header": ["model", "test rows", "ε", "η", *VALIDATORS, "limit"],
        "rows": rows,
        "found": saved,
    }


def quality(
    pipeline: Pipeline, sizes: Sequence[int], epsilons: Sequence[float | None], losses: Floats, unit: str
) -> tuple[Measured, Panel]:
    """Return table and panel of expected losses of shape (sizes, epsilons, seeds)."""
    names = [NON_PRIVATE if epsilon is None else f"ε = {epsilon:g}" for epsilon in epsilons]
    wrong = pipeline.metric == "accuracy"
    values, naive = (1 - losses, 1 - pipeline.naive()) if wrong else (losses, pipeline.naive())
    rows = [[f"{n:,}", *(shown(values[i, j], ".4f") for j in range(len(names)))] for i, n in enumerate(sizes)]
    table = {
        "table": f"sage: {pipeline.name}",
        "said": f"{unit}; naive answer {naive:.4f}; {len(pipeline.population):,} rows are the population; "
        f"{losses.shape[2]} seeds",
        "header": ["rows", *names],
        "rows": rows,
        "found": {"sizes": list(sizes), "lines": names, "values": values.tolist(), "naive": naive},
    }
    lines = {
        name: [(float(n), *mean_and_half(values[i, j])) for i, n in enumerate(sizes)]
        for j, name in enumerate(names)
    }
    scale = "linear" if wrong else "log"
    return table, Panel(pipeline.name, "rows", unit, lines, {"naive answer": naive}, ("log", scale))


def needs(
    pipeline: Pipeline, plan: Plan, found: Mapping[tuple[str, float], Accepted], eta: float
) -> tuple[Measured, Panel]:
    """Return table and panel of the rows to ACCEPT, for each target."""
    wrong = pipeline.metric == "accuracy"
    rows: list[list[str]] = []
    lines: dict[str, list[tuple[float, float, float]]] = {name: [] for name in VALIDATORS}
    saved = []
    for at, target in enumerate(plan.targets):
        cells, goal = [], 1 - target if wrong else target
        for name in VALIDATORS:
            accepted = found[name, eta]
            share = float(np.mean([looks[at] >= 0 for looks in accepted.looks]))
            sizes = accepted.rows(plan.looks, at)
            known = sizes[~np.isnan(sizes)]
            if share == 1:
                lines[name].append((goal, *mean_and_half(known)))
            cells.append(shown(known) if share == 1 else f"{100 * share:.0f} % accepted")
            saved.append({"target": goal, "validator": name, "share": share, "rows": known.tolist()})
        rows.append([f"{goal:.4f}", *cells])
    metric = "accuracy" if wrong else "mean squared error"
    table = {
        "table": f"sage: rows to ACCEPT, {pipeline.name}",
        "said": f"training and test together, η = {eta:g}; {plan.seeds} seeds; "
        "a share where not every run was accepted",
        "header": [f"target ({metric})", *VALIDATORS],
        "rows": rows,
        "found": saved,
    }
    return table, Panel(
        pipeline.name,
        f"target, {metric}",
        "rows to ACCEPT",
        lines,
        scales=("linear" if wrong else "log", "log"),
    )


def block_quality(
    found: Mapping[float, Mapping[str, list[list[float]]]], trained: Sequence[int]
) -> tuple[Measured, list[Panel]]:
    """Return table and panels of losses, for noise once or for each block."""
    names = list(next(iter(found.values())))
    rows, panels = [], []
    for epsilon, lines in found.items():
        for at, n in enumerate(trained):
            rows.append([f"{epsilon:g}", f"{n:,}", *(shown(lines[name][at], ".5f") for name in names)])
        points = {
            name: [(float(n), *mean_and_half(lines[name][at])) for at, n in enumerate(trained)]
            for name in names
        }
        panels.append(Panel(f"training, ε = {epsilon:g}", "rows", "mean squared error", points))
    seeds = len(next(iter(found.values()))[names[0]][0])
    return {
        "table": "sage: one draw or one for each block, quality",
        "said": f"mean squared error of a linear regression on taxi trips; {seeds} seeds",
        "header": ["ε", "rows", *names],
        "rows": rows,
        "found": [{"epsilon": epsilon, **lines} for epsilon, lines in found.items()],
    }, panels


def block_needs(
    found: Mapping[float, Mapping[str, list[list[float]]]], excess: Sequence[float]
) -> tuple[Measured, list[Panel]]:
    """Return table and panels of the rows to ACCEPT, for noise once or for each block."""
    names = list(next(iter(found.values())))
    rows, panels = [], []
    for epsilon, lines in found.items():
        points: dict[str, list[tuple[float, float, float]]] = {name: [] for name in names}
        for at, times in enumerate(excess):
            cells = []
            for name in names:
                sizes = np.array(lines[name][at])
                known = sizes[~np.isnan(sizes)]
                whole = len(known) == len(sizes)
                cells.append(shown(known) if whole else f"{len(known)} of {len(sizes)} seeds")
                if whole:
                    points[name].append((times, *mean_and_half(known)))
            rows.append([f"{epsilon:g}", f"{times:.2f}", *cells])
        title = f"validation, ε = {epsilon:g}"
        panels.append(
            Panel(
                title,
                "target, in the model's expected loss",
                "rows to ACCEPT",
                points,
                scales=("linear", "log"),
            )
        )
    return {
        "table": "sage: one draw or one for each block, rows to ACCEPT",
        "said": "training and test together; target in the model's expected loss; the same model in each column",
        "header": ["ε", "target", *names],
        "rows": rows,
        "found": [{"epsilon": epsilon, **lines} for epsilon, lines in found.items()],
    }, panels


def releases(found: Sequence[Waits]) -> tuple[Measured, Panel]:
    """Return table and panel of release times."""
    policies = list(dict.fromkeys(one.policy for one in found))
    rates = sorted({one.rate for one in found})
    at = {(one.policy, one.rate): one for one in found}

    def cell(policy: str, rate: float) -> str:
        one = at.get((policy, rate))
        if one is None:
            return "not run"
        return shown(one.hours, ".1f") + ("" if one.released >= 0.9995 else f" ({100 * one.released:.1f} %)")

    points = {p: [(r, *mean_and_half(at[p, r].hours)) for r in rates if (p, r) in at] for p in policies}
    return {
        "table": "sage: release times",
        "said": f"hours to release; the share released where it is below 100 %; {len(found[0].runs)} seeds",
        "header": ["PTKs an hour", *policies],
        "rows": [[f"{rate:g}", *(cell(policy, rate) for policy in policies)] for rate in rates],
        "found": [
            {"policy": o.policy, "rate": o.rate, "hours": o.hours, "released": o.released} for o in found
        ],
    }, Panel("release times", "PTKs an hour", "hours to release", points, scales=("linear", "log"))


def release_ratios(found: Sequence[Waits], pairs: Sequence[tuple[str, str]]) -> Measured:
    """Return the table of ratios of the times of two policies on the same PTKs, seed by seed."""
    at = {(one.policy, one.rate): np.array(one.hours) for one in found}
    rates = sorted({one.rate for one in found})

    def cell(rate: float, ours: str, theirs: str) -> str:
        both = (ours, rate) in at and (theirs, rate) in at
        return shown(at[ours, rate] / at[theirs, rate], ".2f") if both else "not run"

    return {
        "table": "sage: ratios of release times",
        "said": f"hours to release of the first policy in parts of the second's, on the same PTKs; "
        f"{len(found[0].runs)} seeds",
        "header": ["PTKs an hour", *(f"{ours} / {theirs}" for ours, theirs in pairs)],
        "rows": [[f"{rate:g}", *(cell(rate, *pair) for pair in pairs)] for rate in rates],
    }
