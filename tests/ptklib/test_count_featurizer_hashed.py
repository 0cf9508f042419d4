"""Hashed features: buckets instead of values, the same on every machine and for every type."""

import subprocess
import sys
from hashlib import blake2b
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ptklib import CountFeaturizer, DPEstimator, ReleasedState
from ptklib.exceptions import InvalidDomainError, InvalidParameterError, SchemaError
from ptklib.hashing import HashedDomain, bucket_of
from tests.support.families import rows

WORD = 2**64


def mixed(x: int, seed: int) -> int:
    """Hash an integer as the documentation says, in Python's own integers."""

    def mix(z: int) -> int:
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % WORD
        z = (z ^ z >> 27) * 0x94D049BB133111EB % WORD
        return z ^ z >> 31

    return mix(x % WORD ^ mix((seed + 0x9E3779B97F4A7C15) % WORD))


def hashed_trips(**params: Any) -> CountFeaturizer:
    given = {
        "label": "long",
        "classes": (False, True),
        "hash_buckets": {"zone": 16, "hour": 8},
        "epsilon": 1.0,
        **params,
    }
    return CountFeaturizer(**given)


@pytest.fixture
def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptklib.release.ReleasePlan.draw", lambda self, units: dict(units))


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_buckets_are_the_documented_hash(seed: int) -> None:
    integers = [0, 1, -1, 7, 2**63 - 1, -(2**63)]
    assert bucket_of(np.array(integers), 1000, seed).tolist() == [mixed(x, seed) % 1000 for x in integers]
    strings = ["", "a", "é", "e\u0301", "\U0001f695", "x" * 1000, "nul\0l"]
    digests = [blake2b(s.encode(), digest_size=8, salt=seed.to_bytes(16, "little")).digest() for s in strings]
    assert bucket_of(strings, 997, seed).tolist() == [int.from_bytes(d, "little") % 997 for d in digests]


def test_buckets_are_fixed_for_ever() -> None:
    """These numbers are in published states: a change here needs another name for the hash."""
    assert bucket_of([1, 2, "a", "é", True], 1000).tolist() == [807, 745, 928, 963, 807]
    assert bucket_of([1, "a"], 1000, seed=3).tolist() == [546, 872]


@pytest.mark.parametrize(
    "dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"]
)
def test_integers_of_every_width_share_their_bucket(dtype: str) -> None:
    values = np.array([0, 1, 5, 100])
    expected = bucket_of(values, 4096).tolist()
    assert bucket_of(values.astype(dtype), 4096).tolist() == expected
    assert bucket_of(pa.array(values.astype(dtype)), 4096).tolist() == expected
    assert bucket_of(list(values.astype(dtype)), 4096).tolist() == expected


def test_unsigned_integers_beyond_63_bits_have_a_bucket() -> None:
    values = [2**64 - 1, 2**63, 3]
    expected = [mixed(x, 0) % 4096 for x in values]
    assert bucket_of(np.array(values, dtype=np.uint64), 4096).tolist() == expected
    assert bucket_of(pa.array(values, type=pa.uint64()), 4096).tolist() == expected
    assert bucket_of(values, 4096).tolist() == expected
    gaps = pa.array([2**64 - 1, None, 3], type=pa.uint64())
    assert bucket_of(gaps, 4096).tolist() == [expected[0], -1, expected[2]]
    assert bucket_of([2**64 + 3], 4096).tolist() == [expected[2]]


def test_strings_share_their_bucket_however_they_are_stored() -> None:
    values = ["b", "a", "b", "ü"]
    expected = bucket_of(values, 4096).tolist()
    for column in (
        np.array(values),
        np.array(values, dtype=object),
        pd.Series(values, dtype="string"),
        pd.Series(values, dtype="category"),
        pa.array(values),
        pa.array(values, type=pa.large_string()),
        pa.array(values).dictionary_encode(),
        pa.chunked_array([values[:1], values[1:]]),
    ):
        assert bucket_of(column, 4096).tolist() == expected, type(column)


def test_booleans_are_zero_and_one() -> None:
    expected = bucket_of([0, 1], 4096).tolist()
    for column in ([False, True], np.array([False, True]), pa.array([False, True])):
        assert bucket_of(column, 4096).tolist() == expected
    assert bucket_of(pa.array([True, None]), 4096).tolist() == [expected[1], -1]


def test_entries_of_objects_are_hashed_one_by_one() -> None:
    odd = [1, "1", True, 2.0, 2.5, None, float("nan"), float("inf"), b"x", "\ud800", "y" * 1025, {}, pd.NA]
    alone = [int(bucket_of([value], 1 << 20)[0]) for value in odd]
    assert bucket_of(odd, 1 << 20).tolist() == alone
    assert alone[4:] == [-1] * 9
    assert alone[0] == alone[2] != alone[1]
    assert alone[3] == bucket_of(2, 1 << 20)[0]


def test_one_value_may_be_asked_for() -> None:
    assert bucket_of("a", 1000).tolist() == [928]
    assert bucket_of(1, 1000).tolist() == [807]


@pytest.mark.long
def test_another_process_finds_the_same_buckets() -> None:
    code = "from ptklib.hashing import bucket_of; print(bucket_of(['a', 'ü', 7], 10**6, 9).tolist())"
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("0", "1")
    }
    assert runs == {f"{bucket_of(['a', 'ü', 7], 10**6, 9).tolist()}\n"}


