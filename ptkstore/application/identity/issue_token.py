"""Issue a token to a team."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from ptkstore.application.identity.new_token import new_token
from ptkstore.domain.identity import Role, Token
from ptkstore.ports.catalog import Begin
from ptkstore.ports.runtime import Clock

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

    Parameters
    ----------
    scopes : iterable of Role
        The most that it may act in.

    Raises
    ------
    InvalidRequest
        No role, or a life of nothing or of more than a year.
    """
    now = clock.now()
    token, text = new_token(Token("", team, label, frozenset(scopes), "", now, now + life))
    with begin() as uow:
        uow.identities.add_token(token)
        uow.commit()
    return token, text
