"""Names of columns and tables: what may become a file name, a column and a Feast field."""

import re
from collections.abc import Iterable, Sequence

from ptklib.exceptions import InvalidParameterError

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")


def check_name(value: object, role: str) -> str:
    """Return `value` when it is a plain identifier of at most 63 characters."""
    if not isinstance(value, str) or _NAME.fullmatch(value) is None:
        raise InvalidParameterError(
            f"{role} must be a name of up to 63 letters, digits and underscores that starts with a letter, "
            f"got {value!r}"
        )
    return value


def check_columns(columns: object, role: str) -> tuple[str, ...]:
    """Return a sequence of distinct names; one string means a sequence of one."""
    if isinstance(columns, str):
        columns = (columns,)
    if not isinstance(columns, Iterable):
        raise InvalidParameterError(f"{role} must be a sequence of column names")
    names = tuple(check_name(name, f"each of {role}") for name in columns)
    refuse_duplicates(names, role)
    return names


def class_suffixes(classes: Iterable[object]) -> list[str]:
    """Return how the values of a label are written at the end of column names."""
    suffixes = [
        str(value).lower() if isinstance(value, bool) else str(value).replace("-", "minus_")
        for value in classes
    ]
    for suffix in suffixes:
        check_name(f"c{suffix}", "a class, as part of a column name,")
    refuse_duplicates(suffixes, "the names of classes")
    return suffixes


def refuse_duplicates(names: Sequence[str], role: str) -> None:
    """Raise when a name occurs twice, also when only the case differs (file systems may fold it)."""
    if len({name.lower() for name in names}) != len(names):
        raise InvalidParameterError(f"{role} repeat a name (upper and lower case count as the same)")
