from datetime import UTC, datetime

import numpy as np
import pytest

from ptklib import CountFeaturizer, HistoricalStatistics
from ptkstore.cli.demo import trips, truth
from ptkstore.cli.demo.columns import assemble
from ptkstore.cli.demo.records import Lookup
from ptkstore.errors import InvalidRequest

MIDNIGHT = datetime(2026, 1, 5, tzinfo=UTC)
NEXT = datetime(2026, 1, 6, tzinfo=UTC)
SPEED = HistoricalStatistics(
    keys=["hour"],
    values=["speed_mph"],
    domains={"hour": list(range(24))},
    bounds={"speed_mph": (0.0, 60.0)},
    epsilon=0.2,
).to_spec()
LONG = CountFeaturizer(
    features=["pickup_zone_id"],
    label="long_trip",
    classes=[False, True],
    domains={"pickup_zone_id": list(range(1, 266))},
    epsilon=0.3,
).to_spec()


def rows():
    """Three trips at 8 o'clock in zone 7 (10, 20 and 200 mph), and one of the next day."""
    hours = np.array([8, 8, 8, 24 + 8], dtype=np.int64)
    pickup = MIDNIGHT.timestamp() * 1e6 + hours * 3.6e9
    zone = np.full(4, 7)
    seconds = np.array([3600.0, 1800.0, 360.0, 900.0])
    return assemble(pickup.astype(np.int64), zone, zone, np.array([10.0, 10.0, 20.0, 1.0]), seconds)


def true(feature, estimator, entity, *, start=MIDNIGHT, end=NEXT, share=1.0):
    lookup = Lookup("taxi.p", "taxi__p", entity, feature, 1.25)
    (answer,) = truth.true_values(
        rows(), [lookup], estimator=estimator, start=start, end=end, train_share=share
    )
    assert (answer.ptk, answer.view, answer.entity, answer.feature, answer.value) == (
        "taxi.p",
        "taxi__p",
        entity,
        feature,
        1.25,
    )
    return answer.true_value


def test_counts_and_sums_are_scaled_to_the_train_part_and_means_are_not():
    assert true("count", SPEED, {"hour": 8}, share=0.8) == pytest.approx(2.4)
    assert true("speed_mph_sum", SPEED, {"hour": 8}, share=0.5) == pytest.approx((10 + 20 + 60) / 2)
    assert true("speed_mph_mean", SPEED, {"hour": 8}, share=0.5) == pytest.approx(30.0)


def test_classes_are_counted_as_the_featurizer_names_them():
    zone = {"pickup_zone_id": 7}
    assert true("count_true", LONG, zone, share=0.5) == 1.0
    assert true("count_false", LONG, zone) == 1.0
    assert true("p_true", LONG, zone, share=0.5) == pytest.approx(2 / 3)


def test_only_rows_of_the_contributing_windows_count():
    assert true("count", SPEED, {"hour": 8}, end=datetime(2026, 1, 7, tzinfo=UTC)) == 4.0
    assert true("count", SPEED, {"hour": 8}, start=NEXT, end=datetime(2026, 1, 7, tzinfo=UTC)) == 1.0
    eight = datetime(2026, 1, 5, 8, tzinfo=UTC)
    assert true("count", SPEED, {"hour": 8}, start=eight) == 3.0
    assert true("count", SPEED, {"hour": 8}, end=eight) == 0.0


def test_groups_without_rows_have_a_count_and_no_mean():
    assert true("count", SPEED, {"hour": 3}) == 0.0
    assert true("speed_mph_mean", SPEED, {"hour": 3}) is None
    assert true("p_true", LONG, {"pickup_zone_id": 99}) is None


def test_features_that_are_no_statistic_of_rows_have_no_true_value():
    assert true("ptk_version", SPEED, {"hour": 8}) is None
    assert true("ptk_version", LONG, {"pickup_zone_id": 7}) is None
    assert true("count", SPEED, {"weather": 8}) is None


def test_impossible_windows_and_shares_are_refused():
    with pytest.raises(InvalidRequest, match="start < end, both in UTC"):
        true("count", SPEED, {"hour": 8}, end=MIDNIGHT)
    with pytest.raises(InvalidRequest, match="both in UTC"):
        true("count", SPEED, {"hour": 8}, end=datetime(2026, 1, 6))
    with pytest.raises(InvalidRequest, match="train share"):
        true("count", SPEED, {"hour": 8}, share=0.0)


def test_true_values_agree_with_what_the_library_releases_at_a_large_epsilon():
    table = trips.generate(20_000, days=1)
    speed = HistoricalStatistics(**SPEED["params"] | {"epsilon": 10.0})
    released = speed.fit(table).to_state().tables["statistics"].to_pylist()[8]
    long = CountFeaturizer(**LONG["params"] | {"epsilon": 10.0})
    zone = long.fit(table).to_state().tables["pickup_zone_id"].to_pylist()[131]
    for spec, row, key in ((SPEED, released, "hour"), (LONG, zone, "pickup_zone_id")):
        lookups = [Lookup("p", "v", {key: row[key]}, f, value) for f, value in row.items() if f != key]
        answers = truth.true_values(table, lookups, estimator=spec, start=MIDNIGHT, end=NEXT, train_share=1.0)
        assert len(answers) >= 3
        for answer in answers:
            assert answer.value == pytest.approx(answer.true_value, rel=0.05, abs=0.02), answer.feature


def test_measured_error_falls_as_epsilon_grows_and_has_the_scale_of_the_noise():
    points = truth.error_by_epsilon(trips.generate(20_000), epsilons=(0.05, 2.0), repetitions=8)
    by_statistic = {p.statistic: [q for q in points if q.statistic == p.statistic] for p in points}
    assert set(by_statistic) == {"mean speed by hour of day", "mean speed by pickup zone", "trips in a group"}
    for small, large in by_statistic.values():
        assert (small.epsilon, large.epsilon) == (0.05, 2.0)
        assert small.mean_absolute_error > 2 * large.mean_absolute_error > 0
        assert small.low <= small.mean_absolute_error <= small.high
    # counts get 41 % of epsilon, and Laplace noise is off by its scale on average: within a factor of 2 over
    # 8 x 24 draws, with false alarms below 1 in 10**6
    trips_error = by_statistic["trips in a group"][0].mean_absolute_error
    assert 0.5 < trips_error * 0.41 * 0.05 < 2
