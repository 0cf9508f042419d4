import os
from datetime import date, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ptkstore.cli.demo import trips
from ptkstore.cli.demo.columns import SCHEMA
from ptkstore.cli.demo.tlc import grid_cell, straight_miles
from ptkstore.domain.streams.schemas import ColumnType, Schema
from ptkstore.errors import InvalidRequest

DATA = Path(os.environ.get("PTK_TEST_DATA", Path(__file__).parents[5] / "shared" / "data"))


def real(name):
    path = DATA / f"{name}.parquet"
    if not path.exists():
        pytest.skip(f"{path.name} is not in {DATA}; set PTK_TEST_DATA to the folder that holds it")
    return path


def column(table, name):
    return table.column(name).to_numpy()


def written(tmp_path, **columns):
    path = tmp_path / "trips.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def tlc_file(tmp_path, pickups, dropoffs, prefix="tpep", **columns):
    times = {
        f"{prefix}_pickup_datetime": pa.array(pickups, pa.timestamp("us")),
        f"{prefix}_dropoff_datetime": pa.array(dropoffs, pa.timestamp("us")),
    }
    n = len(pickups)
    rest = {"PULocationID": [132] * n, "DOLocationID": [7] * n, "trip_distance": [5.0] * n}
    return written(tmp_path, **times | rest | columns)


@pytest.fixture(scope="module")
def generated():
    return trips.generate()


def test_declared_columns_make_a_stream():
    schema = Schema(tuple((n, ColumnType(kind)) for n, kind in trips.COLUMNS.items()), trips.TIME_COLUMN)
    assert [name for name, _ in schema.columns] == SCHEMA.names


def test_generated_trips_have_the_streams_columns_and_cover_the_days_asked_for(generated):
    assert generated.schema == SCHEMA
    assert generated.num_rows == 200_000
    assert all(c.null_count == 0 for c in generated.columns)
    days = np.unique(column(generated, "pickup_time").astype("datetime64[D]"))
    assert [str(day) for day in days] == [f"2026-01-0{d}" for d in range(5, 10)]
    zones = column(generated, "pickup_zone_id"), column(generated, "dropoff_zone_id")
    assert all((z.min(), z.max()) == (1, 263) for z in zones)
    assert np.all(np.diff(column(generated, "pickup_time").astype(np.int64)) >= 0)


def test_same_arguments_give_the_same_trips_and_another_seed_gives_others():
    one, again, other = trips.generate(500), trips.generate(500), trips.generate(500, seed=1)
    assert one.equals(again)
    assert not one.equals(other)


def test_generated_derived_columns_follow_from_the_measured_ones(generated):
    seconds, miles = column(generated, "duration_seconds"), column(generated, "distance_miles")
    moved = seconds > 0
    assert np.allclose(column(generated, "speed_mph")[moved], miles[moved] / seconds[moved] * 3600)
    assert not column(generated, "speed_mph")[~moved].any()
    assert np.array_equal(column(generated, "long_trip"), seconds > 900)
    hours = column(generated, "pickup_time").astype("datetime64[h]").astype(np.int64) % 24
    assert np.array_equal(column(generated, "hour"), hours)


def test_generated_rush_hours_are_full_and_slow_and_few_zones_take_most_pickups(generated):
    hour, speed = column(generated, "hour"), np.clip(column(generated, "speed_mph"), 0, 60)
    assert (hour == 18).sum() > 8 * (hour == 3).sum()
    assert speed[hour == 17].mean() < 0.6 * speed[hour == 3].mean()
    per_zone = np.sort(np.bincount(column(generated, "pickup_zone_id"), minlength=264))[::-1]
    assert 0.25 < per_zone[:10].sum() / generated.num_rows < 0.5


def test_generated_weekends_have_night_life():
    week = trips.generate(20_000, days=7)
    weekday = column(week, "pickup_time").astype("datetime64[D]").astype(np.int64) + 3
    weekend, early = weekday % 7 >= 5, column(week, "hour") < 4
    assert (early & weekend).sum() / weekend.sum() > 3 * (early & ~weekend).sum() / (~weekend).sum()
    village = column(week, "pickup_zone_id") == 249
    assert village[early & weekend].mean() > 2 * village[~early & weekend].mean()


