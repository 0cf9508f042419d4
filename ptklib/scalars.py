"""Single Python and numpy objects: which of them are numbers, and which are texts."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeGuard

import numpy as np

from ptklib.exceptions import InvalidParameterError, PrivacyParameterError


def is_integer(value: object) -> TypeGuard[int | np.integer[Any]]:
    """Return whether an object is an integer of Python or numpy; booleans are not.

    numpy counts its ``timedelta64`` among the signed integers. A length of time is no number.
    """
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def number_of(value: object) -> int | float | None:
    """Return an integer, a float or a decimal number as an int or a float, and None for everything else.

    Booleans are no numbers here. A decimal number without fractions is an integer; NaN stays NaN.
    """
    if is_integer(value):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value)
    if not isinstance(value, Decimal) or value.is_snan():
        return None
    whole = value.is_finite() and value.adjusted() < _DIGITS and value == value.to_integral_value()
    return int(value) if whole else float(value)


def float_of(value: object) -> float:
    """Return an entry of a column as a float, booleans as 0 and 1; NaN for what is missing, too large or no number."""
    number = int(value) if isinstance(value, bool | np.bool_) else number_of(value)
    try:
        found = math.nan if number is None else float(number)
    except OverflowError:
        return math.nan
    return math.nan if math.isinf(found) and value != found else found


def is_whole(value: float) -> bool:
    """Return whether a float is a whole number within 64-bit integers."""
    return value.is_integer() and abs(value) < 2.0**63


def is_text(value: object) -> TypeGuard[str]:
    """Return whether an entry of a column is a string of UTF-8 of at most `TEXT_BYTES_MAX` bytes."""
    if not isinstance(value, str):
        return False
    try:
        return len(value.encode()) <= TEXT_BYTES_MAX
    except UnicodeEncodeError:
        return False


def whole_number(value: object, name: str, least: int, most: int) -> int:
    """Return `value` when it is an integer from `least` to `most`."""
    if not is_integer(value) or not least <= value <= most:
        raise InvalidParameterError(f"{name} must be an integer from {least} to {most}")
    return int(value)


def finite_number(
    value: object, name: str, error: type[InvalidParameterError] = PrivacyParameterError
) -> float:
    """Return `value` as a float, refusing booleans, strings, NaN and infinities."""
    if not (is_integer(value) or isinstance(value, float | np.floating)):
        raise error(f"{name} must be a number, not {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise error(f"{name} must be finite")
    return number


def positive_fraction(value: float | Fraction, name: str) -> Fraction:
    """Return a positive number as the fraction that it is."""
    exact = value if isinstance(value, Fraction) else Fraction(finite_number(value, name))
    if exact <= 0:
        raise PrivacyParameterError(f"{name} must be positive")
    return exact


def float_above(exact: Fraction) -> float:
    """Return the least float that is not below a fraction."""
    value = float(exact)
    return value if Fraction(value) >= exact else math.nextafter(value, math.inf)


TEXT_BYTES_MAX = 1024
"""Longer strings count as missing: a key is what a table is joined by, not a document."""

_DIGITS = 20
"""More digits than 64-bit integers have; a decimal's exponent could name an integer that fills the memory."""
