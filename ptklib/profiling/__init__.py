"""Profiles of PTKs: how many samples they need at which epsilon, found with differential privacy."""

from ptklib.lazy import exports

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

__getattr__, __dir__ = exports(__name__, _EXPORTS)
