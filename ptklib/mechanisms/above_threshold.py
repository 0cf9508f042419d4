"""The sparse vector technique: one noisy threshold after the other, and only answers "above" cost anew."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NoReturn

from ptklib.exceptions import PrivacyParameterError
from ptklib.mechanisms.comparisons import Comparison, clamped
from ptklib.mechanisms.threshold import DrawnThreshold
from ptklib.privacy import PrivacyLoss


class AboveThreshold:
    """Say of one private integer after another whether it is above a threshold; only "above" costs anew.

    Parameters
    ----------
    threshold : int
        Public. A threshold that moves is compared as ``value - threshold`` with 0.
    sensitivity, epsilon, monotonic
        As in `Comparison`.
    pay : callable
        Called with ``loss`` before a noisy threshold is drawn. When it raises, nothing is drawn or compared.

    Attributes
    ----------
    loss : PrivacyLoss
        The event that each call of `pay` gets.

    Raises
    ------
    PrivacyParameterError
        For unusable parameters.

    Notes
    -----
    :Guarantee: epsilon-DP per payment, whatever the number of "below" answers since.
    :Neighbours: streams of values that differ by ``sensitivity`` or less at each place; later values may depend
        on earlier answers.
    :Mechanism: one `DrawnThreshold` after the other.

    The noisy threshold stays in this object: it is not shown, copied or pickled, and a process that lost it pays again.
    Keep a `DrawnThreshold` where one has to outlive the process.
    """

    __slots__ = ("__drawn", "_comparison", "_pay", "_retired", "loss", "threshold")

    def __init__(
        self,
        *,
        threshold: int,
        sensitivity: int,
        epsilon: float | Fraction,
        pay: Callable[[PrivacyLoss], object],
        monotonic: bool = False,
    ) -> None:
        self.threshold = clamped(threshold)
        self._comparison = Comparison(sensitivity, epsilon, monotonic)
        self.loss = self._comparison.loss
        self._pay = pay
        self._retired = False
        self.__drawn: DrawnThreshold | None = None

    def is_above(self, value: int) -> bool:
        """Return whether a private integer is about above the threshold, paying first when a threshold is due.

        Raises
        ------
        PrivacyParameterError
            After `retire`.
        """
        exact = clamped(value)
        if self._retired:
            raise PrivacyParameterError("a retired threshold answers no comparison")
        if self.__drawn is None:
            self.__drawn = DrawnThreshold.draw(self._comparison, pay=self._pay, threshold=self.threshold)
        above = self.__drawn.is_above(exact)
        if above:
            self.__drawn = None
        return above

    def retire(self) -> None:
        """Forget the noisy threshold and answer nothing from now on."""
        self._retired, self.__drawn = True, None

    def __repr__(self) -> str:
        return f"AboveThreshold(threshold={self.threshold}, epsilon={self.loss.epsilon:g})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a noisy threshold is a secret of one object: it is neither copied nor pickled")
