"""The double-resource allocation: privacy loss, rows and a train partition for every PTK (PTK paper, Fig. 4)."""

from ptkstore.domain.allocation.advice import (
    Need,
    Needs,
    Point,
    Recommendation,
    least_window,
    recommend,
    scaled,
)
from ptkstore.domain.allocation.menus import RowCurve, geometric_grid, menu_of, pinned, within
from ptkstore.domain.allocation.model import (
    Allotment,
    Choice,
    Demand,
    Infeasible,
    Limits,
    Reason,
    Status,
    WindowPlan,
)
from ptkstore.domain.allocation.newcomers import Opening, Remedies, openings, remedies
from ptkstore.domain.allocation.plans import allocate, allocate_partitions, first_feasible

__all__ = [
    "Allotment",
    "Choice",
    "Demand",
    "Infeasible",
    "Limits",
    "Need",
    "Needs",
    "Opening",
    "Point",
    "Reason",
    "Recommendation",
    "Remedies",
    "RowCurve",
    "Status",
    "WindowPlan",
    "allocate",
    "allocate_partitions",
    "first_feasible",
    "geometric_grid",
    "least_window",
    "menu_of",
    "openings",
    "pinned",
    "recommend",
    "remedies",
    "scaled",
    "within",
]
