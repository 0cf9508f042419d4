"""Drafts whose validation has ended without a version: destroyed by who ends it, and by a look at all of them."""

from __future__ import annotations

from ptkstore.application.versions.drafts import destroy_drafts
from ptkstore.ports.catalog import Read
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.objects import Staging


def destroy_refused_drafts(*, read: Read, keys: KeyStore, staging: Staging) -> int:
    """Destroy what nobody judges any more, as a PTK was withdrawn or a worker died; return how many there were.

    Repeatable. It looks for drafts with a key alone: files without one cannot be read, and go with their window.
    """
    kept = frozenset(keys.draft_ids())
    if not kept:
        return 0
    with read() as uow:
        refused = uow.jobs.refused_drafts() & kept
    destroy_drafts(sorted(refused), keys, staging)
    return len(refused)
