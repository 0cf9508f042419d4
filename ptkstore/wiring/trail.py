"""The audit trail of what is done in the store's home."""

from __future__ import annotations

import secrets
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from ptkstore import application
from ptkstore.domain.audit import subject_of
from ptkstore.domain.identity import Action
from ptkstore.wiring.adapters import Adapters

if TYPE_CHECKING:
    from ptkstore.wiring.identity import Identity


class Recording(Adapters):
    """Records what changes anything, or takes a signed report along, if `in_home`: the HTTP API has its own records."""

    in_home = False

    @property
    def identity(self) -> Identity:
        """Permissions and the record of acts."""
        from ptkstore.wiring.identity import Identity  # whose use cases few commands need

        return Identity(self)

    def _recorded(
        self, action: Action, kind: str, name: str | None = None
    ) -> AbstractContextManager[application.identity.record_action.Recorded]:
        subject = subject_of(kind, name)
        if not self.in_home:
            return nullcontext(application.identity.record_action.Recorded(subject))
        return self.identity.recorded(action, subject, secrets.token_hex(8), None)