def test_generated_trips_are_dirty_in_about_one_row_of_a_hundred(generated):
    seconds, miles = column(generated, "duration_seconds"), column(generated, "distance_miles")
    dirty = (seconds <= 0) | (seconds > 40_000) | (miles == 0) | (miles > 1000)
    assert 0.008 < dirty.mean() < 0.012
    assert (seconds < 0).any()
    assert (miles > 1000).any()


@pytest.mark.parametrize("arguments", [{"n_rows": 0}, {"days": 0}])
def test_generating_nothing_is_refused(arguments):
    with pytest.raises(InvalidRequest, match="at least one row and one day"):
        trips.generate(**arguments)


def test_the_first_day_of_generated_trips_is_where_they_were_generated(generated):
    assert trips.first_day(generated) == date(2026, 1, 5)


def test_the_first_day_is_no_stray_date(tmp_path):
    start = np.array(["2009-01-01", *["2021-02-26"] * 150, "2030-07-01"], dtype="datetime64[us]")
    table = trips.load(tlc_file(tmp_path, start, start + np.timedelta64(600, "s")))
    assert trips.first_day(table) == date(2021, 2, 26)


def test_the_first_day_skips_nearly_empty_days_before_the_first_full_one(tmp_path):
    start = np.array(["2021-02-02", *["2021-02-10"] * 290, *["2021-02-11"] * 290], dtype="datetime64[us]")
    table = trips.load(tlc_file(tmp_path, start, start))
    assert trips.first_day(table) == date(2021, 2, 10)


@pytest.mark.parametrize("prefix", ["tpep", "lpep"])
def test_original_names_of_yellow_and_green_files_are_read(tmp_path, prefix):
    pickup, dropoff = datetime(2024, 3, 1, 8, 59, 30), datetime(2024, 3, 1, 9, 29, 30)
    table = trips.load(tlc_file(tmp_path, [pickup], [dropoff], prefix, fare_amount=[9.0]))
    assert table.schema == SCHEMA
    (row,) = table.to_pylist()
    assert row.pop("pickup_time").isoformat() == "2024-03-01T08:59:30+00:00"
    assert row == {
        "pickup_zone_id": 132,
        "dropoff_zone_id": 7,
        "hour": 8,
        "distance_miles": 5.0,
        "duration_seconds": 1800.0,
        "speed_mph": 10.0,
        "long_trip": True,
    }


def test_a_trip_of_exactly_fifteen_minutes_is_not_long(tmp_path):
    noon = datetime(2024, 3, 1, 12)
    ends = [datetime(2024, 3, 1, 12, 15), datetime(2024, 3, 1, 12, 15, 1)]
    assert column(trips.load(tlc_file(tmp_path, [noon] * 2, ends)), "long_trip").tolist() == [False, True]


def test_odd_values_become_what_the_stream_can_hold(tmp_path):
    noon, later = datetime(2024, 3, 1, 12), datetime(2024, 3, 1, 13)
    path = tlc_file(
        tmp_path,
        [noon, noon, noon, noon, None],
        [later, None, later, noon, later],
        PULocationID=pa.array([None, 7, 999, 7, 7], pa.int64()),
        trip_distance=pa.array([float("nan"), 2.0, float("inf"), -3.0, 1.0]),
    )
    table = trips.load(path)
    assert column(table, "pickup_zone_id").tolist() == [264, 7, 999, 7]
    assert column(table, "distance_miles").tolist() == [0.0, 2.0, 0.0, -3.0]
    assert column(table, "duration_seconds").tolist() == [3600.0, 0.0, 3600.0, 0.0]
    assert column(table, "speed_mph").tolist() == [0.0, 0.0, 0.0, 0.0]


def test_times_with_a_zone_are_read_as_the_clock_on_the_wall(tmp_path):
    noon_utc = pa.array([datetime(2024, 7, 1, 12)], pa.timestamp("us", tz="America/New_York"))
    times = {"tpep_pickup_datetime": noon_utc, "tpep_dropoff_datetime": noon_utc}
    table = trips.load(tlc_file(tmp_path, [None], [None], **times))
    assert column(table, "hour").tolist() == [12 - 4]


