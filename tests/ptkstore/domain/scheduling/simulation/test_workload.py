"""Workloads: the same seed gives the same PTKs, with the distributions that are promised."""

from __future__ import annotations

import itertools
import math
import statistics

import pytest

from ptkstore.domain.scheduling.simulation.workload import Need, Workload
from ptkstore.errors import InvalidRequest


def test_a_need_falls_with_epsilon_and_grows_with_the_draws_of_noise():
    need = Need(100.0, 10.0, 1.0)
    assert need.rows(1.0) == 111.0
    assert need.rows(0.5) == 100 + 20 + 4
    # four draws: twice the deviation, four times the variance
    assert need.rows(0.5, draws=4) == 100 + 40 + 16


def test_a_seed_gives_the_same_ptks_and_another_one_gives_others():
    workload = Workload(0.5)
    assert workload.arrivals(100, 3) == workload.arrivals(100, 3)
    assert workload.arrivals(100, 3)[0].need != workload.arrivals(100, 4)[0].need


def test_at_twice_the_rate_the_same_ptks_arrive_in_half_the_time():
    slow, fast = (Workload(rate).arrivals(200, 1) for rate in (0.5, 1.0))
    for before, now in zip(slow, fast, strict=False):
        assert (before.ptk_id, before.need, before.menu) == (now.ptk_id, now.need, now.menu)
        assert now.time == pytest.approx(before.time / 2)


# The seeds are fixed, so these cannot fail by chance: they tell whether the formulas are right.


@pytest.mark.parametrize("shape", [1, 4])
def test_gaps_have_the_mean_and_the_deviation_of_a_gamma_distribution(shape: int):
    times = [one.time for one in Workload(2.0, shape=shape).arrivals(2000, 0)]
    gaps = [later - sooner for sooner, later in itertools.pairwise(times)]
    assert statistics.mean(gaps) == pytest.approx(0.5, rel=0.05)
    assert statistics.stdev(gaps) == pytest.approx(0.5 / math.sqrt(shape), rel=0.08)


def test_needs_follow_the_power_law_between_their_bounds():
    workload = Workload(1.0, exponent=2.0, least_rows=100.0, most_rows=10_000.0)
    needs = [one.need.rows(1.0) for one in workload.arrivals(4000, 0)]
    assert min(needs) >= 100
    assert max(needs) <= 10_000
    for rows in (200, 1000):  # P(need > rows) = (1 / rows - 1 / most) / (1 / least - 1 / most)
        expected = (1 / rows - 1e-4) / (1e-2 - 1e-4)
        assert sum(need > rows for need in needs) / len(needs) == pytest.approx(expected, abs=0.025)


def test_shares_of_privacy_are_equally_likely():
    needs = [one.need for one in Workload(1.0, privacy_shares=(0.5, 0.1)).arrivals(4000, 0)]
    shares = [round(need.linear / need.rows(1.0), 6) for need in needs]
    assert set(shares) == {0.5, 0.1}
    assert shares.count(0.5) / len(shares) == pytest.approx(0.5, abs=0.03)


def test_menus_are_known_to_some_and_wrong_by_one_factor():
    found = Workload(1.0, known=0.3, menu_error=0.2).arrivals(4000, 0)
    with_menu = [one for one in found if one.menu]
    assert len(with_menu) / len(found) == pytest.approx(0.3, abs=0.03)
    errors = []
    for one in with_menu:
        factors = [math.log(rows / one.need.rows(epsilon)) for epsilon, rows in one.menu]
        assert max(factors) - min(factors) < 1e-3  # rows are rounded up
        errors.append(factors[0])
    assert statistics.mean(errors) == pytest.approx(0.0, abs=0.03)
    assert statistics.stdev(errors) == pytest.approx(0.2, rel=0.08)


@pytest.mark.parametrize(
    "wrong", [{"per_window": 0}, {"shape": 0}, {"exponent": 1}, {"least_rows": 9, "most_rows": 9}]
)
def test_what_is_no_workload_is_refused(wrong: dict):
    with pytest.raises(InvalidRequest):
        Workload(**{"per_window": 1.0, **wrong})
