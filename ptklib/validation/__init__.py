"""SLAed validation: accept a model only when its target is met with a stated confidence."""

from importlib import import_module
from typing import Any

_EXPORTS = {
    "AcceptTerms": "terms",
    "AccuracyValidator": "loss",
    "Decision": "verdicts",
    "ErrorValidator": "errors",
    "GroupSums": "groups",
    "LossSums": "sums",
    "LossValidator": "loss",
    "MinimumSums": "minimum",
    "MinimumValidator": "minimum",
    "Metric": "verdicts",
    "Verdict": "verdicts",
    "joined": "verdicts",
    "look_failure": "looks",
    "lower_bound": "bounds",
    "next_failure": "looks",
    "upper_bound": "bounds",
    "validation_loss": "minimum",
}

__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    """Load an exported name on first use: a reader of verdicts needs no family."""
    if name not in _EXPORTS:
        raise AttributeError(f"module 'ptklib.validation' has no attribute {name!r}")
    return getattr(import_module(f"ptklib.validation.{_EXPORTS[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_EXPORTS])
