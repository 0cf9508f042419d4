"""Declarations of a PTK about its online answers: defaults, how long they are fresh, columns derived from them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from typing import Any

from ptkstore.errors import InvalidRequest

FILLED = "filled"
"""Suffix of the view that answers so, and of its features with defaults."""
VERSION = "filled_version"
"""The feature that tells the version of each answer, 0 where defaults stand in for it."""
COMPUTED = "computed"
"""Suffix of the view that computes from what a request sends along and what a version released, and its declaration."""
COMPUTED_VERSION = "computed_version"
"""The feature that tells the version it was computed with, 0 where there was none yet."""
COMPUTED_FORMS = frozenset({"nearest", "project", "leaves", "score"})
KEYS = frozenset({"defaults", "fresh", "request", "derived"})
FORMS = {"ratio": 2, "difference": 2, "sum": 2, "product": 2, "log": 1, "bucket": 1}
"""Derived columns: their forms, and how many operands each takes."""

STATE_KEY = "ptk"
"""The join key of a table that has no keys: it is one row about the PTK itself."""
KEY_KINDS = frozenset({"int64", "string", "bool"})
"""Types of released columns that can be join keys."""

_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_]{0,62}")
_SPAN = re.compile(r"(\d{1,6})([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_MOMENT = "event_timestamp"  # of Feast's joins in time
_MOST = 64
Scalar = float | int | str | bool


@dataclass(frozen=True, slots=True)
class Derived:
    """A column computed from others: `form` of `operands`, which are names or numbers; `edges` for a bucket."""

    name: str
    form: str
    operands: tuple[str | float, ...]
    edges: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Serving:
    """How the view of one table is filled.

    `defaults` are the values if a key is missing, a value null, or the version older (by its event time) than `fresh`.
    `request` names numbers that the caller sends along. No code: what is derived is one of `FORMS`.
    """

    defaults: Mapping[str, Scalar]
    fresh: timedelta | None = None
    request: tuple[str, ...] = ()
    derived: tuple[Derived, ...] = field(default=())


def serving_of(
    config: Mapping[str, Any], tables: Mapping[str, Sequence[tuple[str, str]]]
) -> dict[str, Serving]:
    """Return what `serve` in a PTK's config declares, by table; `tables` have (feature, type), without keys.

    Raises
    ------
    InvalidRequest
        It names what the PTK does not release, or is none of the forms.
    """
    given = config.get("serve")
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not given:
        raise _wrong('is a mapping such as {"defaults": {"mph_mean": 12.0}, "fresh": "2d"}')
    if COMPUTED in given and COMPUTED in tables:
        raise _wrong(f"has {COMPUTED!r}, and so has the PTK as the name of a table")
    filled: Mapping[str, Any] = {name: value for name, value in given.items() if name != COMPUTED}
    if filled and set(filled) <= KEYS:
        if len(tables) != 1:
            raise _wrong(f"names a table first, one of {', '.join(sorted(tables))}: there are several")
        filled = {next(iter(tables)): filled}
    if unknown := sorted(set(map(str, filled)) - set(tables)):
        raise _wrong(f"has {unknown[0]!r}; it may have {', '.join(sorted({*KEYS, COMPUTED, *tables}))}")
    return {table: _parsed(one, dict(tables[table])) for table, one in filled.items()}


def check_served_tables(tables: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise `InvalidRequest` unless tables of these keys and columns can be served whatever rows they have."""
    for table, form in tables.items():
        kinds = dict(form["columns"])
        if not form["keys"] and STATE_KEY in kinds:
            raise InvalidRequest(
                f"table {table!r} has no join keys, so the store adds one named {STATE_KEY!r}, and the table has a "
                "column of that name: name its keys, or rename the column"
            )
        for key in form["keys"]:
            if kinds[key] not in KEY_KINDS:
                raise InvalidRequest(
                    f"join key {key!r} of table {table!r} has type {kinds[key]}; it must be one of "
                    f"{', '.join(sorted(KEY_KINDS))}"
                )


def computed_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Return what `serve` in a PTK's config declares as computed: names of columns, and one of `COMPUTED_FORMS` each.

    Raises
    ------
    InvalidRequest
        It is no such mapping.
    """
    serve = config.get("serve")
    given = serve.get(COMPUTED) if isinstance(serve, Mapping) else None
    if given is None:
        return {}
    forms = _mapping(given, COMPUTED)
    for name, form in forms.items():
        check_sent_name(name, f"computes {name!r}")
        if not isinstance(form, str) or form not in COMPUTED_FORMS:
            raise _wrong(f"computes {name!r} by none of the forms {', '.join(sorted(COMPUTED_FORMS))}")
    if len(set(forms.values())) < len(forms):
        raise _wrong(f"has {COMPUTED} with one form twice")
    return dict(forms)


def check_sent_name(name: object, what: str) -> None:
    """Raise `InvalidRequest` unless Feast can take a column of this name from a request, or give one."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or "__" in name or name == _MOMENT:
        raise _wrong(f"{what}, which is no name of a column")


def outputs_of(name: str, form: str, count: int) -> tuple[str, ...]:
    """Return the features of a computed column: one, or as many as the PTK has components, trees or classes."""
    single = form == "nearest" or (form == "score" and count == 1)
    return (name,) if single else tuple(f"{name}_{number}" for number in range(count))


