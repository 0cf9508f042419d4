"""Transcripts: outputs are replayed on other rows, and how much likelier they were is exact."""

import threading
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from ptklib import Clustering, CountFeaturizer, TreeFeaturizer, UserEmbeddings
from ptklib.checks import audit
from ptklib.checks.learned import LearnedScore
from ptklib.checks.likelihood_ratios import (
    CERTAIN,
    divergence,
    exponential_log,
    log_ratio,
    permute_and_flip_log,
)
from ptklib.checks.rows import Synthetic, neighbours
from ptklib.checks.scores import SumScore, TranscriptScore, scores_of
from ptklib.checks.transcript import DivergedError, record, replay
from ptklib.mechanisms import additive, laplace, report_noisy_max, selection
from ptklib.mechanisms.partition import PartitionSelection, laplace_selection
from tests.statistical.tools import exponential, permute_and_flip

SCALE = 2.5


def vector(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


def test_laws_of_selections_are_those_of_the_mechanisms() -> None:
    for scores in (vector(3), vector(4, 4), vector(5, 0, 4, 1, 1), vector(-3, 2, 2, 0, 9, 8, 7)):
        places = range(len(scores))
        found = np.exp([permute_and_flip_log(scores, SCALE, i) for i in places])
        assert found == pytest.approx(permute_and_flip(scores, SCALE), rel=1e-12)
        found = np.exp([exponential_log(scores, SCALE, i) for i in places])
        assert found == pytest.approx(exponential(scores, SCALE), rel=1e-12)


def test_ratios_of_noise_are_those_of_its_law() -> None:
    given, exact, other = vector(7, -2, 0), vector(5, 0, 0), vector(4, 3, 0)

    def laplace_log(centre: Any) -> float:
        return float(stats.dlaplace.logpmf(given, 1 / SCALE, loc=centre).sum())

    def gaussian_log(centre: Any) -> float:
        return float(stats.norm.logpdf(given, centre, SCALE).sum())

    assert log_ratio("DiscreteLaplace", SCALE, (given,), (exact,), (other,)) == pytest.approx(
        laplace_log(exact) - laplace_log(other)
    )
    assert log_ratio("DiscreteGaussian", SCALE, (given,), (exact,), (other,)) == pytest.approx(
        gaussian_log(exact) - gaussian_log(other)
    )


def test_ratios_of_released_keys_are_those_of_their_own_counts() -> None:
    found, less = vector(50, 1, 40).reshape(3, 1), vector(50, 1, 39).reshape(3, 1)
    nothing = np.zeros((0, 1), dtype=np.int64)
    given = nothing, vector(52, 39).reshape(2, 1), vector(0, 2)
    ratio = log_ratio("ThresholdedLaplace", SCALE, given, (nothing, found), (nothing, less))
    assert ratio == pytest.approx((0 - 1) / SCALE)


def test_inputs_that_are_equal_are_not_apart() -> None:
    one, two = vector(1, 5, 9), vector(1, 5, 12)
    for mechanism in ("DiscreteLaplace", "DiscreteGaussian", "PermuteAndFlip", "ExponentialMechanism"):
        assert divergence(mechanism, SCALE, (one,), (one,)) == 0.0
        assert divergence(mechanism, SCALE, (one,), (two,)) > 0.01
    assert divergence("DiscreteGaussian", SCALE, (one,), (two,)) == pytest.approx((3 / SCALE) ** 2)


def adaptive(exact: int) -> list[int]:
    """Noise a number, then twice as much as came out above it; select by both."""
    first = int(laplace(vector(exact), l1_sensitivity=1, epsilon=1.0)[0])
    second = int(laplace(vector(exact + 2 * first), l1_sensitivity=1, epsilon=1.0)[0])
    return [first, second, report_noisy_max(vector(exact, second, first), sensitivity=1, epsilon=1.0)]


def test_outputs_are_given_out_once_more_and_inputs_follow_them() -> None:
    made: list[int] = []
    transcript = record(lambda: made.extend(adaptive(10)))
    again: list[int] = []
    other = replay(transcript, lambda: again.extend(adaptive(20)))
    assert again == made
    first, second, _ = made
    inputs = [[step.exact[0].tolist() for step in t.steps] for t in (transcript, other)]
    assert inputs == [
        [[10], [10 + 2 * first], [10, second, first]],
        [[20], [20 + 2 * first], [20, second, first]],
    ]
    size = abs(first - 20) - abs(first - 10)
    assert transcript.log_ratio(other)[0] == pytest.approx(size)
    assert transcript.divergence(other) > 1


def test_keys_are_given_out_once_more() -> None:
    selection_ = laplace_selection(sensitivity=1, epsilon=1.0, delta=1e-3, n_cells=2)
    known, found = vector(3, 4).reshape(1, 2), vector(90, 90, 1, 0).reshape(2, 2)
    made: list[Any] = []
    transcript = record(lambda: made.extend(selection_.draw(known, found)))
    again: list[Any] = []
    replay(transcript, lambda: again.extend(selection_.draw(known + 1, found + 1)))
    assert all(np.array_equal(one, two) for one, two in zip(made, again, strict=True))
    with pytest.raises(DivergedError):
        replay(transcript, lambda: selection_.draw(known, found[:1]))


@pytest.mark.parametrize(
    "other",
    [
        lambda: laplace(vector(1, 2), l1_sensitivity=1, epsilon=1.0),
        lambda: laplace(vector(1), l1_sensitivity=1, epsilon=2.0),
        lambda: additive.gaussian(vector(1), scale=1.0),
        lambda: [laplace(vector(1), l1_sensitivity=1, epsilon=1.0) for _ in range(2)],
        lambda: None,
    ],
    ids=["longer", "other scale", "other noise", "more", "fewer"],
)
def test_other_draws_are_not_compared(other: Any) -> None:
    transcript = record(lambda: laplace(vector(1), l1_sensitivity=1, epsilon=1.0))
    with pytest.raises(DivergedError):
        replay(transcript, other)


def test_noise_is_noise_again_afterwards_and_in_other_threads_all_the_time() -> None:
    samplers = additive._noised, selection._measurement, PartitionSelection.draw
    transcript, elsewhere = record(lambda: laplace(vector(0), l1_sensitivity=2**40, epsilon=1.0)), []

    def draw() -> None:
        elsewhere.append(int(laplace(vector(0), l1_sensitivity=2**40, epsilon=1.0)[0]))

    def train() -> None:
        thread = threading.Thread(target=draw)
        thread.start()
        thread.join()
        raise InterruptedError

    with pytest.raises(InterruptedError):
        replay(transcript, train)
    draw()
    given = int(transcript.steps[0].given[0][0])
    # Two draws at this scale are equal with a probability of 2**-42.
    assert len({given, *elsewhere}) == 3
    assert (additive._noised, selection._measurement, PartitionSelection.draw) == samplers


def kinds(estimator: Any) -> set[type[Any]]:
    return {type(score) for _, score in scores_of(estimator, neighbours(Synthetic(estimator))[:1])}


def counts(family: type[Any] = CountFeaturizer, **parameters: Any) -> Any:
    return family(["k"], classes=[0, 1], domains={"k": range(2)}, epsilon=2.0, **parameters)


def clusters(family: type[Any] = Clustering) -> Any:
    return family(n_clusters=2, bounds={"a": (0, 1), "b": (0, 1)}, epsilon=2.0)


class DrawsItself(Clustering):
    """Draws from elsewhere, which is not in a transcript."""

    def _release(self, exact: Any, previous: Any) -> Any:
        release = super()._release(exact, previous)
        for name, table in release.tables.items():
            numbers = table.column(table.num_columns - 1).to_numpy()
            noisy = numbers + np.random.default_rng().normal(size=len(numbers))
            release.tables[name] = table.set_column(
                table.num_columns - 1, table.schema.field(table.num_columns - 1), [noisy]
            )
        return release


class TellsTheNumberOfRows(TreeFeaturizer):
    """Releases an exact number beside noisy ones."""

    def _release(self, exact: Any, previous: Any) -> Any:
        release = super()._release(exact, previous)
        n_rows = sum(int(units.sum()) for units in exact.values())
        for name, table in release.tables.items():
            last = table.num_columns - 1
            told = table.column(last).to_numpy() + 1e-3 * n_rows
            release.tables[name] = table.set_column(last, table.schema.field(last), [told])
        return release


def trees(family: type[Any] = TreeFeaturizer, **parameters: Any) -> Any:
    defaults = {"classes": ("no", "yes"), "bounds": {"a": (0, 1)}, "n_estimators": 1, "max_depth": 1}
    return family(label="y", **{**defaults, "method": "random", "epsilon": 1.0, **parameters})


def test_each_trainer_gets_the_most_telling_score() -> None:
    assert kinds(counts()) == {SumScore}
    assert kinds(clusters()) == {TranscriptScore}
    assert kinds(clusters(DrawsItself)) == {LearnedScore}


def test_what_no_mechanism_gave_out_is_found_at_once() -> None:
    found = audit(trees(TellsTheNumberOfRows), runs=100)
    assert (found.verdict, found.lower_bound > 1.0) == ("contradicted", True)
    pair = neighbours(Synthetic(trees()))[0]
    assert TranscriptScore(trees(TellsTheNumberOfRows), pair).visibility > CERTAIN / 2
    assert TranscriptScore(trees(), pair).visibility < 100


def test_a_label_has_a_crowd_of_the_other_one() -> None:
    pairs = {pair.name: pair for pair in neighbours(Synthetic(trees()))}
    assert [name for name in pairs if name.endswith("highest")] == [
        "empty, highest",
        "crowd, highest",
        "opposite crowd, highest",
        "contrary crowd, highest",
    ]

    def ends(rows: pd.DataFrame) -> list[list[Any]]:
        return [sorted(set(rows[name])) for name in ("a", "y")]

    assert ends(pairs["contrary crowd, highest"].without.X) == [[1.0], ["no"]]
    assert ends(pairs["opposite crowd, highest"].without.X) == [[0.0], ["no"]]
    assert ends(pairs["crowd, highest"].without.X) == [[1.0], ["yes"]]
    assert ends(pairs["contrary crowd, highest"].unit.X) == [[1.0], ["yes"]]


@pytest.mark.parametrize("inside", [True, False])
def test_what_was_noised_stands_for_its_replay(inside: bool) -> None:
    pair = neighbours(Synthetic(clusters()))[1]
    score = TranscriptScore(clusters(), pair)
    assert score._sure
    made, _ = score._recorded(inside)
    short = score._ratio(made, inside)
    score._sure = False
    assert score._ratio(made, inside) == short
    assert made.noised_the_same(made)
    other, _ = score._replayed(made, not inside)
    assert not made.noised_the_same(other)


def test_secret_samples_are_drawn_anew_for_each_replay() -> None:
    """A score that knew who took part would find more than is lost."""
    sampled = UserEmbeddings(
        "u", "i", users=range(3), items=range(2), n_factors=1, max_rows_per_user=1, rounds=1,
        batch_rate=0.5, epsilon=3.0, delta=1e-3,
    )  # fmt: skip
    part = sampled.partial_statistics(pd.DataFrame({"u": [0], "i": [0]}))

    def train() -> None:
        sampled.finalize([part])

    transcript = record(train)
    of_the_round = len(transcript.steps) - 2  # the last draw compares, on users kept apart
    took_part = sum(
        bool(np.any(replay(transcript, train, to_the_end=False).steps[of_the_round].exact[0]))
        for _ in range(40)
    )
    # Nobody of 40 has a probability of 5e-11 at a rate of .45, more than 36 one of 1e-9.
    assert 0 < took_part <= 36
