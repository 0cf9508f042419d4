"""Blocks of rows: divided for life into rows to train on and rows to test on, with a budget each."""

from dataclasses import dataclass
from hashlib import blake2b
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from ptklib.adaptive.grants import Grant
from ptklib.arrays import Bools, Ints
from ptklib.bounding import unit_codes
from ptklib.exceptions import SchemaError
from ptklib.mechanisms.coins import tossed
from ptklib.tables import as_arrow

_UNITS_MAX = 2**40
"""More units than a block has."""


@dataclass(frozen=True, eq=False)
class Block:
    """Rows that arrived together: **private**, except the rest of the budget."""

    train: Any
    test: Any
    """Arrow tables."""
    budget: Grant
    """What may still be spent on any row of the block."""


class Divider:
    """Says for life whether the rows of a unit are trained on or tested on.

    Parameters
    ----------
    unit : str, optional
        Column of the privacy unit. A secret key decides for each of its values, in all blocks alike. Without it
        a fresh coin decides for each row.
    test_share : float
    key : bytes
        Secret, of 32 random bytes.
    """

    def __init__(self, unit: str | None, test_share: float, key: bytes) -> None:
        self._unit, self._share, self._key = unit, test_share, key
        self._numbers = count()

    def divide(self, rows: Any, budget: Grant) -> Block:
        """Return a block.

        Notes
        -----
        The unit's column becomes numbers that no other block has. So a training over several blocks bounds the
        rows of a unit block by block: rows of one block take no other block's place, and removing them is one removal.
        Rows without a unit belong to nobody and are left out.
        """
        table = as_arrow(rows)
        if self._unit is None:
            tested = tossed(table.num_rows, self._share)
            return Block(table.filter(pa.array(~tested)), table.filter(pa.array(tested)), budget)
        tested, codes = self._tested(table)
        place = table.column_names.index(self._unit)
        numbered = table.set_column(place, self._unit, pa.array(codes + next(self._numbers) * _UNITS_MAX))
        train, test = (numbered.filter(pa.array((codes >= 0) & side)) for side in (~tested, tested))
        return Block(train, test, budget)

    def _tested(self, table: Any) -> tuple[Bools, Ints]:
        if self._unit not in table.column_names:
            raise SchemaError(f"column {self._unit!r} is missing: it names the privacy unit")
        column = table.column(self._unit).combine_chunks()
        codes = unit_codes(column)
        places = np.flatnonzero(codes >= 0)
        _, first, where = np.unique(codes[places], return_index=True, return_inverse=True)
        named = column.take(pa.array(places[first])).to_pylist()
        chosen = np.array([self._chosen(value) for value in named], dtype=np.bool_)
        tested = np.zeros(len(codes), dtype=np.bool_)
        tested[places] = chosen[where]
        return tested, codes

    def _chosen(self, value: object) -> bool:
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        digest = blake2b(repr(number).encode(), key=self._key, digest_size=8).digest()
        return int.from_bytes(digest) < self._share * 2**64


def joined(tables: list[Any]) -> Any:
    """Return the rows of some blocks as one Arrow table."""
    return pa.concat_tables(tables, promote_options="permissive")
