"""Private selection: which candidate scores highest."""

from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from ptklib.arrays import Ints
from ptklib.events import ExponentialMechanism, PermuteAndFlip, Selection
from ptklib.exceptions import PrivacyParameterError
from ptklib.mechanisms.additive import laplace_scale, opendp, positive_integer
from ptklib.mechanisms.recording import note


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
        alike has a lower expected error [1]_. If many selections are composed, `exponential_mechanism` with
        twice the epsilon costs as much by Rényi accounting.

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
        The first name means `report_noisy_max`.
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
