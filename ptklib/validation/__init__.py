"""SLAed validation: accept a model only when its target is met with a stated confidence."""

from ptklib.lazy import exports

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

__getattr__, __dir__ = exports(__name__, _EXPORTS)
