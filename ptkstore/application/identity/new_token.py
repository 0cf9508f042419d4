"""A token of its own id and secret."""

from __future__ import annotations

import secrets
from dataclasses import replace

from ptkstore.domain.identity import Token, digest_of, text_of


def new_token(like: Token) -> tuple[Token, str]:
    """Make a token that is `like` another, with an id and a secret of its own; returns it with its text."""
    token_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    made = replace(like, id=token_id, digest=digest_of(secret), revoked_at=None)
    return made, text_of(token_id, secret)
