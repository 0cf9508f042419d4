"""Privacy units in a table: their ids for the keyed hash, and the rows that a window keeps of each."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ptkstore.application.windows.privacy_units import kept_rows, units_of
from ptkstore.errors import InvariantBroken

ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2**64 - 1), st.integers(0, 2)), max_size=60)


def arrays(rows: list[tuple[int, int, int]]) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    units, lots, groups = np.array(rows, dtype=object).reshape(-1, 3).T
    return units.astype(np.int64), lots.astype(np.uint64), groups.astype(np.int64)


def ids(*values: Any, kind: pa.DataType | None = None) -> list[bytes]:
    codes, found = units_of(pa.chunked_array([pa.array(values, kind)]))
    return [found[code].tobytes() for code in codes]


# ids


def test_an_id_is_a_digest_of_the_value_and_its_type() -> None:
    def digest(content: bytes) -> bytes:
        return hashlib.blake2b(content, digest_size=16, person=b"ptk privacy unit").digest()

    assert ids(1, -1, 2**63 - 1) == [
        digest(b"i" + value.to_bytes(8, "little", signed=True)) for value in (1, -1, 2**63 - 1)
    ]
    assert ids("1", "", "ä\x00") == [digest(b"s" + value.encode()) for value in ("1", "", "ä\x00")]
    assert ids(1) != ids("1")


@pytest.mark.parametrize("values", [["b", "a", "b", "c", "a"], [7, -7, 7, 0, 7]])
def test_equal_values_share_an_id_whatever_the_order_and_the_chunks(values: list[Any]) -> None:
    whole = dict(zip(values, ids(*values), strict=True))
    assert len(set(whole.values())) == len(whole)
    chunks = pa.chunked_array([values[:2], [], values[2:][::-1]])
    codes, found = units_of(chunks)
    assert [found[code].tobytes() for code in codes] == [whole[v] for v in [*values[:2], *values[2:][::-1]]]


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
def test_no_rows_have_no_units(kind: pa.DataType) -> None:
    for column in (pa.chunked_array([], kind), pa.chunked_array([pa.array([], kind)])):
        codes, found = units_of(column)
        assert (len(codes), len(found)) == (0, 0)


def test_a_column_of_another_type_names_nobody() -> None:
    with pytest.raises(InvariantBroken):
        ids(1.5)


# bounding


@given(rows=ROWS, most=st.integers(1, 4), grouped=st.booleans())
def test_no_unit_keeps_more_than_the_bound_and_none_less_than_it_may(
    rows: list[tuple[int, int, int]], most: int, grouped: bool
) -> None:
    units, lots, groups = arrays(rows)
    kept = kept_rows(units, lots, most, groups if grouped else None)
    assert kept.tolist() == sorted(set(kept.tolist()))
    for unit in set(units.tolist()):
        own = np.flatnonzero(units == unit)
        first = own[np.argmin(lots[own])]
        allowed = own[groups[own] == groups[first]] if grouped else own
        mine = [place for place in kept if units[place] == unit]
        assert len(mine) == min(most, len(allowed))
        assert sorted(lots[mine].tolist()) == sorted(lots[allowed].tolist())[:most]
        if grouped:
            assert {groups[place] for place in mine} == {groups[first]}


@given(rows=ROWS, most=st.integers(1, 4), grouped=st.booleans(), gone=st.integers(0, 5))
def test_a_unit_more_or_less_changes_nothing_about_the_others(
    rows: list[tuple[int, int, int]], most: int, grouped: bool, gone: int
) -> None:
    def kept(some: list[tuple[int, int, int]]) -> Counter[tuple[int, int, int]]:
        units, lots, groups = arrays(some)
        return Counter(some[i] for i in kept_rows(units, lots, most, groups if grouped else None))

    more, less = kept(rows), kept([row for row in rows if row[0] != gone])
    assert not less - more
    lost = more - less
    assert {unit for unit, _, _ in lost} <= {gone}
    assert sum(lost.values()) <= most
    assert not grouped or len({group for _, _, group in lost}) <= 1


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 2**64 - 1), st.integers(0, 2)), unique_by=lambda r: r[1]
    )
)
def test_the_order_of_rows_decides_nothing(rows: list[tuple[int, int, int]]) -> None:
    def kept(some: list[tuple[int, int, int]]) -> set[tuple[int, int, int]]:
        units, lots, groups = arrays(some)
        return {some[i] for i in kept_rows(units, lots, 2, groups)}

    assert kept(rows) == kept(rows[::-1])


def test_every_row_of_a_unit_is_kept_equally_often() -> None:
    """2,000 units of 5 rows keep 2 each: chi-square over the places, false alarm once in 10**8 runs.

    Lots come from a cryptographic source, as the hashes of random ids do.
    """
    import secrets

    n_units, n_rows, most = 2_000, 5, 2
    units = np.repeat(np.arange(n_units), n_rows)
    lots = np.frombuffer(secrets.token_bytes(8 * len(units)), dtype=np.uint64)
    kept = kept_rows(units, lots, most)
    pairs = Counter(zip(*(kept.reshape(n_units, most) % n_rows).T.tolist(), strict=True))
    assert set(pairs) <= {(i, j) for i in range(n_rows) for j in range(i + 1, n_rows)}
    observed = [pairs[i, j] for i in range(n_rows) for j in range(i + 1, n_rows)]
    assert stats.chisquare(observed).pvalue > 1e-8
