"""Tables of profiles, allocations and what a model loses by them, as rows of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from _common import profiled
from _common.allocated import Allocation
from _common.curves import Curves
from _common.served import Served
from _common.team import MANY_PARTITIONS, Team
from _common.thirteen import CLUSTERS, LEVELS
from ptkstore.application.planning.window_plans import PlannedTraining
from ptkstore.domain.allocation.model import Infeasible, WindowPlan

Table = dict[str, Any]
EMPTY_RUNS = 5


def profiles(team: Team) -> Table:
    """Return what profiles found: rows at some epsilons, for either level."""
    shown = (0.05, 0.1, 0.2, 0.5)
    rows = []
    for ptk in team.ptks:
        runs = [ptk.trained(team.window.rows.head(0), 1.0) for _ in range(EMPTY_RUNS)]
        empty = np.mean([ptk.error(fitted, team.window.rows) for fitted in runs])
        for level in LEVELS:
            menu = team.found.menu(ptk, level)
            enough = [min((n for e, n in menu if e <= epsilon), default=None) for epsilon in shown]
            method = "samples" if ptk.kind == CLUSTERS else "formula"
            rows.append(
                [ptk.name, method, level, f"{ptk.targets[level]:g}"]
                + ["-" if n is None else f"{n:,}" for n in enough]
                + [f"{empty / (ptk.allowed * ptk.targets[level]):.1f}"]
            )
    return _table(
        f"{team.name}: profiles",
        f"rows to the target; *no trips*: the error of a training on none, at epsilon 1, over what is allowed; "
        f"{team.window.n_public:,} rows expected, {team.window.profile_share:.0%} of them profile; epsilon "
        f"{profiled.cost(team.ptks):g} of the profile set's 1 for one level of targets, "
        f"{profiled.drawn(team.ptks):g} drawn for both",
        ["PTK", "profile by", "targets", "tau", *(f"ε = {e:g}" for e in shown), "no trips"],
        rows,
    )


def allotments(team: Team, line: str, found: Allocation) -> Table:
    """Return the paper's Table 3 for one line, with the error that trained PTKs had."""
    level = line.split(",")[0]
    granted, errors = found.allotments(), team.errors.get(line, {})
    rows = []
    for ptk in team.ptks:
        allotment, missed = granted[ptk.name], errors.get(ptk.name)
        over = "-" if not missed else f"{np.mean(missed) / (ptk.allowed * ptk.targets[level]):.2f}"
        rows.append(
            [
                *(ptk.name, ptk.kind, f"{ptk.targets[level]:g}"),
                *(
                    f"{allotment.n_rows:,}",
                    f"{allotment.loss.epsilon:.3g}",
                    str(allotment.partition + 1),
                    over,
                ),
            ]
        )
    if not isinstance(found.plan, WindowPlan):
        raise ValueError("a table of grants needs a plan")
    first = found.first.total_rows if isinstance(found.first, WindowPlan) else None
    first_k = found.first.partitions_used if isinstance(found.first, WindowPlan) else 0
    rows.append(["total", "", "", f"{found.plan.total_rows:,}", "", str(found.plan.partitions_used), ""])
    return _table(
        f"{team.name}: {line}",
        f"first feasible K = {first_k}: {'-' if first is None else f'{first:,}'} rows; no plan opens fewer than "
        f"{found.bound:,}; losses add up at {_place(found.coordinate)}",
        ["PTK", "type", "tau", "n_i", "ε_i", "k", "error over allowed"],
        rows,
    )


