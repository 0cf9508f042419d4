"""How the probability of a false verdict is divided over repeated looks at one target."""

from ptklib.exceptions import InvalidParameterError
from ptklib.scalars import finite_number, whole_number

LOOKS_MOST = 10**6


def check_confidence(value: object) -> float:
    """Return a usable confidence.

    Raises
    ------
    InvalidParameterError
        For anything but a number in (0, 1).
    """
    confidence = finite_number(value, "confidence", InvalidParameterError)
    if not 0 < confidence < 1:
        raise InvalidParameterError("confidence must lie in (0, 1)")
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
