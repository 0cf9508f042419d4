"""Say who asks, and whether it may."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from ptkstore.domain.identity import (
    Action,
    Principal,
    Reach,
    Role,
    Target,
    allows,
    opens,
    roles_on,
    sees,
    split_text,
)
from ptkstore.domain.names import team_of
from ptkstore.errors import NotAllowed, Unauthenticated, UnknownName
from ptkstore.ports.catalog import CatalogView, Read
from ptkstore.ports.runtime import Clock

_NEVER = "x" * 43


@dataclass(frozen=True, slots=True)
class Named:
    """The object that a request names: at most one of these."""

    stream: str | None = None
    ptk_id: str | None = None
    subscription_id: str | None = None


def identify(text: str | None, *, begin: Read, clock: Clock) -> Principal:
    """Return the principal of the token `text`.

    Raises
    ------
    Unauthenticated
        Always with the same words, and after the same work, whatever is wrong with the token.
    """
    with begin() as uow:
        return _identified(uow, text, clock)


def holder_of(token_id: str, *, begin: Read, clock: Clock) -> Principal:
    """Return the principal of a known token, by its id; `Unauthenticated` once it opens nothing any more."""
    with begin() as uow:
        token = uow.identities.token(token_id)
    if token is None or not token.holds(clock.now()):
        raise Unauthenticated("the token is not valid any more")
    return Principal(token.team, token.id, token.scopes)


def authorize(
    text: str | None,
    action: Action,
    named: Named | None = None,
    *,
    begin: Read,
    clock: Clock,
) -> Principal:
    """Identify the holder of a token and hold the action against the table of roles.

    A caller without a role on an object gets the same answer as if it did not exist. Without `named`, for requests
    that name it in their body, only the roles of the token are looked at, and `permit` has to follow.

    Raises
    ------
    Unauthenticated
        No valid token.
    NotAllowed
        Its roles do not allow the action.
    UnknownName
        The named object does not exist, or is not for this caller to see.
    """
    with begin() as uow:
        principal = _identified(uow, text, clock)
        permit(principal, action, named, uow)
    return principal


def permit(principal: Principal, action: Action, named: Named | None, uow: CatalogView) -> None:
    """Raise `NotAllowed` or `UnknownName` unless the principal may."""
    rule = action.rule
    everywhere = "" if rule.reach is not Reach.STORE else " of all streams"
    roles = (r if r is Role.ADMINISTRATOR else f"{r}{everywhere}" for r in Role if r in rule.roles)
    refusal = NotAllowed(f"{action.value} is for {', '.join(roles)}")
    if not rule.roles & principal.scopes:
        raise refusal
    if rule.reach is Reach.ANY:
        return
    if rule.reach is Reach.STREAM and named is None:
        return
    named = named or Named()
    grants = uow.identities.grants(team=principal.team)
    target = Target() if rule.reach is Reach.STORE else _target(uow, named, principal)
    if target.stream is not None and not roles_on(principal, target, grants):
        raise _hidden(named)
    if not allows(action, principal, target, grants):
        raise refusal


def allowed(
    principal: Principal, actions: Iterable[Action], named: Named | None, uow: CatalogView
) -> frozenset[Action]:
    """Return those of the actions that `permit` would let pass, all on one thing, with one look at it."""
    asked = [one for one in actions if one.rule.roles & principal.scopes]
    if not asked:
        return frozenset()
    grants = uow.identities.grants(team=principal.team)
    target = None
    if named is not None:
        with suppress(UnknownName):  # as if it did not exist
            target = _target(uow, named, principal)

    def may(action: Action) -> bool:
        match action.rule.reach:
            case Reach.ANY:
                return True
            case Reach.STORE:
                return allows(action, principal, Target(), grants)
            case Reach.STREAM:
                if named is None:
                    return True
                return target is not None and allows(action, principal, target, grants)

    return frozenset(filter(may, asked))


def visible_streams(principal: Principal, uow: CatalogView) -> frozenset[str]:
    """Return the streams on which the principal has a role that reads."""
    grants = uow.identities.grants(team=principal.team)
    return frozenset(
        stream.name
        for stream in uow.streams.all()
        if sees(principal, Target(stream.name, stream.team), grants)
    )


def streams_for(principal: Principal, action: Action, uow: CatalogView) -> frozenset[str]:
    """Return the streams on which the principal may do something that is about a stream."""
    grants = uow.identities.grants(team=principal.team)
    return frozenset(
        stream.name
        for stream in uow.streams.all()
        if allows(action, principal, Target(stream.name, stream.team), grants)
    )


def _identified(uow: CatalogView, text: str | None, clock: Clock) -> Principal:
    split = split_text(text) if text is not None else None
    token_id, secret = split or ("", _NEVER)
    token = uow.identities.token(token_id)
    if not opens(token, secret, clock.now()) or token is None:
        raise Unauthenticated("a valid token is needed: Authorization: Bearer ptk_...")
    return Principal(token.team, token.id, token.scopes)


def _target(uow: CatalogView, named: Named, principal: Principal) -> Target:
    stream, team = named.stream, principal.team
    if named.subscription_id is not None:
        subscription = uow.subscriptions.get(named.subscription_id)
        stream, team = uow.ptks.stream_of(subscription.ptk_id), subscription.team
        if team != principal.team and not principal.administers:
            raise _hidden(named)
    elif named.ptk_id is not None:
        stream, team = uow.ptks.stream_of(named.ptk_id), team_of(named.ptk_id)
    if stream is None:
        raise UnknownName("stream", "")
    return Target(stream, uow.streams.get(stream).team, team)


def _hidden(named: Named) -> UnknownName:
    if named.subscription_id is not None:
        return UnknownName("subscription", named.subscription_id)
    if named.ptk_id is not None:
        return UnknownName("PTK", named.ptk_id)
    return UnknownName("stream", named.stream or "")
