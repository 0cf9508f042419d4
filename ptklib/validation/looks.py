"""How the probability of a false verdict is divided over repeated looks at one target."""

from dataclasses import dataclass
from typing import Self

from ptklib.exceptions import InvalidParameterError
from ptklib.scalars import finite_number, whole_number

LOOKS_MOST = 10**6
DEFAULT_CONFIDENCE = 0.95


def check_confidence(value: object) -> float:
    """Return a usable confidence.

    Raises
    ------
    InvalidParameterError
        For anything but a number in (0, 1).
    """
    confidence = finite_number(value, "confidence", InvalidParameterError)
    if not 0 < confidence < 1:
        raise InvalidParameterError("confidence must be in (0, 1)")
    return confidence


def check_look(value: object) -> int:
    """Return the number of a look: 1 for the first."""
    return whole_number(value, "look", 1, LOOKS_MOST)


def look_failure(confidence: object, look: object) -> float:
    """Return the probability with which look number `look` may be wrong.

    Notes
    -----
    With ``eta = 1 - confidence``, look i gets ``eta / (i (i + 1))``. The sum over all looks is eta, because
    ``1 / (i (i + 1)) = 1 / i - 1 / (i + 1)``. So a pipeline may retry as often as it likes, and the
    number of looks need not be known beforehand.
    """
    number = check_look(look)
    return (1 - check_confidence(confidence)) / (number * (number + 1))


def next_failure(confidence: object, look: object, spent: float | None) -> float:
    """Return the probability with which a look may be wrong, after earlier ones that used `spent` together.

    Parameters
    ----------
    spent : float or None
        The sum of the error probabilities of the looks before this one; None if all had this confidence.

    Raises
    ------
    InvalidParameterError
        If nothing remains: earlier looks had less confidence, and this one asks for more than they leave.

    Notes
    -----
    Look i gets ``(eta - spent) / (i + 1)``. If all looks have one confidence this is `look_failure`, because
    looks 1 to i - 1 use ``eta (1 - 1 / i)``. Whatever the confidence was before, all looks together stay
    below the present eta.
    """
    if spent is None:
        return look_failure(confidence, look)
    left = 1 - check_confidence(confidence) - spent
    if left <= 0:
        raise InvalidParameterError(
            f"earlier looks may be wrong with probability {spent:.4g}, which leaves nothing at this confidence"
        )
    return left / (check_look(look) + 1)


def spent_after(confidence: object, n: int, looks: int, spent: float) -> float:
    """Return what `looks` looks that used `spent` and `n` more of one confidence may be wrong with, added up.

    Parameters
    ----------
    n : int
        How many looks follow, each with what `next_failure` gives it; any number.
    looks : int
        How many looks there were before.

    Notes
    -----
    Look i leaves ``i / (i + 1)`` of what the looks before it left of eta. These factors telescope: n looks
    after the first k leave ``(k + 1) / (k + n + 1)`` of it. If nothing remained before, nothing changes.
    """
    eta = 1 - check_confidence(confidence)
    left = eta - spent
    return spent if left <= 0 else eta - left * (looks + 1) / (looks + n + 1)


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a target.

    Parameters
    ----------
    confidence : float
        Of all looks together.
    number : int
        From 1 on.
    failure : float
        Probability with which this look may be wrong.
    """

    confidence: float
    number: int
    failure: float

    @classmethod
    def of(cls, confidence: object, number: object, spent: float | None = None) -> Self:
        """Return a look after others that used `spent`, as `next_failure` divides the rest."""
        failure = next_failure(confidence, number, spent)
        return cls(check_confidence(confidence), check_look(number), failure)
