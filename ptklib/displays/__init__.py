"""Displays of released and public values in notebooks: HTML tables, and plots if matplotlib is installed."""

from ptklib.lazy import exports

_EXPORTS = {
    "BarDisplay": "charts",
    "BudgetDisplay": "charts",
    "CurveDisplay": "charts",
}

__all__ = list(_EXPORTS)

__getattr__, __dir__ = exports(__name__, _EXPORTS)
