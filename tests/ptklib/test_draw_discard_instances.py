"""The server's rules: instances keep their variance, their average learns, and honest reports are admitted."""

import math
import subprocess
import sys
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest

from ptklib.draw_discard import (
    Categorical,
    Devices,
    HonestRange,
    Numeric,
    RecentRanges,
    Simulation,
    Specification,
    average_instances,
    draw_instance,
    drift_limit,
    make_report,
    put_report,
    spam_multiple,
    start_instances,
)
from ptklib.draw_discard.instances import generations
from ptklib.draw_discard.noise import noise_norm, noise_quantile
from ptklib.draw_discard.specification import WEIGHT_MAX
from ptklib.draw_discard.updates import Weights
from ptklib.exceptions import InvalidParameterError

LN32 = math.log(32)
NOBODY: dict[str, list[Any]] = {"c": [], "y": []}


def of_values(n_weights: int, **other: Any) -> Specification:
    """A model with an intercept and one column of values."""
    features = [Categorical("c", range(n_weights - 1))]
    fields: dict[str, Any] = {"features": features, "label": Numeric("y", 0, 1), "epsilon": LN32}
    return Specification(**(fields | other))


def update(one: Specification, instances: Any, rows: Any = None) -> int:
    return put_report(one, instances, make_report(one, draw_instance(one, instances), rows or NOBODY))


@pytest.mark.parametrize("k", [2, 4])
def test_instances_start_with_the_sample_variance_of_theorem_1(k: int) -> None:
    """D5: as variance over k it would be a half, or three quarters, of it; 9 deviations are less than 1 in 10**18."""
    one = of_values(10_001, k=k, learning_rate=0.0005)
    start = start_instances(one)
    assert start.shape == (k, 10_001)
    assert start.dtype == np.int32
    found = start.astype(np.float64).var(axis=0, ddof=1).mean() / one.instance_variance
    assert found == pytest.approx(1, abs=9 * math.sqrt(2 / (k - 1) / 10_001))


