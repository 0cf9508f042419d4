"""The columns of released tables, and what is written to and read from them."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from ptklib.arrays import Floats
from ptklib.counts.contingency import Contingency
from ptklib.counts.features import Feature, key_column
from ptklib.counts.selected import SelectedKeys
from ptklib.domains import Domain
from ptklib.exceptions import CorruptStateError
from ptklib.names import check_name, class_suffixes, refuse_duplicates
from ptklib.row_noise import OWN_NOISE as NOISE
from ptklib.state import TableSchema


@dataclass(frozen=True)
class Layout:
    """Names of the columns that every feature's table has, one of each kind per class."""

    counts: tuple[str, ...]
    probabilities: tuple[str, ...]

    @classmethod
    def of(cls, classes: Domain) -> Self:
        """Return ``count_<class>`` and ``p_<class>`` for each class."""
        suffixes = class_suffixes(classes.values)
        return cls(
            tuple(f"count_{suffix}" for suffix in suffixes), tuple(f"p_{suffix}" for suffix in suffixes)
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are features of a row."""
        return (*self.counts, *self.probabilities)

    def schema(self, feature: Feature) -> TableSchema:
        """Return keys and columns of a feature's table."""
        key = check_name(key_column(feature), "a key column")
        numbers = (NOISE, *self.columns) if isinstance(feature, SelectedKeys) else self.columns
        refuse_duplicates([key, *numbers], "the columns of a released table")
        return TableSchema.of({key: feature.arrow_type}, numbers)

    def table(self, feature: Feature, contingency: Contingency, probabilities: Floats) -> Any:
        """Return the table of a feature."""
        data = {key_column(feature): contingency.keys, NOISE: np.sqrt(contingency.variance)}
        data |= dict(zip(self.counts, contingency.counts.T, strict=True))
        data |= dict(zip(self.probabilities, probabilities.T, strict=True))
        schema = self.schema(feature).schema
        return pa.table({name: data[name] for name in schema.names}, schema=schema)

    def defaults(self, feature: Feature, share: Floats, noise_std: float) -> dict[str, float]:
        """Return the entries for a value that the feature's table does not have."""
        defaults = dict.fromkeys(self.counts, 0.0)
        defaults |= dict(zip(self.probabilities, share.tolist(), strict=True))
        return defaults | {NOISE: noise_std} if isinstance(feature, SelectedKeys) else defaults

    def counts_of(self, table: Any) -> Floats:
        """Return the counts of a released table, of shape (n_values, n_classes)."""
        return np.column_stack([table.column(name).to_numpy() for name in self.counts])

    def selected(self, feature: SelectedKeys, table: Any) -> Contingency:
        """Return what a released table says of the values selected so far."""
        noise = table.column(NOISE).to_numpy()
        return Contingency(keys_of(feature, table), self.counts_of(table), noise * noise)

    def check(self, feature: SelectedKeys, table: Any) -> None:
        """Raise `CorruptStateError` unless `table` is one a release of the feature can have."""
        keys = keys_of(feature, table)
        if len(keys) > feature.max_values or not keys.equals(keys.unique().sort()):
            raise CorruptStateError(
                f"the keys of table {feature.column!r} are not distinct values in ascending order"
            )
        if (table.column(NOISE).to_numpy() < 0).any():
            raise CorruptStateError(f"table {feature.column!r} has a negative noise_std")


def keys_of(feature: SelectedKeys, table: Any) -> Any:
    """Return the keys of a released table in one piece."""
    keys = table.column(feature.column).combine_chunks()
    return keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
