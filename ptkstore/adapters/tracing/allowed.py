"""The list of what spans may say: every attribute has a name here and a form that its values must have.

Ids, names, codes and template paths, in the alphabets that the catalog lets them have. There is no attribute for a
text, an amount, a count of rows or a duration. An attribute that does not match is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ptkstore.domain.jobs import JobKind

Value = str | int
LONGEST = 200
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_CODE = re.compile(r"[a-z][a-z0-9-]*")
_PLACE = re.compile(r"[a-z][a-z0-9_.-]*(/[A-Za-z0-9_.-]+)*")

_TEXTS: Mapping[str, re.Pattern[str]] = {
    "http.request.method": re.compile(r"[A-Z]+|other"),
    "http.route": re.compile(r"(/[a-z0-9_.{}-]*)+|\(none\)"),
    "ptk.code": _CODE,
    "ptk.job": _PLACE,
    "ptk.job.kind": re.compile("|".join(kind.value for kind in JobKind)),
    "ptk.ptk": re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*"),
    "ptk.request": re.compile(r"[0-9a-f]{16}"),
    "ptk.stream": _NAME,
    "ptk.subscription": re.compile(r"sub_[0-9a-f]+"),
    "ptk.team": _NAME,
    "ptk.token": re.compile(r"[0-9a-f]+"),
}
_NUMBERS: Mapping[str, range] = {
    "http.response.status_code": range(600),
    "ptk.window": range(2**31),  # its index: a time, not a count
}
_SPAN = re.compile(r"(?:[A-Z]+|other) (?:(?:/[a-z0-9_.{}-]*)+|\(none\))|job (?:" + "|".join(JobKind) + ")")
_STEP = _CODE


def attributes(given: Mapping[str, Value | None]) -> dict[str, Value]:
    """Choose those that may be told, each in its form."""
    return {name: value for name, value in given.items() if value is not None and fits(name, value)}


def fits(name: str, value: object) -> bool:
    """Tell whether this attribute may have this value."""
    if name in _TEXTS:
        return isinstance(value, str) and len(value) <= LONGEST and bool(_TEXTS[name].fullmatch(value))
    return name in _NUMBERS and type(value) is int and value in _NUMBERS[name]


def span_name(text: str) -> str:
    """Return the name of a span, or of one that has none to tell."""
    return text if len(text) <= LONGEST and _SPAN.fullmatch(text) else "other"


def is_step(text: str) -> bool:
    """Tell whether this can be the name of a step."""
    return len(text) <= 40 and bool(_STEP.fullmatch(text))
