"""Drafts in staging: the one that a run writes, and how those that nobody elected go away."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from ptkstore.domain.draft_ids import draft_id, draft_prefix
from ptkstore.domain.streams.windows import WindowId
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.objects import Staging


def destroy_drafts(draft_ids: Iterable[str], keys: KeyStore, staging: Staging) -> None:
    """Destroy keys and files of drafts; repeatable.

    Keys go first, since nothing opens the rest without them, and one that stays keeps none of the others.
    """
    ids = tuple(draft_ids)
    with ExitStack() as last_first:
        for one in ids:
            last_first.callback(staging.delete, one)
        for one in ids:
            last_first.callback(keys.destroy_draft, one)


class OwnDraft:
    """The draft of one run, with its key; destroyed when the run is over unless it is kept.

    Parameters
    ----------
    of : str
        The id of the job that the draft's id tells; empty for a draft that goes with its window.

    Attributes
    ----------
    kept : bool
        Whether it was elected, or may have been.
    """

    def __init__(self, window: WindowId, keys: KeyStore, staging: Staging, *, of: str = "") -> None:
        if of:  # as long as an id of the longest names may be
            self.id = draft_prefix(window, of) + secrets.token_hex(12)
        else:
            self.id = draft_id(window, secrets.token_hex(16))
        self.kept = False
        self._keys = keys
        self._staging = staging

    def __enter__(self) -> Self:
        self.key = self._keys.draft_key(self.id)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        killed = error is not None and not isinstance(error, Exception)
        if not killed and not self.kept:
            self.destroy()

    def destroy(self) -> None:
        """Destroy it now; repeatable."""
        destroy_drafts((self.id,), self._keys, self._staging)
