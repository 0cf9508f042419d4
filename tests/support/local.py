"""The service behind a store in a home, with what the declared service does not show."""

from __future__ import annotations

from ptkstore import Store
from ptkstore.wiring import Service


def local(store: Store) -> Service:
    """The service of a store that was opened in its home."""
    assert isinstance(store.service, Service)
    return store.service
