"""Put a new token in the place of one, with an overlap in which both open."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from ptkstore.application.identity.new_token import new_token
from ptkstore.domain.identity import LONGEST_OVERLAP, Token
from ptkstore.errors import InvalidRequest, Refused
from ptkstore.ports.catalog import Begin
from ptkstore.ports.runtime import Clock

USUAL_OVERLAP = timedelta(days=1)


def rotate_token(
    token_id: str, overlap: timedelta = USUAL_OVERLAP, *, begin: Begin, clock: Clock
) -> tuple[Token, str]:
    """Issue a token like this one, for the same lifetime; the old one is valid for `overlap` more at most.

    Raises
    ------
    Refused
        The token is no longer valid; issue a new one.
    """
    if not timedelta(0) <= overlap <= LONGEST_OVERLAP:
        raise InvalidRequest(f"two tokens overlap for {LONGEST_OVERLAP.days} days at most")
    now = clock.now()
    with begin() as uow:
        old = uow.identities.lock_token(token_id)
        if not old.holds(now):
            raise Refused(f"token {old.prefix} is not valid any more; issue a new one")
        life = old.expires_at - old.created_at
        token, text = new_token(replace(old, created_at=now, expires_at=now + life))
        uow.identities.add_token(token)
        # Not its expiry: how long it was issued for is what a later rotation gives again.
        ends = min(now + overlap, old.revoked_at or old.expires_at)
        uow.identities.replace_token(replace(old, revoked_at=ends))
        uow.commit()
    return token, text
