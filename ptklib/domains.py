"""Public domains: keys become integer codes without looking at what else is in the data."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set, Sized
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ptklib.arrays import Floats, Ints
from ptklib.arrow_types import dense
from ptklib.exceptions import InvalidDomainError, SchemaError
from ptklib.scalars import number_of

OUTSIDE = -1
"""Code of every value that is not in the domain: missing, unknown, not an integer."""

CELLS_MAX = 2**24

_BLOCK = 2**14
"""Rows whose intermediate results stay in the processor's cache."""

Key = int | str | bool
Kind = Literal["int64", "string", "bool"]
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Domain:
    """The public values of one column, all of one kind: integers, strings or booleans.

    Notes
    -----
    The code of a row depends on that row alone. Otherwise one added row could move many others, and the
    sensitivity would not hold; this is why columns of Python objects are read entry by entry.
    """

    column: str
    values: tuple[Key, ...]
    kind: Kind

    @classmethod
    def of(cls, column: str, values: object) -> "Domain":
        """Read the values declared for `column`."""
        if (
            values is None
            or isinstance(values, str | bytes | Set | Mapping)
            or not isinstance(values, Iterable)
        ):
            raise InvalidDomainError(
                f"the domain of {column!r} must be a sequence of values, for example range(24)"
            )
        if isinstance(values, Sized) and len(values) > CELLS_MAX:
            raise InvalidDomainError(f"the domain of {column!r} holds more than {CELLS_MAX} values")
        if isinstance(values, range):
            return _of_range(column, values)
        plain = tuple(values)
        kinds = set(map(type, plain))
        if any(issubclass(kind, np.generic) for kind in kinds):
            plain = tuple(v.item() if isinstance(v, np.generic) else v for v in plain)
            kinds = set(map(type, plain))
        if len(kinds) > 1 or not plain:
            for value in plain:
                _refuse_other_types(column, value)
            raise InvalidDomainError(
                f"the domain of {column!r} must hold at least one value and only one type"
            )
        if len(set(plain)) != len(plain):
            raise InvalidDomainError(f"the domain of {column!r} repeats a value")
        return cls(column, plain, _kind_of(column, plain))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def arrow_type(self) -> Any:
        """The Arrow type of the values."""
        return {"int64": pa.int64(), "string": pa.string(), "bool": pa.bool_()}[self.kind]

    @cached_property
    def array(self) -> Any:
        """The values as an Arrow array, in code order."""
        return pa.array(self.values, type=self.arrow_type)

    def encode(self, column: Any) -> Ints:
        """Return the code of each entry of a numpy or Arrow column, or `OUTSIDE`.

        Raises
        ------
        SchemaError
            When the type of the column cannot hold values of this domain.
        """
        if isinstance(column, np.ndarray):
            return self._encode_numpy(column)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_null(column.type):
            return np.full(len(column), OUTSIDE, dtype=np.int64)
        if self.kind == "string":
            if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
                raise self._mismatch(str(column.type))
            return self._index_strings(column)
        if pa.types.is_decimal(column.type) and self.kind == "int64":
            return self._encode_objects(dense(column))
        if pa.types.is_floating(column.type):
            column = column.cast(pa.float64())
        elif not (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
            raise self._mismatch(str(column.type))
        filler = False if pa.types.is_boolean(column.type) else 0
        filled = pc.fill_null(column, pa.scalar(filler, type=column.type))
        codes = self._encode_numpy(dense(filled))
        codes[dense(column.is_null())] = OUTSIDE
        return codes

    def reader(self, column: Any) -> Callable[[slice], Ints]:
        """Return what reads the codes of some rows of a column, as `encode` gives them.

        A run of integers is encoded when it is read, so that codes stay in the processor's cache; anything else before.
        """
        if isinstance(column, np.ndarray) and column.dtype == np.int64 and self.kind == "int64":
            first, length = self._run, len(self.values)
            if first is not None:
                return lambda rows: _run_codes(column[rows], first, length)
        codes = self.encode(column)
        return lambda rows: codes[rows]

    def _encode_numpy(self, column: npt.NDArray[Any]) -> Ints:
        kind = column.dtype.kind
        if kind == "O":
            return self._encode_objects(column)
        if kind == "U" and self.kind == "string":
            return self._encode_objects(column.astype(object))
        if kind == "b" and self.kind == "bool":
            return self._lookup(column.astype(np.int64))
        if kind in "iuf" and self.kind == "int64":
            return self._lookup(column)
        raise self._mismatch(str(column.dtype))

    def _encode_objects(self, column: npt.NDArray[np.object_]) -> Ints:
        if self.kind == "string" and pd.api.types.infer_dtype(column, skipna=True) == "string":
            try:
                return self._index_strings(pa.array(column, type=pa.string(), from_pandas=True))
            except (UnicodeEncodeError, pa.ArrowException):  # read entry by entry what is no string
                pass
        index, kind = self._index, self.kind
        return np.fromiter((_code(index, kind, value) for value in column), dtype=np.int64, count=len(column))

    def _index_strings(self, column: Any) -> Ints:
        value_set = self.array.cast(column.type)
        codes = pc.fill_null(pc.index_in(column, value_set=value_set), OUTSIDE)
        return dense(codes).astype(np.int64)

    def _lookup(self, keys: npt.NDArray[Any]) -> Ints:
        if keys.dtype == np.int64 and self._run is not None:
            return _run_codes(keys, self._run, len(self.values))
        values, order = self._sorted
        with np.errstate(invalid="ignore"):
            whole = keys.astype(np.int64)
            same = whole == keys  # false for NaN, infinities, fractions
        if keys.dtype.kind == "u":
            same = keys <= np.uint64(_INT64_MAX)
        elif keys.dtype.kind == "f":
            same &= np.abs(keys) < 2.0**63
        low, high = int(values[0]), int(values[-1])
        if high - low == len(values) - 1:  # a run of integers needs no search
            same &= (whole >= low) & (whole <= high)
            place = np.where(same, whole, low) - low
        else:
            place = np.minimum(np.searchsorted(values, whole), len(values) - 1)
            same &= values[place] == whole
        return np.where(same, order[place], OUTSIDE)

    @cached_property
    def _index(self) -> dict[Key, int]:
        return {value: code for code, value in enumerate(self.values)}

    @cached_property
    def _run(self) -> int | None:
        """The first of values that follow each other in steps of 1."""
        first = int(self.values[0])
        return first if self.values == tuple(range(first, first + len(self.values))) else None

    @cached_property
    def _sorted(self) -> tuple[Ints, Ints]:
        values = np.asarray(self.values, dtype=np.int64)
        order = np.argsort(values, kind="stable")
        return values[order], order.astype(np.int64)

    def _mismatch(self, actual: str) -> SchemaError:
        return SchemaError(f"column {self.column!r} has type {actual}, its domain needs {self.kind}")


def typed_values(domain: Domain) -> npt.NDArray[Any]:
    """Return the values of a domain as an array of their own type; strings are objects."""
    values: Sequence[Any] = domain.values
    return np.asarray(values, dtype=object if domain.kind == "string" else None)


def stand_out(counts: Floats, noise_std: float, times: Ints | None = None) -> bool:
    """Return whether independent noisy counts, each taken so many times, add up to clearly more than their noise."""
    if times is None:
        return bool(counts.sum() > _STANDS_OUT * noise_std * np.sqrt(counts.size))
    return bool((times * counts).sum() > _STANDS_OUT * noise_std * np.sqrt((times * times).sum()))


_STANDS_OUT = 5.0


@lru_cache(maxsize=32)
def _of_range(column: str, values: range) -> Domain:
    """Return a domain of integers that needs no check of each; kept, since every step of a fit asks for it."""
    if not values:
        raise InvalidDomainError(f"the domain of {column!r} must hold at least one value and only one type")
    plain = tuple(values)
    return Domain(column, plain, _kind_of(column, plain))


def product_codes(domains: tuple[Domain, ...], codes: list[Ints]) -> Ints:
    """Return the code of each combination of keys; the last key runs fastest."""
    if len(domains) == 1:
        return codes[0]
    combined = np.zeros_like(codes[0])
    outside = np.zeros(len(combined), dtype=np.bool_)
    for domain, part in zip(domains, codes, strict=True):
        outside |= part == OUTSIDE
        combined = combined * len(domain) + part
    combined[outside] = OUTSIDE
    return combined


def product_size(domains: Sequence[Sized], cells_per_group: int = 1) -> int:
    """Return the number of combinations, refusing more cells than `CELLS_MAX`."""
    size = prod(len(domain) for domain in domains)
    if size * cells_per_group > CELLS_MAX:
        raise InvalidDomainError(f"the domains span more than {CELLS_MAX} cells: give smaller domains")
    return size


def product_columns(domains: tuple[Domain, ...]) -> list[Any]:
    """Return the key columns of the product, in the order of `product_codes`."""
    size, columns, repeat = product_size(domains), [], product_size(domains)
    if len(domains) == 1:
        return [domains[0].array]
    for domain in domains:
        repeat //= len(domain)
        codes = np.arange(size) // repeat % len(domain)
        columns.append(domain.array.take(pa.array(codes)))
    return columns


def _kind_of(column: str, values: tuple[Any, ...]) -> Kind:
    """Return the kind of values that all have the type of the first."""
    _refuse_other_types(column, values[0])
    if isinstance(values[0], bool):
        return "bool"
    if isinstance(values[0], int):
        if min(values) < _INT64_MIN or max(values) > _INT64_MAX:
            raise InvalidDomainError(f"the domain of {column!r} has an integer beyond 64 bits")
        return "int64"
    try:
        "".join(values).encode()
    except UnicodeEncodeError:
        raise InvalidDomainError(f"the domain of {column!r} has a string that is not UTF-8") from None
    return "string"


def _refuse_other_types(column: str, value: object) -> None:
    if not isinstance(value, int | str):
        raise InvalidDomainError(
            f"the domain of {column!r} may hold integers, strings or booleans, not {type(value).__name__}"
        )


def _run_codes(keys: Ints, first: int, length: int) -> Ints:
    """Return the place of each key in ``first .. first + length - 1``, or `OUTSIDE`."""
    codes = np.empty(len(keys), dtype=np.int64)
    for start in range(0, len(keys), _BLOCK):
        rows = slice(start, start + _BLOCK)
        places = keys[rows].view(np.uint64) - np.uint64(first % 2**64)  # wraps: keys below end far above
        codes[rows] = np.where(places < length, places.view(np.int64), OUTSIDE)
    return codes


def _code(index: dict[Key, int], kind: Kind, value: object) -> int:
    """Return the code of one Python object by the rules columns of that type follow."""
    if isinstance(value, bool | np.bool_):
        return index.get(bool(value), OUTSIDE) if kind == "bool" else OUTSIDE
    if isinstance(value, str):
        return index.get(value, OUTSIDE) if kind == "string" else OUTSIDE
    number = number_of(value) if kind == "int64" else None
    return OUTSIDE if number is None else index.get(number, OUTSIDE)  # type: ignore[arg-type]  # 3.0 finds 3