def test_instances_start_around_the_weights_that_were_published() -> None:
    one = of_values(4, k=2000 // 2, epsilon=10)
    around = np.array([3.5, -2.0, 0.0, 100.0])
    start = start_instances(one, around)
    deviation = math.sqrt(one.instance_variance) / 2**one.grid_bits
    assert average_instances(one, start) == pytest.approx(around, abs=7 * deviation / math.sqrt(one.k))
    far = start_instances(one, [1e300, -1e300, 0, 0])
    assert (
        far[:, :2].tolist() == [[WEIGHT_MAX, -WEIGHT_MAX]] * one.k or (np.sign(far[:, :2]) == [1, -1]).all()
    )


@pytest.mark.parametrize("around", [[0.0] * 3, [math.nan] * 4, [math.inf] * 4, 0.0])
def test_a_start_of_another_shape_or_without_numbers_is_refused(around: Any) -> None:
    with pytest.raises(InvalidParameterError):
        start_instances(of_values(4), around)


def test_a_put_replaces_one_instance_and_a_draw_is_a_copy() -> None:
    one = of_values(3, k=5)
    instances = start_instances(one)
    before = instances.copy()
    report = np.array([1, 2, 3], dtype=np.int32)
    place = put_report(one, instances, report)
    assert instances[place].tolist() == [1, 2, 3]
    assert np.array_equal(np.delete(instances, place, 0), np.delete(before, place, 0))
    drawn = draw_instance(one, instances)
    drawn[:] = 7
    assert not (instances == 7).any()


def test_each_instance_is_drawn_and_discarded_equally_often() -> None:
    """False alarm below 1 in 10**9, if draws were fresh: 6.5 deviations of each of 10 counts."""
    one = of_values(2, k=5)
    instances = np.zeros((5, 2), dtype=np.int32)
    instances[:, 0] = np.arange(5)
    drawn = np.bincount([draw_instance(one, instances)[0] for _ in range(10_000)], minlength=5)
    put = np.bincount([put_report(one, instances, instances[0].copy()) for _ in range(10_000)], minlength=5)
    for counts in (drawn, put):
        assert np.abs(counts - 2000).max() < 6.5 * math.sqrt(10_000 * 0.2 * 0.8)


@pytest.mark.parametrize(
    "report",
    [
        np.zeros(2, dtype=np.int64),
        np.zeros(2),
        np.zeros(3, dtype=np.int32),
        [0, 0],
        np.zeros((1, 2), dtype=np.int32),
    ],
    ids=str,
)
def test_a_report_of_another_length_or_type_changes_nothing(report: Any) -> None:
    one = of_values(2, k=3)
    instances = start_instances(one)
    before = instances.copy()
    with pytest.raises(InvalidParameterError):
        put_report(one, instances, report)
    assert np.array_equal(instances, before)
    others: list[Any] = [instances[:2], instances.astype(np.int64), instances.tolist()]
    for wrong in others:
        with pytest.raises(InvalidParameterError):
            put_report(one, wrong, before[0])


def test_the_average_is_exact_where_sums_pass_32_bits() -> None:
    one = of_values(2, k=3)
    instances = np.array([[WEIGHT_MAX, 1], [WEIGHT_MAX, 0], [WEIGHT_MAX, -4]], dtype=np.int32)
    assert (average_instances(one, instances) * 2.0**24).tolist() == [WEIGHT_MAX, -1]


@pytest.mark.parametrize("start", [1.0, 0.0])
def test_updates_keep_the_expected_sample_variance_at_the_law(start: float) -> None:
    """Theorem 1, and how what is off goes back: S_t = v + (S_0 - v) (1 - 2 / k**2)**t.

    The mean over runs is within 6.5 standard errors of it but for a chance below 1 in 10**9.
    """
    one, n_updates, n_runs = of_values(40, k=4), 25, 160
    found = []
    for _ in range(n_runs):
        instances = start_instances(one) if start else np.zeros((4, 40), dtype=np.int32)
        for _ in range(n_updates):
            update(one, instances)
        found.append(instances.astype(np.float64).var(axis=0, ddof=1).mean() / one.instance_variance)
    expected = 1 + (start - 1) * (1 - 2 / 16) ** n_updates
    assert np.mean(found) == pytest.approx(expected, abs=6.5 * np.std(found) / math.sqrt(n_runs))
    assert 6.5 * np.std(found) / math.sqrt(n_runs) < 0.4


def test_the_average_of_the_instances_learns_what_devices_see() -> None:
    """In 24 runs with fresh noise the difference was .72 and its deviation .056: .3 is 7.5 deviations away."""
    one = of_values(4, k=5, epsilon=10, learning_rate=0.1, grid_bits=20)
    random, truth = np.random.default_rng(5), np.array([0.9, 0.5, 0.1])
    instances = start_instances(one)
    for _ in range(2000):
        values = random.integers(0, 3, 8)
        update(one, instances, {"c": values, "y": random.uniform(size=8) < truth[values]})
    weights = average_instances(one, instances)
    learnt = 1 / (1 + np.exp(-(weights[0] + weights[1:])))
    assert learnt[0] - learnt[2] > 0.3


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("n_weights", [2, 387])
@pytest.mark.parametrize("k", [1, 5, 20])
def test_honest_reports_are_refused_no_more_often_than_declared(noise: Any, n_weights: int, k: int) -> None:
    delta = 1e-6 if noise == "gaussian" else 0.0
    one = of_values(n_weights, k=k, noise=noise, delta=delta)
    instances, refused = start_instances(one), 0
    for _ in range(200):
        honest = HonestRange.of(one, instances, 0.05)
        report = make_report(one, draw_instance(one, instances), {"c": [0], "y": [1]})
        refused += not honest.admits(report)
        put_report(one, instances, report)
    assert refused <= 38  # a binomial of 200 and .05 passes it once in 10**11 runs


def test_three_deviations_refuse_most_honest_reports_of_many_weights() -> None:
    """D4: why t is computed. Ours still refuses what is far away."""
    one = of_values(387)
    t = spam_multiple(one, 0.01)
    assert 6 < t < 9
    instances, refused = start_instances(one), 0
    for _ in range(200):
        report = make_report(one, draw_instance(one, instances), NOBODY)
        spread = np.abs(report - instances.mean(axis=0)) / math.sqrt(one.instance_variance)
        refused += bool((spread > 3).any())
        assert HonestRange.of(one, instances, 0.01).admits(report) or spread.max() > 6
        put_report(one, instances, report)
    assert refused > 60
    honest = HonestRange.of(one, instances, 0.01)
    spam = np.rint(honest.means).astype(np.int32)
    assert honest.admits(spam)
    spam[5] += 1.01 * honest.widths[5]
    assert honest.beyond(spam).nonzero()[0].tolist() == [5]


def test_t_grows_with_weights_and_instances_and_with_fewer_refusals() -> None:
    t = spam_multiple(of_values(387), 0.01)
    assert spam_multiple(of_values(10_000, learning_rate=0.0005), 0.01) > t
    assert spam_multiple(of_values(387), 1e-6) > t
    assert spam_multiple(of_values(387, k=100), 0.01) > t


@pytest.mark.parametrize("rate", [0, 1, -0.1, math.nan, True, "0.1", 1e-300])
def test_a_rate_that_is_none_is_refused(rate: Any) -> None:
    with pytest.raises(InvalidParameterError):
        spam_multiple(of_values(2), rate)


def test_the_instance_farthest_from_all_others_may_be_drawn() -> None:
    """One instance beside k - 1 equal ones is (k - 1) / sqrt(k) deviations away: the most there is."""
    one = of_values(3)
    instances = np.zeros((20, 3), dtype=np.int32)
    instances[7] = 10**7
    honest = HonestRange.of(one, instances, 0.01)
    assert honest.admits(instances[7] + np.int32(one.reach))
    assert not honest.admits(instances[7] * 3)


def test_the_deviation_is_the_larger_of_law_and_sample() -> None:
    """D8: one run's sample variance is a third of the law, or three times it."""
    one = of_values(3)
    law, t = math.sqrt(one.instance_variance), spam_multiple(of_values(3), 0.005)
    equal = HonestRange.of(one, np.full((20, 3), 5, dtype=np.int32), 0.01)
    assert equal.means.tolist() == [5, 5, 5]
    assert equal.widths == pytest.approx([t * law + 1] * 3)
    wide = np.tile(np.arange(20, dtype=np.int32)[:, np.newaxis] * int(law), (1, 3))
    deviation = math.sqrt(35) * int(law)
    assert HonestRange.of(one, wide, 0.01).widths == pytest.approx([t * deviation + 1] * 3)


def test_a_report_of_another_type_is_not_compared() -> None:
    honest = HonestRange.of(of_values(3), start_instances(of_values(3)), 0.01)
    for wrong in (
        np.zeros(3),
        np.zeros(4, dtype=np.int32),
        np.full(3, np.nan),
        np.zeros((3, 3), dtype=np.int32),
    ):
        with pytest.raises(InvalidParameterError):
            honest.admits(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("n_reports", [1, 5])
def test_bounds_of_noise_hold_and_are_no_wider_than_they_need_be(noise: Any, n_reports: int) -> None:
    """The 500 norms that are compared pass a bound of 1 in 1,000 more than six times less than once in 10**5 runs."""
    one = of_values(200, noise=noise, delta=1e-6 if noise == "gaussian" else 0.0)
    s, nothing = one.noise_scale, Devices.of(one, NOBODY | {"c": [None], "y": [None]})
    block = Simulation(nothing)._drawn_noise(500 * n_reports).reshape(500, n_reports, 200).sum(axis=1)
    largest, norms = np.abs(block).max(axis=1), np.linalg.norm(block, axis=1)
    for found, bound in (
        (largest, noise_quantile(noise, s, 200, 1e-3, n_reports)),
        (norms, noise_norm(noise, s, 200, 1e-3, n_reports)),
    ):
        assert (found > bound).sum() <= 6
        assert bound < 2.5 * np.median(found)


@pytest.mark.parametrize(
    ("k", "n_puts", "chance"),
    [
        (20, 20, 1e-3),
        (20, 100, 1e-9),
        (5, 3, 0.2),
        (2, 1, 0.6),
        (20, 0, 1e-6),
        (2, 3000, 1e-12),
        (20, 4000, 1e-12),
    ],
)
def test_an_instance_descends_by_few_reports_from_those_before(k: int, n_puts: int, chance: float) -> None:
    """The tail of a binomial, summed with whole numbers from its end."""
    least, beyond, most = n_puts, 0, Fraction(chance) * k**n_puts
    while least:
        beyond += math.comb(n_puts, least) * (k - 1) ** (n_puts - least)
        if beyond > most:
            break
        least -= 1
    assert generations(k, n_puts, chance) == least


def test_a_single_instance_descends_by_all_reports() -> None:
    assert generations(1, 7, 0.1) == 7


@pytest.mark.parametrize("clip", ["l1", "l2", "coordinate"])
def test_spam_in_all_weights_together_fails_the_norm(clip: Any) -> None:
    one = of_values(387, clip=clip, epsilon=LN32 if clip != "l2" else 10, learning_rate=0.0005)
    instances = start_instances(one)
    honest = HonestRange.of(one, instances, 0.01)
    spam = np.rint(honest.means + honest.widths / 2).astype(np.int32)
    assert not honest.beyond(spam).any()
    assert honest.refusal(spam) == "norm"
    assert not honest.admits(spam)
    spam[0] += int(honest.widths[0])
    assert honest.refusal(spam) == "range"


THREADS = """
import numpy as np, psutil
from ptklib.draw_discard import HonestRange

def others():
    process = psutil.Process()
    return [(one.id, one.user_time + one.system_time) for one in process.threads() if one.id != process.pid]

honest = HonestRange(np.zeros(50_000), np.ones(50_000), 1e9)
report = np.zeros(50_000, dtype=np.int32)
before = others()
refusals = {honest.refusal(report) for _ in range(2_000)}
print(refusals, others() == before)
"""


def test_no_other_thread_tests_a_report() -> None:
    """Where all cores are busy, a report of many weights waited 40 ms for the threads of BLAS."""
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=True)
    assert done.stdout == "{None} True\n"


def test_a_range_is_good_for_the_puts_it_is_made_for_and_not_for_all_later_ones() -> None:
    one = of_values(387, k=5)
    refused = {0: 0, 60: 0}
    for _ in range(20):
        instances = start_instances(one)
        ranges = {n: HonestRange.of(one, instances, 0.05, n_puts=n) for n in refused}
        for _ in range(60):
            report = make_report(one, draw_instance(one, instances), {"c": [0], "y": [1]})
            for n in ranges:
                refused[n] += not ranges[n].admits(report)
            put_report(one, instances, report)
    assert refused[60] <= 120  # a binomial of 1,200 and .05 passes 120 once in 10**12 runs
    assert refused[0] > 120


def test_a_report_that_began_with_an_instance_which_is_gone_is_found_in_a_range_before() -> None:
    one = of_values(3)
    instances = start_instances(one)
    ranges = RecentRanges(2)
    with pytest.raises(InvalidParameterError, match="no range"):
        ranges.refusal(instances[0])
    report = make_report(one, instances[0], NOBODY)
    ranges.add(HonestRange.of(one, instances, 1e-9))
    moved = (instances.astype(np.int64) + 10**8).astype(np.int32)
    ranges.add(HonestRange.of(one, moved, 1e-9))
    assert ranges.refusal(report) is None
    assert ranges.refusal(moved[0]) is None
    ranges.add(HonestRange.of(one, moved, 1e-9))
    assert ranges.refusal(report) == "range"


def test_a_range_may_be_added_while_a_report_is_tested() -> None:
    one = of_values(3)
    instances = start_instances(one)
    ranges = RecentRanges(2)
    newest = HonestRange.of(one, instances, 1e-9)

    class Refreshed(HonestRange):
        def refusal(self, report: Weights) -> Literal["range", "norm"] | None:
            ranges.add(newest)  # as another thread would
            return "range"

    ranges.add(newest)
    ranges.add(Refreshed(**vars(newest)))
    assert ranges.refusal(instances[0]) is None


@pytest.mark.parametrize("k", [1, 5])
def test_the_average_of_honest_reports_drifts_no_further_than_the_limit(k: int) -> None:
    """All devices agree, so their steps are as long as steps can be; a tenth of the limit would be passed."""
    one = of_values(20, k=k, learning_rate=0.01, grid_bits=20, epsilon=10)
    devices = Devices.of(one, {"c": [3], "y": [1]})
    limit = drift_limit(one, 200, 0.05)
    moved = []
    for _ in range(40):
        simulation = Simulation(devices)
        before = simulation.instances.mean(axis=0)
        moved.append(
            np.linalg.norm(simulation.run(np.zeros(200, dtype=np.int64)).instances.mean(axis=0) - before)
        )
    assert sum(one > limit for one in moved) <= 12  # a binomial of 40 and .05 passes 12 once in 10**7 runs
    assert max(moved) > limit / 10
    assert drift_limit(one, 0, 0.05) == 0
