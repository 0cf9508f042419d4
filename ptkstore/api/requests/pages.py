"""Lists in pages."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Query

from ptkstore.errors import InvalidRequest
from ptkstore.wire.base import LIST_MAX

_T = TypeVar("_T")
NUMBER_DIGITS = 18  # which 64 bits hold

Cursor = Annotated[
    str | None,
    Query(max_length=400, pattern=r"^[A-Za-z0-9_-]+$", description="`next_cursor` of the page before"),
]
Limit = Annotated[int, Query(ge=1, le=LIST_MAX, description="how many items at most")]


def page_of(
    items: Sequence[_T],
    key_of: Callable[[_T], str],
    document_of: Callable[[_T], Any],
    cursor: str | None,
    limit: int,
) -> dict[str, Any]:
    """Return a page of the items whose key comes after the cursor's, in order of their keys.

    Parameters
    ----------
    key_of, document_of : callable
        Keys are unique and never change, so that nothing is left out or comes twice when items come and go.
    """
    after = "" if cursor is None else place_in(cursor)
    rest = sorted((item for item in items if key_of(item) > after), key=key_of)
    return page_up_to(rest, limit, document_of, key_of)


def page_up_to(
    items: Sequence[_T], limit: int, show: Callable[[_T], Any], place: Callable[[_T], str]
) -> dict[str, Any]:
    """Return a page of the first `limit` items, of which one more was read if there are more.

    `place` is where the cursor of the next page goes on after the last item.
    """
    shown = items[:limit]
    return {
        "items": [show(item) for item in shown],
        "next_cursor": cursor_at(place(shown[-1])) if len(items) > limit else None,
    }


def cursor_at(place: str) -> str:
    """Return the cursor of the items after `place`."""
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def number_in(cursor: str | None) -> int:
    """Return the whole number in a cursor, 0 without one, or `InvalidRequest`."""
    return number_at("0" if cursor is None else place_in(cursor))


def name_in(cursor: str | None) -> str:
    """Return the name in a cursor, empty without one, or `InvalidRequest`."""
    place = "" if cursor is None else place_in(cursor)
    if not place.isascii() or not place.isprintable():
        raise InvalidRequest("this cursor was not given by this service")
    return place


def number_at(place: str) -> int:
    """Return the whole number at a place, or `InvalidRequest`."""
    if not place.isascii() or not place.isdecimal() or len(place) > NUMBER_DIGITS:
        raise InvalidRequest("this cursor was not given by this service")
    return int(place)


def place_in(cursor: str) -> str:
    """Return the place in a cursor, or `InvalidRequest`."""
    try:
        return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise InvalidRequest("this cursor was not given by this service") from None
