"""A token of its own id and secret."""

from __future__ import annotations

import secrets

from ptkstore.domain.identity import Token, digest_of, text_of


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
