"""Profiles of PTKs: how many samples they need at which epsilon, found with differential privacy."""

from importlib import import_module
from typing import Any

_EXPORTS = {
    "Answer": "answers",
    "DriftTest": "drift",
    "ErrorForecast": "forecasts",
    "ExactRisk": "risks",
    "Facts": "closed_form",
    "Found": "answers",
    "HashRange": "samples",
    "HashedRows": "samples",
    "LossEstimate": "estimates",
    "LossEstimator": "estimation",
    "Method": "profile",
    "NeedsMore": "answers",
    "Profile": "profile",
    "ProfileSet": "samples",
    "Profiler": "profiler",
    "RowRisk": "risks",
    "TeamPtk": "subjects",
    "Unreachable": "answers",
    "cautious_facts": "closed_form",
    "error_forecast": "forecasts",
    "expected_error": "closed_form",
    "facts_from": "closed_form",
    "facts_json": "closed_form",
    "facts_of": "closed_form",
    "fingerprint_of": "fingerprint",
    "formula_profile": "closed_form",
    "risk_of": "risks",
}

__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    """Load an exported name on first use: who reads a cached profile needs no family."""
    if name not in _EXPORTS:
        raise AttributeError(f"module 'ptklib.profiling' has no attribute {name!r}")
    return getattr(import_module(f"ptklib.profiling.{_EXPORTS[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_EXPORTS])
