"""Validations: the paid test that a trained state has to pass to become a version (Sage SOSP'19, section 3.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from ptklib.exceptions import InvalidParameterError
from ptkstore.domain.evaluations import RiskMass

ACCEPT, REJECT = "accept", "reject"
"""Decisions of a verdict that end the waiting; the third is `retry`."""


@dataclass(frozen=True, slots=True)
class Validation:
    """The release of one validation of a PTK, by the job `job_id`.

    `window_index` is the newest window whose test set was opened. `look` counts the validations since the last that
    was accepted, from 1 on. `verdict` is the record that the library makes of the two noisy sums in `mass`, with the
    `windows` if these are several. `number` is the version that was elected, 0 if none was.
    """

    ptk_id: str
    job_id: str
    look: int
    window_index: int
    epsilon: float
    mass: RiskMass
    verdict: Mapping[str, Any]
    at: datetime
    number: int = 0

    @property
    def reject_epsilon(self) -> float | None:
        """The loss for least losses of the class beside `epsilon`, on the same rows; None if none were released."""
        minimum = self.verdict.get("minimum")
        return None if minimum is None else float(minimum["epsilon"])

    @property
    def failure(self) -> float:
        """The probability with which its verdict may be wrong."""
        from ptklib.validation.looks import look_failure

        said = self.verdict.get("failure")
        return look_failure(self.verdict["confidence"], self.look) if said is None else float(said)


def since_accepted(validations: Sequence[Validation]) -> tuple[Validation, ...]:
    """Return those after the last that was accepted, of all of a PTK in the order in which they were kept."""
    last = max((place for place, one in enumerate(validations) if one.number), default=-1)
    return tuple(validations[last + 1 :])


@dataclass(frozen=True, slots=True)
class EarlierLooks:
    """Looks at a PTK since its last accepted version: how many, and how probably one of them may be wrong.

    Their probabilities and that of the next look stay below ``1 - confidence`` together, whatever the confidence of a
    look was (differences.md S4).
    """

    number: int = 0
    failure: float = 0.0

    @classmethod
    def of(cls, validations: Sequence[Validation]) -> Self:
        """Add up looks whose verdicts are known."""
        return cls(len(validations), sum(one.failure for one in validations))

    def and_forgotten(self, n: int, confidence: float) -> Self:
        """Return the looks with so many more, of which nothing is known: they count as looks of this confidence.

        The number ends at `LOOKS_MOST`: no look follows then.
        """
        from ptklib.validation.looks import LOOKS_MOST, spent_after

        if n <= 0 or not self.leaves_room(confidence):
            return self
        failure = spent_after(confidence, n, self.number, self.failure)
        return type(self)(min(self.number + n, LOOKS_MOST), failure)

    def leaves_room(self, confidence: float) -> bool:
        """Return whether another look of this confidence can accept anything."""
        from ptklib.validation.looks import next_failure

        try:
            next_failure(confidence, self.number + 1, self.failure)
        except InvalidParameterError:
            return False
        return True
