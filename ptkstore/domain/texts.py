"""Texts that every part of the service can store and show."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ptkstore.errors import InvalidRequest

# PostgreSQL refuses NUL, UTF-8 has no lone surrogates, and the rest steers terminals.
_ODD = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_NO_TEXTS = {int, float, bool, type(None)}


def check_texts(what: str, value: object) -> None:
    """Raise `InvalidRequest` if a text in JSON values, or a name of theirs, cannot be stored or shown."""
    match value:
        case str():
            if match := _ODD.search(value):
                raise InvalidRequest(
                    f"{what}: a text has the character U+{ord(match[0]):04X}, which cannot be stored or shown"
                )
        case Mapping():
            for name, item in value.items():
                check_texts(what, name)
                check_texts(what, item)
        case list() | tuple():
            kinds = set(map(type, value))
            if kinds == {str}:
                check_texts(what, "\n".join(value))
            elif not kinds <= _NO_TEXTS:
                for item in value:
                    check_texts(what, item)