def test_files_with_coordinates_get_grid_cells_and_straight_distances(tmp_path):
    noon = pa.array([datetime(2016, 3, 1, 12)] * 2, pa.timestamp("ms"))
    path = written(
        tmp_path,
        pickup_datetime=noon,
        dropoff_datetime=noon,
        pickup_longitude=[-73.98, -72.0],
        pickup_latitude=[40.75, 40.75],
        dropoff_longitude=[-73.98, -73.98],
        dropoff_latitude=[40.80, None],
    )
    table = trips.load(path)
    assert column(table, "pickup_zone_id").tolist() == [1 + 16 * 9 + 8, 265]
    assert column(table, "dropoff_zone_id").tolist() == [1 + 16 * 11 + 8, 264]
    assert column(table, "distance_miles")[0] == pytest.approx(3.4547, abs=1e-3)
    assert column(table, "distance_miles")[1] == 0.0


def test_grid_numbers_cells_from_the_south_west_corner_and_its_edges_are_half_open():
    longitude = np.array([-74.26, -73.7001, -74.26, -73.7001, -73.70, -74.2601])
    latitude = np.array([40.49, 40.49, 40.9199, 40.9199, 40.5, 40.5])
    assert grid_cell(longitude, latitude).tolist() == [1, 16, 241, 256, 265, 265]


def test_straight_distance_is_that_of_the_great_circle():
    degrees = [np.array([x]) for x in (-73.7781, 40.6413, -118.4085, 33.9416)]  # JFK to LAX
    assert straight_miles(*degrees)[0] == pytest.approx(2470, abs=5)


def test_a_file_without_known_columns_is_refused_with_what_was_looked_for(tmp_path):
    with pytest.raises(InvalidRequest) as refused:
        trips.load(written(tmp_path, tpep_pickup_datetime=["secret-row"], price=[1.0]))
    message = str(refused.value)
    assert "dropoff time: tpep_dropoff_datetime or lpep_dropoff_datetime" in message
    assert "PULocationID or pickup_zone_id" in message
    assert "The file has: tpep_pickup_datetime, price" in message
    assert "secret-row" not in message
    assert "pickup time:" not in message


def test_columns_of_a_wrong_type_are_refused(tmp_path):
    noon = [datetime(2024, 3, 1, 12)]
    with pytest.raises(InvalidRequest, match="'trip_distance' must hold numbers"):
        trips.load(tlc_file(tmp_path, noon, noon, trip_distance=["far"]))
    with pytest.raises(InvalidRequest, match=r"'tpep_pickup_datetime' .* must hold timestamps"):
        trips.load(tlc_file(tmp_path, noon, noon, tpep_pickup_datetime=["noon"]))


def test_what_is_no_parquet_file_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("PULocationID,secret-row")
    for name in ("notes.txt", "absent.parquet"):
        with pytest.raises(InvalidRequest, match="cannot be read as a Parquet file") as refused:
            trips.load(tmp_path / name)
        assert "secret-row" not in str(refused.value)


def test_a_column_that_differs_in_letter_case_only_is_found(tmp_path):
    noon = [datetime(2024, 3, 1, 12)]
    path = tlc_file(tmp_path, noon, noon)
    table = pq.read_table(path)
    pq.write_table(table.rename_columns([name.upper() for name in table.column_names]), path)
    assert column(trips.load(path), "pickup_zone_id").tolist() == [132]


def test_real_green_trips_are_read_whole():
    table = trips.load(real("nyc_green_taxi"))
    assert table.schema == SCHEMA
    assert table.num_rows == 610_469
    assert trips.first_day(table) == date(2021, 1, 1)
    assert column(table, "distance_miles").max() == 293_931.4
    assert (column(table, "duration_seconds") <= 0).sum() == 723


def test_real_yellow_trips_with_coordinates_are_read_whole():
    table = trips.load(real("nyc_yellow_taxi_2016"))
    assert table.schema == SCHEMA
    assert table.num_rows == 61_574
    assert trips.first_day(table) == date(2016, 1, 1)
    inside = column(table, "pickup_zone_id") <= 256
    assert inside.mean() > 0.999
    assert 1.0 < np.median(column(table, "distance_miles")) < 1.6
