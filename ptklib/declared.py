"""Declared values of released columns: what a column of team code may hold."""

from collections.abc import Mapping
from typing import Any

import pyarrow.compute as pc

from ptklib.domains import CELLS_MAX, OUTSIDE, Domain
from ptklib.exceptions import InvalidParameterError
from ptklib.scalars import TEXT_BYTES_MAX

_RANGE = {"first", "last"}
_INT64_MAX = 2**63 - 1
_KINDS = ("int64", "string", "bool")


class DeclaredValues:
    """The finite, public set of values of one released column.

    Parameters
    ----------
    kind : str
        Arrow type of the column: int64, string or bool.
    given : list of values, or {"first": int, "last": int} for integers
        The second form means all integers from `first` to `last`, both included.

    Raises
    ------
    InvalidParameterError
        When `given` is neither, or has values of another type.
    """

    def __init__(self, column: str, kind: str, given: Any) -> None:
        if kind not in _KINDS:
            raise InvalidParameterError(
                f"the domain of {column!r}: a column of type {kind} has numbers, which are not declared"
            )
        self._range = _range_of(column, given) if isinstance(given, Mapping) else None
        self._domain = None if self._range is not None else Domain.of(column, given)
        actual = "int64" if self._domain is None else self._domain.kind
        if actual != kind:
            raise InvalidParameterError(
                f"the domain of {column!r} holds {actual}, the column has type {kind}"
            )
        texts = () if self._domain is None or kind != "string" else self._domain.values
        if any(len(str(text).encode()) > TEXT_BYTES_MAX for text in texts):
            raise InvalidParameterError(
                f"the domain of {column!r} has a text of more than {TEXT_BYTES_MAX} bytes"
            )

    def hold(self, values: Any) -> bool:
        """Return whether all entries of an Arrow column are declared."""
        if self._range is not None:
            if len(values) == 0:
                return True
            ends = pc.min_max(values).as_py()
            return bool(self._range[0] <= ends["min"] and ends["max"] <= self._range[1])
        assert self._domain is not None
        return not bool((self._domain.encode(values) == OUTSIDE).any())


def as_declared(values: Any) -> Any:
    """Return values as they travel in a spec: a run of integers by its ends, anything else as a list."""
    if isinstance(values, Mapping):
        return dict(values)
    listed = list(values)
    if set(map(type, listed)) == {int} and listed == list(range(listed[0], listed[0] + len(listed))):
        return {"first": listed[0], "last": listed[-1]}
    return listed


def _range_of(column: str, given: Mapping[str, Any]) -> tuple[int, int]:
    ends = (given.get("first"), given.get("last"))
    if set(given) != _RANGE or any(type(end) is not int or abs(end) > _INT64_MAX for end in ends):
        raise InvalidParameterError(
            f"the domain of {column!r} is a list of values, or the integers from 'first' to 'last'"
        )
    first, last = int(ends[0]), int(ends[1])  # type: ignore[arg-type]
    if not 0 <= last - first < CELLS_MAX:
        raise InvalidParameterError(f"the domain of {column!r} must hold 1 to {CELLS_MAX} integers")
    return first, last
