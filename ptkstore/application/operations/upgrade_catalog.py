"""Upgrade the catalog's schema while nobody works on it."""

from __future__ import annotations

from ptkstore.errors import UnknownName
from ptkstore.ports.catalog import Begin
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.operations import CatalogSchema, Upgraded
from ptkstore.ports.runtime import TellSteps, tell_nobody


def upgrade_catalog(
    *, schema: CatalogSchema, keys: KeyStore, begin: Begin, backed_up: bool, tell: TellSteps = tell_nobody
) -> Upgraded:
    """Bring the catalog to this program's schema; repeating it changes nothing.

    The key store then remembers the policy of each stream of which it remembers none.

    Raises
    ------
    Refused
        A job is being worked on, or the catalog is on a server and nobody said that it was backed up.
    CatalogOutdated
        No upgrade leads from the catalog's schema to the program's.
    """
    with keys.recovering():
        done = schema.upgrade(backed_up=backed_up, tell=tell)
        if done.before.current is not None:
            _keep_policies(begin, keys)
        return done


def _keep_policies(begin: Begin, keys: KeyStore) -> None:
    with begin() as uow:
        lines = [line for stream in uow.streams.all() for line in uow.ledger.policies(stream.name)[:1]]
    for line in lines:
        try:
            if keys.policy(line.stream) is None:
                keys.keep_policy(line.stream, line.policy_text)
        except UnknownName:  # its keys are lost, or lie elsewhere: it opens nothing
            continue
