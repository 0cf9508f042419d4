"""Upgrade the catalog's schema while nobody works on it."""

from __future__ import annotations

from ptkstore.ports.keys import KeyStore
from ptkstore.ports.schema import CatalogSchema, Upgraded


def upgrade_catalog(*, schema: CatalogSchema, keys: KeyStore, backed_up: bool) -> Upgraded:
    """Bring the catalog to this program's schema; repeating it changes nothing.

    Raises
    ------
    Refused
        A job is being worked on, or the catalog is on a server and nobody said that it was backed up.
    CatalogOutdated
        No upgrade leads from the catalog's schema to the program's.
    """
    with keys.recovering():
        return schema.upgrade(backed_up=backed_up)
