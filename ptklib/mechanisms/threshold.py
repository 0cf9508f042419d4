"""Noisy thresholds: each is paid for, and says once which private value is the first above it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NoReturn, Self

import numpy as np

from ptklib.exceptions import PrivacyParameterError
from ptklib.mechanisms.additive import laplace
from ptklib.mechanisms.comparisons import VALUE_MAX, Comparison, clamped
from ptklib.privacy import PrivacyLoss
from ptklib.scalars import is_integer


class DrawnThreshold:
    """One noisy threshold that was paid for. It answers until its first "above", and then nothing more.

    `draw` makes one, `restore` continues one from its secret. A threshold that moves is compared as
    ``value - threshold`` with 0.

    Attributes
    ----------
    comparison : Comparison
        Public.
    spent : bool
        Whether it has answered "above".

    Notes
    -----
    :Guarantee: epsilon-DP for all answers together, epsilon that of `comparison`.
    :Neighbours: streams of values that differ by ``sensitivity`` or less at each place. Later values may depend on
        earlier answers.
    :Mechanism: discrete Laplace noise on the threshold, drawn once, and fresh discrete Laplace noise on each value
        [1]_; docs/proofs/threshold.md has the proof for integers.

    The object cannot be copied or pickled, because two copies would answer "above" twice for one payment. The bytes of
    `secret` are as private as the rows: keep them encrypted, and destroy them with the rows. Store them anew before
    anybody sees an answer "above", so that no older bytes continue a threshold that was used up.

    References
    ----------
    .. [1] Lyu, Su, Li: Understanding the Sparse Vector Technique, 2017, Algorithm 7 with c = 1.
    """

    __slots__ = ("__noisy", "comparison")

    def __init__(self, comparison: Comparison, noisy: int | None) -> None:
        self.comparison = comparison
        self.__noisy = noisy

    @classmethod
    def draw(
        cls, comparison: Comparison, *, pay: Callable[[PrivacyLoss], object], threshold: int = 0
    ) -> Self:
        """Pay, and then draw the noise. When `pay` raises, nothing is drawn."""
        exact = clamped(threshold)
        pay(comparison.loss)
        return cls(comparison, _noised([exact], comparison.sensitivity, comparison.for_threshold)[0])

    @property
    def spent(self) -> bool:
        """Whether it has answered "above"."""
        return self.__noisy is None

    def is_above(self, value: int) -> bool:
        """Return whether a private integer is about above the threshold.

        Raises
        ------
        PrivacyParameterError
            When the threshold is spent.
        """
        return first_above([self], [value], most=1)[0]

    def _answer(self, noisy_value: int) -> bool:
        """Compare a value to which fresh noise was added."""
        if self.__noisy is None:
            raise PrivacyParameterError("a threshold that has answered above answers no other comparison")
        above = noisy_value >= self.__noisy
        if above:
            self.__noisy = None
        return above

    def forget(self) -> None:
        """Drop the noise. The threshold answers nothing from now on."""
        self.__noisy = None

    def secret(self) -> bytes:
        """Return the state as JSON, to be kept encrypted. A spent threshold has no noise in it.

        Secrets of one comparison are equally long, so that an encrypted one does not tell how large its noise is.
        """
        part, whole = Fraction(self.comparison.epsilon).as_integer_ratio()
        text = json.dumps(
            {
                "epsilon": [part, whole],
                "monotonic": self.comparison.monotonic,
                "noisy": self.__noisy,
                "sensitivity": self.comparison.sensitivity,
            },
            sort_keys=True,
        )
        return (text + " " * (len(str(-VALUE_MAX)) - len(json.dumps(self.__noisy)))).encode()

    @classmethod
    def restore(cls, secret: bytes) -> Self:
        """Continue from `secret`. Pays nothing, because the payment came before the noise.

        Raises
        ------
        PrivacyParameterError
            For any other bytes. The message has nothing of them.
        """
        try:
            found: Any = json.loads(secret)
            if set(found) != {"epsilon", "monotonic", "noisy", "sensitivity"}:
                raise ValueError
            part, whole = found["epsilon"]
            noisy = found["noisy"]
            if not (is_integer(part) and is_integer(whole) and isinstance(found["monotonic"], bool)):
                raise ValueError
            comparison = Comparison(found["sensitivity"], Fraction(int(part), int(whole)), found["monotonic"])
            return cls(comparison, None if noisy is None else clamped(noisy))
        except (ValueError, TypeError, ZeroDivisionError, RecursionError):
            raise PrivacyParameterError("these bytes are no secret of a noisy threshold") from None

    def __repr__(self) -> str:
        return f"DrawnThreshold(epsilon={float(self.comparison.epsilon):g}, spent={self.spent})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a noisy threshold is a secret of one object: it is neither copied nor pickled")


def first_above(thresholds: Sequence[DrawnThreshold], values: Sequence[int], *, most: int) -> list[bool]:
    """Compare each value with its threshold, one after the other, until `most` are above.

    Parameters
    ----------
    thresholds : sequence of DrawnThreshold
        Different ones, not spent, all with the same `Comparison`.
    values : sequence of int
        Private, one for each.

    Returns
    -------
    list of bool
        An answer for each comparison that was made; those after the last of `most` were not.

    Notes
    -----
    The noise of all comparisons is drawn at once, which is faster. Noise of comparisons that are not made is dropped.
    """
    if len(thresholds) != len(values) or most < 1:
        raise PrivacyParameterError("each threshold needs one value, and at least one may be above")
    if not thresholds:
        return []
    comparison = thresholds[0].comparison
    if len({id(one) for one in thresholds}) < len(thresholds) or any(
        one.spent or one.comparison != comparison for one in thresholds
    ):
        raise PrivacyParameterError("thresholds must be different ones of one comparison that are not spent")
    noisy = _noised([clamped(value) for value in values], comparison.moves, comparison.for_values)
    answers: list[bool] = []
    for threshold, value in zip(thresholds, noisy, strict=True):
        answers.append(threshold._answer(value))
        most -= answers[-1]
        if not most:
            break
    return answers


def _noised(exact: list[int], sensitivity: int, epsilon: Fraction) -> list[int]:
    """Add noise of scale ``sensitivity / epsilon`` to each integer by itself."""
    units = np.array(exact, dtype=np.int64)
    return [int(one) for one in laplace(units, l1_sensitivity=sensitivity, epsilon=epsilon)]