def check_computed_names(outputs: Sequence[str], sent: Sequence[str]) -> None:
    """Raise `InvalidRequest` if two columns of the view would have one name, or there are too many."""
    if len(outputs) > _MOST or len(sent) > _MOST:
        raise _wrong(f"has {COMPUTED} with more than {_MOST} columns")
    names = [*outputs, COMPUTED_VERSION, *sent]
    if len(set(names)) < len(names):
        raise _wrong("gives two columns one name")


def plain(given: Any) -> Any:
    """Bring a declaration into its one form: mappings as dicts, tuples as lists."""
    if isinstance(given, Mapping):
        return {str(name): plain(value) for name, value in given.items()}
    return [plain(value) for value in given] if isinstance(given, list | tuple) else given


def _parsed(given: object, features: Mapping[str, str]) -> Serving:
    if not isinstance(given, Mapping) or not set(given) <= KEYS or not given.get("defaults"):
        raise _wrong(f"of a table is a mapping with defaults, and may have {', '.join(sorted(KEYS))}")
    defaults = given["defaults"]
    if not isinstance(defaults, Mapping) or len(defaults) > _MOST:
        raise _wrong(f"has defaults for up to {_MOST} features, as a mapping")
    for name, value in defaults.items():
        _check_default(str(name), value, features)
    request = _names(given.get("request", ()), "request")
    derived: list[Derived] = []
    defined = {*(n for n, value in defaults.items() if not isinstance(value, str)), *request}
    for name, form in _mapping(given.get("derived", {}), "derived").items():
        one = _derived(str(name), form, defined)
        defined.add(one.name)
        derived.append(one)
    outputs = [*(f"{name}_{FILLED}" for name in defaults), *(one.name for one in derived), VERSION]
    if len({*outputs, *request, *features}) < len(outputs) + len(request) + len(features):
        raise _wrong("gives two columns one name")
    return Serving(dict(defaults), _span(given.get("fresh")), tuple(request), tuple(derived))


def _check_default(name: str, value: object, features: Mapping[str, str]) -> None:
    if name not in features:
        raise _wrong(f"has a default for {name!r}, which is no feature of the PTK")
    wanted: tuple[type, ...] = {
        "double": (float, int),
        "float": (float, int),
        "string": (str,),
        "bool": (bool,),
    }.get(features[name], (int,) if features[name].startswith(("int", "uint")) else ())
    fits = isinstance(value, wanted) and (isinstance(value, bool) == (wanted == (bool,)))
    if not fits or (isinstance(value, float) and not math.isfinite(value)):
        raise _wrong(f"has a default for {name!r} that is no {features[name]}")
    if isinstance(value, int) and not -(2**53) <= value <= 2**53:
        raise _wrong(f"has a default for {name!r} that is no number of 53 bits")
    if isinstance(value, str) and (len(value) > 200 or not value.isprintable()):
        raise _wrong(f"has a default for {name!r} of more than 200 printable characters")


def _derived(name: str, given: object, defined: set[str]) -> Derived:
    if not _NAME.fullmatch(name) or "__" in name:
        raise _wrong(f"derives {name!r}, which is no name of a column")
    fields = _mapping(given, f"derived column {name!r}")
    forms = [form for form in FORMS if form in fields]
    extra = set(fields) - set(forms) - ({"edges"} if forms == ["bucket"] else set())
    if len(forms) != 1 or extra:
        raise _wrong(f"derives {name!r} by none of the forms {', '.join(sorted(FORMS))}")
    form, given_operands = forms[0], fields[forms[0]]
    operands = given_operands if isinstance(given_operands, list | tuple) else [given_operands]
    if len(operands) != FORMS[form]:
        raise _wrong(f"derives {name!r}: {form} takes {FORMS[form]} operand(s)")
    for operand in operands:
        if isinstance(operand, str) and operand not in defined:
            raise _wrong(
                f"derives {name!r} from {operand!r}: it is no number with a default, nor is it sent along"
            )
        if not isinstance(operand, str) and not _is_number(operand):
            raise _wrong(f"derives {name!r} from something that is neither a name nor a number")
    edges = fields.get("edges", ())
    if form == "bucket" and (not _is_rising(edges) or not 1 <= len(edges) <= _MOST):
        raise _wrong(f"derives {name!r}: a bucket needs 1 to {_MOST} rising edges")
    return Derived(name, form, tuple(operands), tuple(float(edge) for edge in edges))


def _names(given: object, what: str) -> list[str]:
    if not isinstance(given, list | tuple) or len(given) > _MOST:
        raise _wrong(f"has {what} as a list of names")
    for name in given:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or "__" in name:
            raise _wrong(f"has a name in {what} that is none")
    return [str(name) for name in given]


def _mapping(given: object, what: str) -> Mapping[Any, Any]:
    if not isinstance(given, Mapping) or len(given) > _MOST:
        raise _wrong(f"has {what} that is no mapping, or too long")
    return given


def _span(given: object) -> timedelta | None:
    if given is None:
        return None
    match = _SPAN.fullmatch(given) if isinstance(given, str) else None
    if match is None or not int(match[1]):
        raise _wrong("says how long an answer is fresh as '90s', '15m', '6h' or '2d'")
    return timedelta(seconds=int(match[1]) * _UNITS[match[2]])


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_rising(edges: object) -> bool:
    return (
        isinstance(edges, list | tuple)
        and all(map(_is_number, edges))
        and all(low < high for low, high in pairwise(edges))
    )


def _wrong(what: str) -> InvalidRequest:
    return InvalidRequest(f"serve of a PTK {what}")
