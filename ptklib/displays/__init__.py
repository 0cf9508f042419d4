"""Displays of released and public values in notebooks: HTML tables, and plots if matplotlib is installed."""

from importlib import import_module
from typing import Any

_EXPORTS = {
    "BarDisplay": "charts",
    "BudgetDisplay": "charts",
    "CurveDisplay": "charts",
}

__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    """Load an exported name on first use."""
    if name not in _EXPORTS:
        raise AttributeError(f"module 'ptklib.displays' has no attribute {name!r}")
    return getattr(import_module(f"ptklib.displays.{_EXPORTS[name]}"), name)
