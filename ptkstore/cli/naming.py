"""What is said of a name that is not there: which names are near it, and where to look."""

from __future__ import annotations

from collections.abc import Iterable

from ptkstore.domain.near_names import near
from ptkstore.errors import UnknownName
from ptkstore.sdk import Store


def unknown_ptk(ptk_id: str, known: Iterable[str]) -> UnknownName:
    """There is no such PTK."""
    return UnknownName("PTK", ptk_id, near(ptk_id, known, otherwise="see: ptk list"))


def check_ptk(store: Store, ptk_id: str) -> None:
    """`UnknownName` unless a PTK is registered under this id."""
    known = [spec.ptk_id for spec in store.service.ptks()]
    if ptk_id not in known:
        raise unknown_ptk(ptk_id, known)
