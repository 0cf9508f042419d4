"""Give a team a role on a stream, or take it away."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ptkstore.console.actions.acts import Ask, Done, Field
from ptkstore.domain.identity import EVERY, ROLE_TEXTS, STREAM_ROLES, Grant, Role
from ptkstore.domain.near_names import near
from ptkstore.errors import UnknownName

FIELDS: Final = (
    Field("team", "Team", "a name, or * for all teams, who can be consumers only", required=True),
    Field("stream", "Stream", "a name, or * for all streams", required=True),
    Field(
        "role",
        "Role",
        required=True,
        options={role.value: text for role, text in ROLE_TEXTS.items() if role in STREAM_ROLES},
    ),
)


def subject(ask: Ask) -> str:
    """Return the subject in the audit trail."""
    return f"{ask.document.team}/{ask.document.stream}/{ask.document.role}"


def add_says(ask: Ask) -> Sequence[str]:
    """Say what a grant does; an unknown team or stream is refused here, with the names that may be meant."""
    grant = _grant_of(ask)
    _check("team", grant.team, ask.identity.teams, ask)
    _check("stream", grant.stream, lambda: [one.name for one in ask.service.streams()], ask)
    return (
        f"You give {_text(ask)}. It holds from the next request on.",
        f"The role {grant.role}: {ROLE_TEXTS[grant.role]}.",
    )


def add(ask: Ask) -> Done:
    """Give the role."""
    ask.identity.grant(_grant_of(ask))
    return Done(f"You gave {_text(ask)}.")


def remove_says(ask: Ask) -> Sequence[str]:
    """Say what ends with a grant."""
    _grant_of(ask)
    return (
        f"You take from {_text(ask)}. It ends with the next request.",
        "Subscriptions of a team that loses its role get no more messages.",
    )


def remove(ask: Ask) -> Done:
    """Take the role away."""
    ask.identity.withdraw(_grant_of(ask))
    return Done(f"You took from {_text(ask)}.")


def page_of(ask: Ask) -> str:
    """Return the page that lists the grants on the stream; that of all roles for all streams."""
    return "/access#roles" if ask.document.stream == EVERY else f"/streams/{ask.document.stream}#grants"


def _grant_of(ask: Ask) -> Grant:
    return Grant(ask.document.team, ask.document.stream, Role(ask.document.role))


def _text(ask: Ask) -> str:
    team = "every team" if ask.document.team == EVERY else f"the team {ask.document.team}"
    stream = "every stream" if ask.document.stream == EVERY else f"the stream {ask.document.stream}"
    return f"{team} the role {ask.document.role} on {stream}"


def _check(kind: str, name: str, names: Callable[[], Iterable[str]], ask: Ask) -> None:
    """Raise `UnknownName` unless the store has it; whoever gives roles may list all teams and streams."""
    if name == EVERY or name in (known := list(names())):
        return
    raise UnknownName(kind, name, near(name, known) if ask.seeks() else "")
