"""What is said of a name that is not there: which names are near it, and where to look."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from ptkstore.errors import UnknownName
from ptkstore.sdk import Store


def near(name: str, known: Iterable[str], *, otherwise: str) -> str:
    """A question for the names that `name` may have been meant to be, or `otherwise`."""
    names = list(known)
    within = [one for one in names if one.endswith((f".{name}", f"__{name}"))]
    close = list(dict.fromkeys([*within, *get_close_matches(name, names, cutoff=0.8)]))
    return f"did you mean {' or '.join(map(repr, close))}?" if close else otherwise


def unknown_ptk(ptk_id: str, known: Iterable[str]) -> UnknownName:
    """There is no such PTK."""
    return UnknownName("PTK", ptk_id, near(ptk_id, known, otherwise="see: ptk list"))


def check_ptk(store: Store, ptk_id: str) -> None:
    """`UnknownName` unless a PTK is registered under this id."""
    known = [spec.ptk_id for spec in store.service.ptks()]
    if ptk_id not in known:
        raise unknown_ptk(ptk_id, known)
