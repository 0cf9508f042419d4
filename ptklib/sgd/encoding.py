"""Rows as integers: features from declared bounds and values, the label, and where a privacy unit begins."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import Any

import numpy as np

from ptklib.arrays import Bools, Floats, Ints
from ptklib.domains import OUTSIDE, Domain
from ptklib.exceptions import InvalidDomainError, InvalidParameterError, UnboundedSensitivityError
from ptklib.gram import COLUMNS_MAX, RADIUS, Block, block_of
from ptklib.inputs import InputTable
from ptklib.names import check_columns

_ROWS_AT_ONCE = 8192

INPUTS_MAX = COLUMNS_MAX
"""Inputs of a model: numeric columns, and declared values of the others."""


@dataclass(frozen=True, eq=False)
class Encoding:
    """How a row of features becomes the integer inputs of a model.

    Notes
    -----
    Numeric columns are clipped and quantised as in `Block`. A column with a domain becomes one input for each
    value: `one` where the row has it, and 0 elsewhere. The last input is always `one`. The encoding of a row
    depends on that row alone.
    """

    names: tuple[str, ...]
    """The features, in order."""
    block: Block | None
    """Of the numeric ones; None without any."""
    domains: tuple[Domain, ...]
    """Of the others."""

    @cached_property
    def one(self) -> int:
        """Integer for an input of 1: about a numeric column's bound, in a box of all of them."""
        return unit_of(0 if self.block is None else len(self.block.names))

    @cached_property
    def n_inputs(self) -> int:
        """Number of inputs, without the constant one."""
        return len(self.input_names)

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        """Return what each input is: a column, or ``column=value``."""
        numeric = () if self.block is None else self.block.names
        return (*numeric, *(f"{d.column}={value}" for d in self.domains for value in d.values))

    @cached_property
    def width(self) -> int:
        """Integers that are kept of a row: one for each numeric column, and one code for each other column."""
        return len(self.names)

    def read(self, table: InputTable) -> tuple[Ints, Bools]:
        """Return the integers of each row, (n_rows, width), and which rows have finite numbers in all columns."""
        kept, places = np.ones(table.n_rows, dtype=np.bool_), 0
        rows = np.zeros((table.n_rows, self.width), dtype=np.int64)
        if self.block is not None:
            places = len(self.block.names)
            columns = [table.numbers(name) for name in self.block.names]
            for start in range(0, table.n_rows, _ROWS_AT_ONCE):
                piece = slice(start, start + _ROWS_AT_ONCE)
                numbers = np.column_stack([column[piece] for column in columns])
                units = np.empty_like(numbers)
                finite = self.block.scale(numbers, np.empty_like(numbers), np.empty(len(numbers)), units)
                rows[piece, :places] = np.rint(units)
                if finite is not None:
                    kept[piece] = finite
        for place, domain in enumerate(self.domains, places):
            rows[:, place] = domain.encode(table.column(domain.column))
        return rows, kept

    def inputs(self, rows: Ints) -> Floats:
        """Return the inputs of some rows as whole numbers in float64, (n_rows, n_inputs + 1)."""
        places = 0 if self.block is None else len(self.block.names)
        inputs = (
            np.zeros((len(rows), self.n_inputs + 1)) if self.domains else np.empty((len(rows), places + 1))
        )
        inputs[:, :places] = rows[:, :places]
        inputs[:, -1] = self.one
        first = places
        for place, domain in enumerate(self.domains, places):
            (known,) = np.nonzero(rows[:, place] != OUTSIDE)
            inputs[known, first + rows[known, place]] = self.one
            first += len(domain)
        return inputs

    def scales(self) -> tuple[Floats, Floats]:
        """Return centre and width of each input: what it is measured from, and in, before it is a number near 1."""
        centres, widths = np.zeros(self.n_inputs), np.ones(self.n_inputs)
        if self.block is not None:
            places = len(self.block.names)
            centres[:places] = self.block.centres
            widths[:places] = self.block.half_widths * (self.block.step * self.one)
        return centres, widths


def unit_of(n_columns: int) -> int:
    """Return the integer for 1 among `n_columns` numbers of at most 1 that stay within `RADIUS` together."""
    return isqrt(RADIUS * RADIUS // max(n_columns, 1))


def encoding_of(features: Any, bounds: Any, max_norm: Any, domains: Any) -> Encoding:
    """Return the encoding of features as an estimator is given them."""
    listed = {} if domains is None else domains
    if not isinstance(listed, Mapping):
        raise InvalidDomainError("domains must map columns to their public values")
    names = _feature_names(features, bounds, listed)
    numeric = tuple(name for name in names if name not in listed)
    if unknown := sorted(set(listed) - set(names)):
        raise InvalidDomainError(f"domains has columns that are no features: {', '.join(map(repr, unknown))}")
    if not numeric and (bounds is not None or max_norm is not None):
        raise InvalidParameterError(
            "bounds and max_norm are for features without a domain, and there are none"
        )
    block = block_of(numeric, bounds, max_norm) if numeric else None
    categories = tuple(Domain.of(name, listed[name]) for name in names if name in listed)
    encoding = Encoding((*numeric, *(domain.column for domain in categories)), block, categories)
    if len(numeric) + sum(map(len, categories)) > INPUTS_MAX:
        raise InvalidParameterError(f"the features make more than {INPUTS_MAX} inputs")
    if len(set(encoding.input_names)) != encoding.n_inputs:
        raise InvalidDomainError("the features have inputs of the same name: rename a column or a value")
    return encoding


def _feature_names(features: Any, bounds: Any, domains: Mapping[str, Any]) -> tuple[str, ...]:
    if features is not None:
        return check_columns(features, "features")
    if not isinstance(bounds, Mapping) and (bounds is not None or not domains):
        raise UnboundedSensitivityError("give features, or bounds={column: (low, high)}, or domains")
    declared = [*(bounds or {}), *domains]
    return check_columns(declared, "features")
