"""The profile of a PTK: how many samples it needs at which epsilon, for how long this may be used."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from ptklib.displays.charts import CurveDisplay
from ptklib.exceptions import CorruptStateError, InvalidParameterError, PtklibError
from ptklib.privacy import PrivacyLoss, check_epsilon
from ptklib.profiling.answers import (
    Answer,
    Found,
    NeedsMore,
    Unreachable,
    answer_from_json,
    answer_to_json,
)
from ptklib.scalars import finite_number

FORMAT_VERSION = 1

_FIELDS = {
    "format_version",
    "fingerprint",
    "target",
    "loss_bounds",
    "method",
    "evaluation",
    "confidence",
    "made_at",
    "points",
    "loss",
}
_POINT = {"epsilon", "answer", "n", "n_tried"}


class Method(StrEnum):
    """How a profile was made."""

    SAMPLES = "samples"
    FORMULA = "formula"


@dataclass(frozen=True)
class Profile:
    """Samples needed at each epsilon of a grid. DP output: it may be cached, shown and reused.

    Parameters
    ----------
    fingerprint : str
        SHA-256 of the config it is valid for, without epsilon.
    target : float
        In the unit of the loss.
    loss_bounds : tuple of float
        Public range of the loss.
    evaluation : str
        The loss: ``"eval"``, the PTK's own evaluation, or ``"rows"``, its loss of single rows.
    confidence : float
        Of all answers together; 1 for a formula, which is an expectation.
    made_at : int
        Index of the window whose rows it comes from.
    points : tuple of (epsilon, Answer)
        Ascending.
    """

    fingerprint: str
    target: float
    loss_bounds: tuple[float, float]
    method: Method
    evaluation: str
    confidence: float
    made_at: int
    points: tuple[tuple[float, Answer], ...]
    privacy_spent: PrivacyLoss

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The grid."""
        return tuple(epsilon for epsilon, _ in self.points)

    @property
    def risk_at_most(self) -> float:
        """Risk of a model trained as `n_at` says: ``low + 2 (target - low)`` by samples, the target by formula."""
        low = self.loss_bounds[0]
        return self.target if self.method is Method.FORMULA else low + 2 * (self.target - low)

    def at(self, epsilon: float) -> Answer:
        """Return what is known of any epsilon.

        Notes
        -----
        A step function. A training with `epsilon` may use any smaller one. So the answer is the least number
        found at the profiled points up to `epsilon`. Nothing is read off points to the right, nor between
        points: the number never rises with epsilon, and is that of a point at which a model was found. Below
        the grid nothing was tried, except that `Unreachable` is true everywhere.
        """
        wanted = check_epsilon(epsilon)
        answers = [answer for e, answer in self.points if e <= wanted]
        enough = [answer.n for answer in answers if isinstance(answer, Found)]
        if enough:
            return Found(min(enough))
        if any(isinstance(answer, Unreachable) for _, answer in self.points):
            return Unreachable()
        return NeedsMore(max((a.n_tried for a in answers if isinstance(a, NeedsMore)), default=0))

    def n_at(self, epsilon: float) -> int | None:
        """Return the samples needed at `epsilon`, or None when none are known to be enough."""
        answer = self.at(epsilon)
        return answer.n if isinstance(answer, Found) else None

    def menu(self, n_max: float | None = None) -> tuple[tuple[float, int], ...]:
        """Return pairs (epsilon, n) to choose from: rising epsilon, falling n, at most `n_max` samples."""
        pairs: list[tuple[float, int]] = []
        for epsilon in self.epsilons:
            n = self.n_at(epsilon)
            if n is not None and (n_max is None or n <= n_max) and (not pairs or n < pairs[-1][1]):
                pairs.append((epsilon, n))
        return tuple(pairs)

    def plot(self, ax: Any = None) -> CurveDisplay:
        """Draw the samples needed against epsilon; a gap is where none are known to be enough.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The axes to draw on; a new figure by default.
        """
        needed = {f"target {self.target:g}": [self.n_at(epsilon) for epsilon in self.epsilons]}
        return CurveDisplay(self.epsilons, needed, "samples needed").plot(ax)

    def to_json(self) -> dict[str, Any]:
        """Return the profile as plain JSON values."""
        return {
            "format_version": FORMAT_VERSION,
            "fingerprint": self.fingerprint,
            "target": self.target,
            "loss_bounds": list(self.loss_bounds),
            "method": str(self.method),
            "evaluation": self.evaluation,
            "confidence": self.confidence,
            "made_at": self.made_at,
            "points": [{"epsilon": e, **answer_to_json(answer)} for e, answer in self.points],
            "loss": self.privacy_spent.to_json(),
        }

    @classmethod
    def from_json(cls, document: object) -> Self:
        """Read what `to_json` wrote.

        Raises
        ------
        CorruptStateError
            For anything else: other fields, other types, another version, points out of order.
        """
        if not isinstance(document, Mapping) or set(document) != _FIELDS:
            raise CorruptStateError(f"a profile has exactly the fields {', '.join(sorted(_FIELDS))}")
        if document["format_version"] != FORMAT_VERSION or isinstance(document["format_version"], bool):
            raise CorruptStateError("the profile has a format_version that is not known")
        try:
            return cls(
                _fingerprint(document["fingerprint"]),
                finite_number(document["target"], "target"),
                _pair(document["loss_bounds"]),
                Method(document["method"]),
                _evaluation(document["evaluation"]),
                finite_number(document["confidence"], "confidence"),
                check_window(document["made_at"]),
                _points(document["points"]),
                PrivacyLoss.from_json(document["loss"]),
            )
        except CorruptStateError:
            raise
        except (PtklibError, ValueError, TypeError) as error:
            raise CorruptStateError(f"the profile cannot be read: {error}") from None

    def dumps(self) -> str:
        """Return the profile as JSON text."""
        return json.dumps(self.to_json(), sort_keys=True, allow_nan=False)

    @classmethod
    def loads(cls, text: str | bytes) -> Self:
        """Read what `dumps` wrote."""
        try:
            return cls.from_json(json.loads(text))
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
            raise CorruptStateError("the profile is not JSON") from None


