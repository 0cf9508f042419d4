"""What is said of a PTK that is not there: whether it was, which names are near it, and where to look."""

from __future__ import annotations

from ptkstore.domain.near_names import near
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.errors import Deregistered, UnknownName
from ptkstore.sdk import Store


def registered(store: Store, ptk_id: str) -> PtkSpec:
    """The PTK of this id.

    Raises
    ------
    Deregistered
        There was one, and whoever asks may know.
    UnknownName
        There is none.
    """
    try:
        return store.service.ptk(ptk_id)
    except Deregistered:
        raise
    except UnknownName:
        ptk_ids = [spec.ptk_id for spec in store.service.ptks()]
        raise UnknownName("PTK", ptk_id, near(ptk_id, ptk_ids, otherwise="see: ptk list")) from None
