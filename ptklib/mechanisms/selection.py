"""Private selection: which candidate scores highest, and when a value first exceeds a threshold."""

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

from ptklib import events
from ptklib.arrays import Ints
from ptklib.events import ExponentialMechanism, PermuteAndFlip, Selection
from ptklib.exceptions import PrivacyParameterError
from ptklib.mechanisms.additive import laplace, laplace_scale, opendp, positive_integer
from ptklib.mechanisms.recording import note
from ptklib.privacy import PrivacyLoss
from ptklib.scalars import float_above, is_integer, positive_fraction

_VALUE_MAX = 2**62
"""Clamping to it moves no two values apart, so it is free; noise cannot overflow above it."""

_QUERY_SHARE = {False: Fraction(613, 1000), True: Fraction(1, 2)}
"""Share of epsilon for the noise on values: 2**(2/3) to 1 is the best split, 1 to 1 for monotonic values."""


def report_noisy_max(
    scores: Ints, *, sensitivity: int, epsilon: float | Fraction, monotonic: bool = False
) -> int:
    """Return the index of a candidate with about the highest score, by permute-and-flip.

    Parameters
    ----------
    scores : ndarray of shape (n_candidates,), int64
        At least one; the number of candidates is public.
    sensitivity : int
        A neighbouring dataset moves each score by at most this much.
    monotonic : bool, default False
        Whether one more row moves all scores in the same direction (counts do); half the noise is enough then.

    Notes
    -----
    :Guarantee: epsilon-DP.
    :Neighbours: score vectors at L-infinity distance ``sensitivity`` or less.
    :Mechanism: permute-and-flip [1]_, the same law as reporting the highest score plus exponential noise [2]_,
        by OpenDP, exactly: equal scores are equally likely. No epsilon-DP selection that treats candidates
        alike has a lower expected error [1]_. Where many selections are composed, `exponential_mechanism`
        with twice the epsilon costs as much by Rényi accounting.

    References
    ----------
    .. [1] McKenna, Sheldon: Permute-and-Flip, 2020, Theorems 1 and 3.
    .. [2] Ding, Kifer, Steinke, Wang, Xiao, Zhang: The Permute-and-Flip Mechanism is Identical to
       Report-Noisy-Max with Exponential Noise, 2021.
    """
    return _select("PermuteAndFlip", scores, sensitivity, epsilon, monotonic)


def exponential_mechanism(
    scores: Ints, *, sensitivity: int, epsilon: float | Fraction, monotonic: bool = False
) -> int:
    """Return index i with probability proportional to ``exp(scores[i] / scale)``.

    Parameters
    ----------
    scores, sensitivity, epsilon, monotonic
        As for `report_noisy_max`.

    Notes
    -----
    :Guarantee: epsilon-DP, and epsilon-bounded range: so ``epsilon**2 / 8``-zCDP [1]_, a quarter of what
        other epsilon-DP selection costs where many are composed.
    :Neighbours: score vectors at L-infinity distance ``sensitivity`` or less.
    :Mechanism: the exponential mechanism with ``scale = 2 sensitivity / epsilon``, half of it for monotonic
        scores, by OpenDP, exactly.

    References
    ----------
    .. [1] Cesar, Rogers: Bounding, Concentrating, and Truncating, 2021, Lemma 3.4.
    """
    return _select("ExponentialMechanism", scores, sensitivity, epsilon, monotonic)


def selection_event(
    name: str, *, n_candidates: int, sensitivity: int, epsilon: float | Fraction, monotonic: bool = False
) -> Selection:
    """Return the event of one selection, before any score is known.

    Parameters
    ----------
    name : {"PermuteAndFlip", "ExponentialMechanism"}
        The first stands for `report_noisy_max`.
    sensitivity, epsilon, monotonic
        As for `report_noisy_max`.
    """
    kind = {"PermuteAndFlip": PermuteAndFlip, "ExponentialMechanism": ExponentialMechanism}.get(name)
    if kind is None:
        raise PrivacyParameterError("a selection is PermuteAndFlip or ExponentialMechanism")
    return kind(
        scale=_selection_scale(sensitivity, epsilon, monotonic),
        sensitivity=positive_integer(sensitivity, "sensitivity"),
        monotonic=bool(monotonic),
        shape=(positive_integer(n_candidates, "n_candidates"),),
    )