def _fingerprint(value: object) -> str:
    if not isinstance(value, str) or len(value) != 64 or not set(value) <= set("0123456789abcdef"):
        raise CorruptStateError("the fingerprint of a profile is a SHA-256")
    return value


def _evaluation(value: object) -> str:
    if value not in ("eval", "rows"):
        raise CorruptStateError("the evaluation of a profile is 'eval' or 'rows'")
    return str(value)


def _pair(value: object) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise CorruptStateError("loss_bounds are a pair")
    low, high = (finite_number(edge, "a loss bound") for edge in value)
    if not low < high:
        raise CorruptStateError("loss_bounds need low < high")
    return low, high


def _points(value: object) -> tuple[tuple[float, Answer], ...]:
    if not isinstance(value, list) or not value:
        raise CorruptStateError("a profile has a list of points")
    points = []
    for point in value:
        if not isinstance(point, Mapping) or not set(point) <= _POINT or "epsilon" not in point:
            raise CorruptStateError("a point of a profile has an epsilon and an answer")
        rest = {name: part for name, part in point.items() if name != "epsilon"}
        points.append((check_epsilon(point["epsilon"]), answer_from_json(rest)))
    _check_order([epsilon for epsilon, _ in points])
    return tuple(points)


def _check_order(epsilons: Iterable[float]) -> None:
    grid = list(epsilons)
    if grid != sorted(set(grid)):
        raise CorruptStateError("the epsilons of a profile ascend")


def check_window(value: object) -> int:
    """Return the index of a window."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidParameterError("a window is an integer")
    return value
