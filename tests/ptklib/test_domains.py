"""Codes of keys at the edges of a domain."""

import numpy as np
import pyarrow as pa
import pytest

from ptklib.domains import OUTSIDE, Domain, product_codes
from ptklib.exceptions import InvalidDomainError, SchemaError

EDGES = np.array([-(2**63), -1, 2, 3, 4, 5, 6, 2**63 - 1])


@pytest.mark.parametrize("values", [range(3, 6), [3, 4, 5], np.arange(3, 6)])
def test_keys_beside_a_run_of_integers_are_outside(values: object) -> None:
    domain = Domain.of("hour", values)
    expected = [OUTSIDE, OUTSIDE, OUTSIDE, 0, 1, 2, OUTSIDE, OUTSIDE]
    assert domain.encode(EDGES).tolist() == expected
    assert domain.encode(EDGES.astype(np.float64)).tolist() == expected


def test_runs_at_the_ends_of_64_bits_do_not_wrap() -> None:
    low, high = -(2**63), 2**63 - 1
    assert Domain.of("k", [low, low + 1]).encode(np.array([low, low + 1, high, 0])).tolist() == [0, 1, -1, -1]
    assert Domain.of("k", [high - 1, high]).encode(np.array([high - 1, high, low, 0])).tolist() == [
        0,
        1,
        -1,
        -1,
    ]


def test_ranges_of_any_step_are_domains() -> None:
    assert Domain.of("k", range(6, 0, -2)).encode(np.array([6, 5, 4, 2, 0])).tolist() == [0, -1, 1, 2, -1]


def test_a_combination_with_one_key_outside_is_outside() -> None:
    domains = (Domain.of("a", range(2)), Domain.of("b", range(3)))
    codes = product_codes(domains, [np.array([0, 1, OUTSIDE, 1]), np.array([2, 0, 1, OUTSIDE])])
    assert codes.tolist() == [2, 3, OUTSIDE, OUTSIDE]


@pytest.mark.parametrize("values", [{"a", "b"}, frozenset({1}), {"a": 1}])
def test_values_without_an_order_are_no_domain(values: object) -> None:
    with pytest.raises(InvalidDomainError, match="sequence"):
        Domain.of("zone", values)


@pytest.mark.parametrize(
    ("values", "column"),
    [
        (range(3, 6), EDGES),
        ([5, 3, 9], EDGES),
        (range(3, 6), EDGES.astype(np.float64)),
        (range(3, 6), pa.array([3, None, 5, 7] * 2)),
        (["a", "b"], np.array(["b", "c", None, "a"] * 2, dtype=object)),
        ([False, True], np.array([True, False] * 4)),
    ],
)
def test_codes_read_piece_by_piece_are_those_of_the_whole_column(values: object, column: object) -> None:
    domain = Domain.of("k", values)
    read, whole = domain.reader(column), domain.encode(column)
    for rows in (slice(0, 8), slice(0, 3), slice(3, 8), slice(2, 2), slice(6, 100)):
        assert read(rows).tolist() == whole[rows].tolist()
    with pytest.raises(SchemaError):
        domain.reader(np.array([1.5j] * 8))
