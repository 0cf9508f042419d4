"""What a PTK asks of each of its versions: a test on rows that it was not trained on (Sage SOSP'19, section 3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ptkstore.domain.accounting.losses import checked_epsilon
from ptkstore.errors import InvalidRequest

METRICS = ("loss",)
"""What may be held against the target: the expected loss of a privacy unit."""

CONFIDENCE = 0.95
EPSILON = 0.05


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Which metric has to reach a PTK's target, how surely, and what one look at a test set costs."""

    metric: str
    confidence: float
    epsilon: float


def acceptance_of(config: Mapping[str, Any]) -> Acceptance | None:
    """Return what `accept` of a PTK's config says; None for one whose versions are released without a test.

    Raises
    ------
    InvalidRequest
        It says something else, or a metric, confidence or epsilon that there is not.
    """
    given = config.get("accept")
    if given is None:
        return None
    if not isinstance(given, Mapping) or not {"metric"} <= set(given) <= {"metric", "confidence", "epsilon"}:
        raise InvalidRequest(
            'accept of a PTK says {"metric": "loss"}, and may say a confidence and an epsilon'
        )
    metric, confidence = given["metric"], given.get("confidence", CONFIDENCE)
    if metric not in METRICS:
        raise InvalidRequest(f"metric of accept is one of {', '.join(METRICS)}, not {metric!r}")
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 < confidence < 1:
        raise InvalidRequest("confidence of accept lies between 0 and 1, without either")
    epsilon = float(checked_epsilon(given.get("epsilon", EPSILON), "epsilon of accept"))
    return Acceptance(metric, float(confidence), epsilon)
