"""End a token before its time."""

from __future__ import annotations

from dataclasses import replace

from ptkstore.ports.catalog import Begin
from ptkstore.ports.runtime import Clock


def revoke_token(token_id: str, *, begin: Begin, clock: Clock) -> None:
    """End a token now; a second call changes nothing."""
    with begin() as uow:
        token, now = uow.identities.lock_token(token_id), clock.now()
        if token.revoked_at is None or token.revoked_at > now:  # a rotated one ends later by itself
            uow.identities.replace_token(replace(token, revoked_at=now))
            uow.commit()