def test_values_spread_evenly_over_buckets() -> None:
    width = 64
    for values in (np.arange(64_000), np.arange(64_000) * 4096, [f"value {i}" for i in range(64_000)]):
        found = np.bincount(bucket_of(values, width), minlength=width)
        chi_squared = float(((found - 1000) ** 2 / 1000).sum())
        assert 63 - 5 * 126**0.5 < chi_squared < 63 + 6 * 126**0.5  # fixed values: no false alarm


def test_columns_that_hold_no_keys_are_refused() -> None:
    for column in (np.array([1 + 0j]), np.array(["2020-01-01"], dtype="datetime64[D]"), np.array([b"x"])):
        with pytest.raises(SchemaError):
            bucket_of(column, 8)
    with pytest.raises(SchemaError):
        bucket_of(pa.array([[1]]), 8)


@pytest.mark.usefixtures("without_noise")
def test_rows_are_counted_in_the_bucket_of_their_value() -> None:
    data = rows(500)
    estimator = hashed_trips().fit(data)
    table = estimator.tables_["zone"]
    assert table.column_names == ["zone_bucket", "count_false", "count_true", "p_false", "p_true"]
    assert table["zone_bucket"].to_pylist() == list(range(16))
    expected = np.zeros((16, 2))
    np.add.at(expected, (bucket_of(data["zone"], 16), data["long"].to_numpy().astype(int)), 1)
    assert table["count_false"].to_pylist() == expected[:, 0].tolist()
    assert table["count_true"].to_pylist() == expected[:, 1].tolist()
    found = estimator.transform(data[:3])
    buckets = estimator.bucket_of("zone", data["zone"][:3])
    assert found[:, :2].tolist() == expected[buckets].tolist()


def test_missing_values_add_nothing_and_get_the_overall_share() -> None:
    data = rows(50).astype(object)
    data.loc[:9, "zone"] = None
    estimator = hashed_trips()
    part = estimator.partial_statistics(data)
    assert part.arrays["zone"].sum() == 40
    assert part.arrays["hour"].sum() == 50
    estimator.fit(data)
    assert estimator.transform(data[:1])[0, :4].tolist() == list(estimator.defaults_["zone"].values())


def test_the_seed_is_part_of_the_state() -> None:
    estimator = hashed_trips(hash_seed=77).fit(rows())
    again = DPEstimator.from_state(ReleasedState.from_files(estimator.to_state().to_files()))
    assert again.hash_seed == 77
    assert np.array_equal(again.bucket_of("zone", ["a", "b"]), bucket_of(["a", "b"], 16, 77))
    assert HashedDomain.of("zone", 16, 77).encode(np.array([5])).tolist() == bucket_of(5, 16, 77).tolist()


def test_one_width_stands_for_all_features_that_are_not_declared() -> None:
    estimator = hashed_trips(features=["hour", "zone", "fare"], domains={"hour": range(4)}, hash_buckets=32)
    schemas = estimator.table_schemas()
    assert {name: schema.keys for name, schema in schemas.items()} == {
        "hour": ("hour",),
        "zone": ("zone_bucket",),
        "fare": ("fare_bucket",),
    }
    assert [c.size for c in estimator._components()] == [8, 64, 64]


def test_buckets_of_a_feature_that_is_not_hashed_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="not a hashed feature"):
        hashed_trips().bucket_of("fare", [1])


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"hash_buckets": 32}, InvalidDomainError),
        ({"hash_buckets": {"zone": 1}}, InvalidDomainError),
        ({"hash_buckets": {"zone": 2.5}}, InvalidDomainError),
        ({"hash_buckets": {"zone": True}}, InvalidDomainError),
        ({"hash_buckets": {"zone": None}}, InvalidDomainError),
        ({"hash_buckets": {"zone": 2**24 + 1}}, InvalidDomainError),
        ({"hash_buckets": {"zone": 2**24}}, InvalidDomainError),
        ({"hash_buckets": True}, InvalidParameterError),
        ({"hash_buckets": "zone"}, InvalidDomainError),
        ({"hash_buckets": ["zone"]}, InvalidDomainError),
        ({"hash_buckets": {"a" * 60: 8}}, InvalidParameterError),
        ({"hash_buckets": {"zone": 8}, "domains": {"zone": ["a"]}}, InvalidParameterError),
        ({"features": ["zone"]}, InvalidDomainError),
        ({"features": ["zone", "hour", "fare"]}, InvalidDomainError),
        ({"hash_seed": -1}, InvalidParameterError),
        ({"hash_seed": 2**64}, InvalidParameterError),
        ({"hash_seed": 1.0}, InvalidParameterError),
        ({"hash_seed": True}, InvalidParameterError),
    ],
    ids=str,
)
def test_unusable_parameters_are_refused_before_data(params: dict[str, Any], error: type[Exception]) -> None:
    estimator = hashed_trips(**params)
    with pytest.raises(error):
        estimator.declared_loss()
    with pytest.raises(error):
        estimator.fit(object())


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"features": ["zone", "hour", "fare", "tip"]}, "add 'fare', 'tip'$"),
        ({"features": ["zone"]}, "'hour' not in features: add there, or remove here$"),
        ({"features": ["zone", "fare"]}, "add 'fare'; 'hour' not in features"),
        ({"features": ["zone"], "domains": {"zone": ["a"]}, "hash_buckets": 8}, "there are none$"),
        ({"hash_buckets": {}}, "name at least one$"),
    ],
)
def test_the_column_that_is_declared_too_little_or_too_much_is_named(given: Any, told: str) -> None:
    with pytest.raises(InvalidDomainError, match=told.replace("$", r"(\n|$)")):
        hashed_trips(**given).declared_loss()