def of_service(team: Team, line: str, found: Mapping[str, Served]) -> Table:
    """Return what a service granted, as its manifests say it."""
    level = line.split(",")[0]
    rows, opened, later = [], {}, {}
    for ptk in team.ptks:
        one = found[ptk.name]
        missed = ptk.error(one.fitted, team.window.rows) / (ptk.allowed * ptk.targets[level])
        rows.append(
            [
                *(ptk.name, ptk.kind, f"{ptk.targets[level]:g}", f"{one.n_rows:,}", f"{one.epsilon:.3g}"),
                *(str(one.partition + 1), f"{missed:.2f}"),
                *_of_plan(one.following),
            ]
        )
        opened[one.partition] = max(opened.get(one.partition, 0), one.n_rows)
        if (next_one := one.following) is not None:
            part = next_one.partition
            later[part] = max(later.get(part, 0), next_one.offer.n_rows)
    after = [f"{sum(later.values()):,}", "", str(len(later))] if later else ["-"] * 3
    rows.append(["total", "", "", f"{sum(opened.values()):,}", "", str(len(opened)), "", *after])
    return _table(
        f"{team.name}: {line}",
        "as the manifests say; *next*: what the window after it is planned with, by what these versions tell",
        ["PTK", "type", "tau", "n_i", "ε_i", "k", "error over allowed", "next n_i", "next ε_i", "next k"],
        rows,
    )


def _of_plan(one: PlannedTraining | None) -> list[str]:
    if one is None:
        return ["-"] * 3
    return [f"{one.offer.n_rows:,}", f"{one.offer.loss.epsilon:.3g}", str(one.partition + 1)]


def _place(coordinate: str) -> str:
    return "epsilons themselves" if coordinate == "epsilon" else f"order {coordinate}"


def penalties(team: Team, curves: Curves) -> Table:
    """Return by how many percent each line's loss is above that of the best one, by share."""
    means = curves.losses.mean(axis=-1)
    rows = []
    for i, line in enumerate(curves.lines):
        cells = []
        for j in range(len(curves.n_rows)):
            best = int(means[:, j].argmin())
            by_row = curves.row_losses[i, j] - curves.row_losses[best, j]
            by_seed = curves.losses[i, j] - curves.losses[best, j]
            variance = sum(d.var(ddof=1) / len(d) for d in (by_row, by_seed) if len(d) > 1)
            scale = 100 / means[best, j]
            cells.append(
                "best" if i == best else f"{by_row.mean() * scale:+.2f} ± {np.sqrt(variance) * scale:.2f}"
            )
        rows.append([line, *cells, f"{means[i, -1]:.4f}"])
    return _table(
        f"{team.name}: loss over the best",
        f"percent above the best line, by rows of the team's own; {curves.losses.shape[-1]} seeds",
        ["line", *(f"{n:,} rows" for n in curves.n_rows), f"{curves.task.loss}, {curves.n_rows[-1]:,} rows"],
        rows,
    )


def refusals(name: str, why: Mapping[str, str]) -> Table:
    """Return what was refused, and why."""
    return _table(
        f"{name}: refused", "no plan", ["targets", "reason"], [[line, text] for line, text in why.items()]
    )


def _table(name: str, said: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    return {"table": name, "said": said, "header": list(header), "rows": [list(row) for row in rows]}


def by_count(team: Team, accountant: str, points: Sequence[tuple[int, Allocation]]) -> Table:
    """Return rows by the number of PTKs."""
    rows = []
    for count, point in points:
        if isinstance(point.plan, Infeasible) or isinstance(point.first, Infeasible):
            rows.append([str(count), "-", "-", "-", "-", "-", "-", "-"])
            continue
        ours, first = point.plan.total_rows, point.first.total_rows
        rows.append(
            [
                *(str(count), str(point.first.partitions_used), f"{first:,}"),
                *(str(point.plan.partitions_used), f"{ours:,}", f"{point.bound:,}"),
                *(f"{first / ours:.2f}", f"{ours / point.bound:.3f}"),
            ]
        )
    header = [
        "PTKs",
        "first feasible K",
        "rows",
        "K chosen",
        "rows",
        "lower bound",
        "first / ours",
        "ours / bound",
    ]
    return _table(f"{team.name}: rows by PTKs, {accountant}", f"K up to {MANY_PARTITIONS}", header, rows)
