"""Partial statistics: the exact integer vectors of one shard, before any noise."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from ptklib.arrays import Ints
from ptklib.exceptions import InvalidParameterError, StateMismatchError

_SCHEMA = pa.schema(
    [
        pa.field("family", pa.string(), nullable=False),
        pa.field("fingerprint", pa.string(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("units", pa.list_(pa.field("item", pa.int64(), nullable=False)), nullable=False),
    ]
)


@dataclass(frozen=True, eq=False)
class PartialStatistics:
    """Integer vectors that add up, or join, over shards. **Private**: not DP, to be stored encrypted only.

    Parameters
    ----------
    family, fingerprint : str
        The estimator they belong to; parts of different configurations do not add.
    arrays : mapping of name to int64 array of shape (n_cells,)
        Sums, or quantised rows one after the other.
    """

    family: str
    fingerprint: str
    arrays: Mapping[str, Ints]

    def __repr__(self) -> str:
        return f"PartialStatistics(family={self.family!r})"  # a repr ends up in logs; the numbers must not

    def to_table(self) -> Any:
        """Return the parts as an Arrow table of one row per vector."""
        return pa.table(
            {
                "family": [self.family] * len(self.arrays),
                "fingerprint": [self.fingerprint] * len(self.arrays),
                "name": list(self.arrays),
                "units": [pa.array(units, type=pa.int64()) for units in self.arrays.values()],
            },
            schema=_SCHEMA,
        )

    @classmethod
    def from_table(cls, table: Any) -> Self:
        """Read what `to_table` wrote."""
        if table.schema.names != _SCHEMA.names or not table.num_rows:
            raise StateMismatchError("the table does not hold partial statistics")
        try:
            rows = table.cast(_SCHEMA).combine_chunks()
        except (pa.ArrowException, ValueError):  # its message quotes values
            raise StateMismatchError("the table does not hold partial statistics") from None
        families, fingerprints = set(rows["family"].to_pylist()), set(rows["fingerprint"].to_pylist())
        names = rows["name"].to_pylist()
        if len(families) != 1 or len(fingerprints) != 1 or len(set(names)) != len(names):
            raise StateMismatchError("the table mixes partial statistics of several configurations")
        arrays = {
            name: rows["units"][i].values.to_numpy(zero_copy_only=False).astype(np.int64)
            for i, name in enumerate(names)
        }
        return cls(families.pop(), fingerprints.pop(), arrays)


def merge_all(
    start: PartialStatistics, parts: Iterable[PartialStatistics], joined: Collection[str] = ()
) -> PartialStatistics:
    """Add the vectors of `parts` to those of `start`; the ones named in `joined` are put end to end.

    Raises
    ------
    StateMismatchError
        When a part belongs to another configuration or does not have the declared shape.
    """
    added = {name: units.copy() for name, units in start.arrays.items() if name not in joined}
    pieces = {name: [units] for name, units in start.arrays.items() if name in joined}
    if isinstance(parts, PartialStatistics):
        raise InvalidParameterError("parts must be a list of PartialStatistics")
    for part in parts:
        if not isinstance(part, PartialStatistics):
            raise InvalidParameterError("parts must be PartialStatistics: see partial_statistics(X)")
        if (part.family, part.fingerprint) != (start.family, start.fingerprint):
            raise StateMismatchError("partial statistics of different configurations cannot be merged")
        if part.arrays.keys() != start.arrays.keys() or any(
            units.ndim != 1 or (name in added and units.shape != added[name].shape)
            for name, units in part.arrays.items()
        ):
            raise StateMismatchError("partial statistics do not have the shape this estimator declares")
        for name, total in added.items():
            total += part.arrays[name]
        for name, piece in pieces.items():
            piece.append(part.arrays[name])
    joins = {name: np.concatenate(piece) for name, piece in pieces.items()}
    arrays = {name: joins[name] if name in joins else added[name] for name in start.arrays}
    return PartialStatistics(start.family, start.fingerprint, arrays)