class AboveThreshold:
    """Say of one private integer after another whether it is above a threshold; only "above" costs anew.

    Parameters
    ----------
    threshold : int
        Public. A threshold that moves is compared as ``value - threshold`` with 0.
    sensitivity : int
        A neighbouring dataset moves each value by at most this much.
    epsilon : float or Fraction
        What is paid for each noisy threshold.
    pay : callable
        Called with ``loss`` before a noisy threshold is drawn. When it raises, nothing is drawn or compared.
    monotonic : bool, default False
        Whether one more row moves all values in the same direction.

    Attributes
    ----------
    loss : PrivacyLoss
        What each call of `pay` is asked for.

    Raises
    ------
    PrivacyParameterError
        For unusable parameters.

    Notes
    -----
    :Guarantee: epsilon-DP per payment, whatever the number of "below" answers since.
    :Neighbours: streams of values that differ by ``sensitivity`` or less at each place; later values may depend
        on earlier answers.
    :Mechanism: discrete Laplace noise on the threshold, drawn once and kept until the first "above", and fresh
        discrete Laplace noise on each value [1]_; docs/proofs/selection.md has the proof for integers.

    The noisy threshold is a secret: it is not shown, copied or pickled (a copy would answer "above" twice for
    one payment), and a process that lost it pays again.

    References
    ----------
    .. [1] Lyu, Su, Li: Understanding the Sparse Vector Technique, 2017, Algorithm 7 with c = 1.
    """

    __slots__ = (
        "__noisy_threshold",
        "_monotonic",
        "_parts",
        "_pay",
        "_retired",
        "_sensitivity",
        "loss",
        "threshold",
    )

    def __init__(
        self,
        *,
        threshold: int,
        sensitivity: int,
        epsilon: float | Fraction,
        pay: Callable[[PrivacyLoss], object],
        monotonic: bool = False,
    ) -> None:
        self.threshold = _integer(threshold)
        self._sensitivity = positive_integer(sensitivity, "sensitivity")
        self._monotonic = bool(monotonic)
        self._parts = _parts(epsilon, self._monotonic)
        self._pay = pay
        self._retired = False
        self.__noisy_threshold: int | None = None
        event = above_threshold_event(sensitivity=sensitivity, epsilon=epsilon, monotonic=monotonic)
        self.loss = PrivacyLoss(float_above(sum(self._parts, Fraction(0))), 0.0, event)

    def is_above(self, value: int) -> bool:
        """Return whether a private integer is about above the threshold, paying first when a threshold is due.

        Raises
        ------
        PrivacyParameterError
            After `retire`.
        """
        exact = _integer(value)
        if self._retired:
            raise PrivacyParameterError("a retired threshold answers no comparison")
        for_threshold, for_values = self._parts
        if self.__noisy_threshold is None:
            self._pay(self.loss)
            self.__noisy_threshold = _noisy(self.threshold, self._sensitivity, for_threshold)
        moves = self._sensitivity if self._monotonic else 2 * self._sensitivity
        above = _noisy(exact, moves, for_values) >= self.__noisy_threshold
        if above:
            self.__noisy_threshold = None
        return above

    def retire(self) -> None:
        """Forget the noisy threshold and answer nothing from now on."""
        self._retired, self.__noisy_threshold = True, None

    def __repr__(self) -> str:
        return f"AboveThreshold(threshold={self.threshold}, epsilon={self.loss.epsilon:g})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a noisy threshold is a secret of one object: it is neither copied nor pickled")


def above_threshold_event(
    *, sensitivity: int, epsilon: float | Fraction, monotonic: bool = False
) -> events.AboveThreshold:
    """Return the event of one noisy threshold of `AboveThreshold`."""
    moved = positive_integer(sensitivity, "sensitivity")
    for_threshold, for_values = _parts(epsilon, monotonic)
    return events.AboveThreshold(
        threshold_scale=laplace_scale(l1_sensitivity=moved, epsilon=for_threshold),
        value_scale=laplace_scale(l1_sensitivity=moved if monotonic else 2 * moved, epsilon=for_values),
        sensitivity=moved,
        monotonic=bool(monotonic),
    )


def _select(
    name: str,
    scores: Ints,
    sensitivity: int,
    epsilon: float | Fraction,
    monotonic: bool,
) -> int:
    scale = _selection_scale(sensitivity, epsilon, monotonic)
    exact = np.asarray(scores)
    if exact.dtype != np.int64 or exact.ndim != 1:
        raise TypeError("scores are a vector of int64")
    if not len(exact):
        raise PrivacyParameterError("a selection needs at least one candidate")
    note(name, scale, exact.size)
    return int(_measurement(name, scale)(np.ascontiguousarray(exact)))


@lru_cache(maxsize=256)
def _measurement(name: str, scale: float) -> Any:
    """Return OpenDP's measurement; without the monotonic flag, which only matters to its privacy map."""
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    # Its selection is permute-and-flip under max-divergence and the exponential mechanism under zCDP.
    measure = dp.max_divergence() if name == "PermuteAndFlip" else dp.zero_concentrated_divergence()
    return dp.m.make_noisy_max(*space, measure, scale=scale)


def _selection_scale(sensitivity: int, epsilon: float | Fraction, monotonic: bool) -> float:
    moved = positive_integer(sensitivity, "sensitivity")
    return laplace_scale(l1_sensitivity=moved if monotonic else 2 * moved, epsilon=epsilon)


def _parts(epsilon: float | Fraction, monotonic: bool) -> tuple[Fraction, Fraction]:
    whole = positive_fraction(epsilon, "epsilon")
    for_values = whole * _QUERY_SHARE[bool(monotonic)]
    return whole - for_values, for_values


def _integer(value: object) -> int:
    if not is_integer(value):
        raise PrivacyParameterError("values and thresholds are integers")
    return max(-_VALUE_MAX, min(int(value), _VALUE_MAX))


def _noisy(exact: int, sensitivity: int, epsilon: Fraction) -> int:
    return int(laplace(np.array([exact], dtype=np.int64), l1_sensitivity=sensitivity, epsilon=epsilon)[0])
