"""Scores: one number per training, high when a unit seems to be in the data."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ptklib.arrays import Floats
from ptklib.checks.learned import LearnedScore
from ptklib.checks.likelihood_ratios import CERTAIN
from ptklib.checks.rows import Neighbours
from ptklib.checks.trainings import Trainings
from ptklib.checks.transcript import DivergedError, Transcript, record, replay
from ptklib.events import Event, Parallel, PoissonSampled
from ptklib.sums import NoisySums

_SAMPLED, _DIVIDED = 4, 2
"""Replays behind one score where units are sampled, or divided over parallel parts: the sample is secret, so each
replay draws its own. Most replays meet the larger part."""

_LOOKED_AT = 2
"""Trainings with and without the unit that show how far outputs are apart."""


class Score(Protocol):
    """The score that an observer computes from one training, knowing both datasets."""

    visibility: float
    """How far one unit moves the outputs, in noise; compares pairs of neighbours."""

    def trial(self, inside: bool) -> float:
        """Train with or without the unit, and return the score of what came out."""


def scores_of(estimator: Any, pairs: list[Neighbours]) -> list[tuple[Neighbours, Score]]:
    """Return the most telling score there is for each pair of neighbours; it is the same kind for all."""
    if _samples(estimator.declared_loss().event):  # samples of a crowd would hide one unit more
        pairs = [pair for pair in pairs if len(pair.without) <= 1] or pairs
    if isinstance(estimator, NoisySums) and not estimator.released_keys():
        return [(pair, SumScore(estimator, pair)) for pair in pairs]
    replayed: list[tuple[Neighbours, Score]] = [
        (pair, score) for pair in pairs if (score := _replayed(estimator, pair)) is not None
    ]
    return replayed or [(pair, LearnedScore(estimator, pair)) for pair in pairs]


class SumScore:
    """The likelihood ratio of the noisy sums behind the tables: no observer has a better one.

    Computed from released tables alone, with the exact sums of both datasets, which a worst-case observer
    knows.
    """

    def __init__(self, estimator: NoisySums, pair: Neighbours) -> None:
        self._trainings = Trainings(estimator, pair)
        before, after = (part.arrays for part in self._trainings.parts)
        plan = estimator._plan()
        self._estimator, self._steps, self._gaussian = estimator, estimator._steps(), plan.epsilons is None
        self._parts: list[tuple[str, npt.NDArray[np.intp], Floats, Floats, float]] = []
        reach = 0.0
        for name in self._steps:
            moved = (after[name] - before[name]).astype(np.float64)
            places = np.flatnonzero(moved)
            scale = float(plan.scales[name])
            self._parts.append((name, places, before[name][places].astype(np.float64), moved[places], scale))
            size = np.abs(moved[places]) / scale
            reach += float(np.sum(size**2 if self._gaussian else size))
        self.visibility = reach

    def trial(self, inside: bool) -> float:
        """Return the logarithm of the likelihood ratio of one release, up to a constant."""
        values, total = self._estimator._values_of(self._trainings.tables(inside)), 0.0
        for name, places, exact, moved, scale in self._parts:
            noise = values[name][places] / self._steps[name] - exact
            if self._gaussian:
                total += float(noise @ moved) / scale**2
            else:
                total += float(np.sum(np.abs(noise) - np.abs(noise - moved))) / scale
        return total


class TranscriptScore:
    """The likelihood ratio of all that the mechanisms gave out, also of what is not released.

    Notes
    -----
    Composition accounts for all outputs of a mechanism. The tables are computed from them, so an observer of
    all of them sees more than one of the tables. A declared loss must be true against both. Outputs are
    replayed on both datasets, each with coins of its own where units are sampled, so the score is a function
    of the outputs alone. When the replay with the unit leads to other tables than the one without, the tables
    tell what no mechanism gave out: the score is `CERTAIN`.

    The true values that a training noised are what its replay on the same rows would show. They replace that
    replay, which halves the work, if both were the same in all trainings that were looked at, and no secret
    sample is declared.
    """

    def __init__(self, estimator: Any, pair: Neighbours) -> None:
        self._trainings = Trainings(estimator, pair)
        event = estimator.declared_loss().event
        self._sampled = _samples(event)
        self._replays = _SAMPLED if _samples(event, (PoissonSampled,)) else _DIVIDED
        self._nobody = not len(pair.without)
        self._leaks, apart, self._sure = False, [], True
        self.reproducible = True
        """Whether the tables followed from what the mechanisms gave out and from the dataset."""
        for inside in [True, False] * _LOOKED_AT:
            made, tables = self._recorded(inside)
            with_unit, tables_with = self._replayed(made, True)
            without, tables_without = self._replayed(made, False)
            apart.append(with_unit.divergence(without))
            self._leaks |= not _same(tables_with, tables_without)
            self._sure &= made.noised_the_same(with_unit if inside else without)
            self.reproducible &= bool(made.steps) and _same(tables, tables_with if inside else tables_without)
        self.visibility = float(np.mean(apart)) + CERTAIN * self._leaks

    def trial(self, inside: bool) -> float:
        """Return the logarithm of the likelihood ratio of the outputs of one training."""
        made, tables = self._recorded(inside)
        try:
            if self._leaks:
                return self._certain(made, tables)
            if not self._sampled:
                return self._ratio(made, inside)
            return self._ratio_of_samples(made)
        except DivergedError:  # no score is better than one of draws that do not belong together
            return 0.0

    def _ratio(self, made: Transcript, inside: bool) -> float:
        with_unit, without = (
            made if self._sure and side is inside else self._replayed(made, side, to_the_end=False)[0]
            for side in (True, False)
        )
        return float(with_unit.log_ratio(without).sum())

    def _ratio_of_samples(self, made: Transcript) -> float:
        """Return, draw by draw, the ratio of means over samples; nobody has no sample.

        Notes
        -----
        Each law is taken relative to that of `made`, which cancels: what the secret sample of `made` was does not show.
        """
        means = []
        for side in (True, False):
            n = 1 if self._nobody and not side else self._replays
            seen = [self._replayed(made, side, to_the_end=False)[0].log_ratio(made) for _ in range(n)]
            means.append(np.logaddexp.reduce(np.array(seen), axis=0) - np.log(n))
        return float((means[0] - means[1]).sum())

    def _certain(self, made: Transcript, tables: Mapping[str, Any]) -> float:
        """Return what the tables tell beside the outputs, and the ratio of those."""
        (with_unit, of_with), (without, of_without) = (self._replayed(made, side) for side in (True, False))
        difference = _same(tables, of_with) - _same(tables, of_without)
        return CERTAIN * difference + float(with_unit.log_ratio(without).sum())

    def _recorded(self, inside: bool) -> tuple[Transcript, Mapping[str, Any]]:
        tables: dict[str, Any] = {}
        return record(lambda: tables.update(self._trainings.tables(inside))), tables

    def _replayed(
        self, made: Transcript, inside: bool, to_the_end: bool = True
    ) -> tuple[Transcript, Mapping[str, Any]]:
        tables: dict[str, Any] = {}
        seen = replay(made, lambda: tables.update(self._trainings.tables(inside)), to_the_end=to_the_end)
        return seen, tables


def _replayed(estimator: Any, pair: Neighbours) -> TranscriptScore | None:
    """Return a score by replay, or None where noise does not come from `ptklib.mechanisms`, or not always the same."""
    try:
        score = TranscriptScore(estimator, pair)
        return score if score.reproducible else None
    except DivergedError:
        return None


def _samples(event: Event, kinds: tuple[type[Event], ...] = (PoissonSampled, Parallel)) -> bool:
    """Whether a loss counts on a secret sample of units."""
    return isinstance(event, kinds) or any(_samples(part, kinds) for part in event.parts())


def _same(tables: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    return tables.keys() == others.keys() and all(
        table is others[name] or table.equals(others[name]) or _equal(table, others[name])
        for name, table in tables.items()
    )


def _equal(table: Any, other: Any) -> bool:
    """Compare once more, with NaN equal to itself."""
    if table.schema != other.schema or table.num_rows != other.num_rows:
        return False
    return bool(table.to_pandas().equals(other.to_pandas()))
