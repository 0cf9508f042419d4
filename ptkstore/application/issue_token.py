"""Issue a token to a team."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import timedelta

from ptkstore.domain.identity import Role, Token, digest_of, text_of
from ptkstore.ports.catalog import Begin
from ptkstore.ports.world import Clock

USUAL_LIFE = timedelta(days=90)


def issue_token(
    team: str,
    scopes: Iterable[Role],
    *,
    label: str = "",
    life: timedelta = USUAL_LIFE,
    begin: Begin,
    clock: Clock,
) -> tuple[Token, str]:
    """Make a token; returns it with its text, which is shown this once and stored nowhere.

    Raises
    ------
    UnknownName
        There is no such team.
    InvalidRequest
        No role, or a life of nothing or of more than a year.
    """
    now = clock.now()
    token, text = new_token(
        Token(
            id="",
            team=team,
            label=label,
            scopes=frozenset(scopes),
            digest="",
            created_at=now,
            expires_at=now + life,
        )
    )
    with begin() as uow:
        uow.identities.add_token(token)
        uow.commit()
    return token, text


def new_token(like: Token) -> tuple[Token, str]:
    """`like` with an id and a secret of its own, and its text."""
    token_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    made = Token(
        id=token_id,
        team=like.team,
        label=like.label,
        scopes=like.scopes,
        digest=digest_of(secret),
        created_at=like.created_at,
        expires_at=like.expires_at,
    )
    return made, text_of(token_id, secret)
