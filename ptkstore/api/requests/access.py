"""Every route's rule: who asks, whether it may, and what the trail says of it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any, Never

from fastapi import Depends, Request
from fastapi.concurrency import contextmanager_in_threadpool

from ptkstore.api.limits import Limits
from ptkstore.api.requests.near_names import names_for
from ptkstore.application.identity.authorize import Named
from ptkstore.application.identity.record_action import Recorded
from ptkstore.application.identity.refused_callers import RefusedCallers
from ptkstore.domain.audit import subject_of
from ptkstore.domain.identity import Action, Principal, Reach
from ptkstore.domain.near_names import near, suggest
from ptkstore.errors import InvalidRequest, InvariantBroken, NotAllowed, Unauthenticated, UnknownName
from ptkstore.wire.base import NAME, PTK_ID, SUBSCRIPTION_ID, TOKEN_ID
from ptkstore.wiring import Service
from ptkstore.wiring.identity import Identity

_BEARER = re.compile(r"[Bb]earer +(\S{1,200})")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
# Path parameters, what they are called in messages, and which texts can name one.
_NAMED = {
    "stream": ("stream", re.compile(NAME)),
    "ptk_id": ("PTK", re.compile(PTK_ID)),
    "subscription_id": ("subscription", re.compile(SUBSCRIPTION_ID)),
    "token_id": ("token", re.compile(TOKEN_ID)),
}


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller, with all that a route needs to serve it."""

    principal: Principal
    service: Service
    identity: Identity
    limits: Limits
    action: Action
    permitted: list[Named]
    recorded: Recorded

    def about(self, kind: str, name: str) -> None:
        """Say what the action is about, for the trail, where the path does not."""
        self.recorded.subject = subject_of(kind, name)

    def permit(self, *named: Named) -> None:
        """Hold the table of roles against what a body names."""
        self.identity.permit(self.principal, self.action, *named)
        self.permitted.extend(named or (Named(),))


class AccessRule:
    """The rule of one route, by its action and the names in its path.

    A route about a stream that only its body names has to call `Caller.permit`; it fails where it does not.

    Endpoints that wait in a thread ask in the same thread, by `admitted`: a change of threads costs as much as the
    question. Coroutines are admitted before they begin, by the rule as a dependency.
    """

    def __init__(self, action: Action, path: str) -> None:
        self.action = action
        self.query_names: Collection[str] = ()
        """The query parameters of the route, once it is declared."""
        self.by_body = action.rule.reach is Reach.STREAM and not any(f"{{{key}}}" in path for key in _NAMED)

    async def __call__(self, request: Request) -> AsyncIterator[None]:
        """Let the request through, or raise."""
        async with contextmanager_in_threadpool(self.admitted(request)) as request.state.caller:
            yield

    @contextmanager
    def admitted(self, request: Request) -> Iterator[Caller]:
        """Admit a caller who may. Changes are recorded before and after; of other requests, refusals are."""
        caller = self._admitted(request)
        try:
            with self._answered(request, caller) as answered:
                self._check_query(request)
                yield answered
        except UnknownName as error:
            if request.app.state.near_names.allows():
                suggest(error, names_for(caller.principal, caller.service, caller.identity))
            raise

    @contextmanager
    def _answered(self, request: Request, caller: Caller) -> Iterator[Caller]:
        request_id, subject = request.state.request_id, caller.recorded.subject
        if not self.action.rule.traced:
            try:
                yield caller
            except NotAllowed as error:  # by what the body names
                caller.identity.record(
                    self.action, caller.recorded.subject, request_id, caller.principal, error.code
                )
                raise
            self._check(caller)
            return
        with caller.identity.recorded(self.action, subject, request_id, caller.principal) as recorded:
            caller = replace(caller, recorded=recorded)
            yield caller
            self._check(caller)

    def check(self, request: Request) -> Principal:
        """Return who makes the request, or raise unless it may be made; nothing is recorded but a refusal."""
        return self._admitted(request).principal

    def refuse(self, request: Request, error: Exception) -> Never:
        """Raise `error` for a request that is not as it should be, to those alone who may send it."""
        with self.admitted(request):
            raise error

    def _admitted(self, request: Request) -> Caller:
        state = request.app.state
        identity: Identity = state.identity
        names = _checked(request.path_params)
        subject = next((subject_of(key.removesuffix("_id"), value) for key, value in names.items()), "store")
        target = {k: v for k, v in names.items() if k in ("stream", "ptk_id", "subscription_id")}
        named = None if self.by_body else Named(**target)
        text = token_text(request)
        with refused_on_record(request, self.action, subject, state.refused):
            try:
                principal = identity.authorize(text, self.action, named)
            except (NotAllowed, UnknownName) as error:
                principal = identity.identify(text)
                _count(request, principal)
                if isinstance(error, NotAllowed):
                    identity.record(self.action, subject, request.state.request_id, principal, error.code)
                elif state.near_names.allows():
                    suggest(error, names_for(principal, state.service, identity))
                raise
        _count(request, principal)
        return Caller(principal, state.service, identity, state.limits, self.action, [], Recorded(subject))

    def _check_query(self, request: Request) -> None:
        """Refuse a query parameter that the route does not have: it would be ignored, and the answer another one."""
        for name in request.query_params:
            if name not in self.query_names:
                there = (
                    f"those here are {', '.join(self.query_names)}"
                    if self.query_names
                    else "none is read here"
                )
                told = f" {name!r}" if _PLAIN.fullmatch(name) else " of that name"
                raise InvalidRequest(
                    f"there is no query parameter{told}; {near(name, self.query_names, otherwise=there)}"
                )

    def _check(self, caller: Caller) -> None:
        if self.by_body and not caller.permitted:
            raise InvariantBroken(f"a route did {self.action.value} without asking whether it may")


@contextmanager
def refused_on_record(
    request: Request, action: Action, subject: str, refused: RefusedCallers
) -> Iterator[None]:
    """Have it on record, one a minute of those at one entrance, that somebody came with a token that opens nothing.

    A caller without a token has guessed nothing. A name in the path is a stranger's own text: only its kind is kept.
    """
    try:
        yield
    except Unauthenticated as error:
        if "authorization" in request.headers:
            state, kind, code = request.app.state, subject.partition("/")[0], error.code
            refused.tell(
                lambda nobody: state.identity.record(action, kind, request.state.request_id, nobody, code)
            )
        raise


def token_text(request: Request) -> str | None:
    """Return the bearer token that came with a request."""
    header = request.headers.get("authorization", "")
    match = _BEARER.fullmatch(header)
    return None if match is None else match[1]


def _checked(path_params: dict[str, Any]) -> dict[str, str]:
    """The names in the path; what cannot be one names nothing."""
    for key, value in path_params.items():
        if key in _NAMED and (len(value) > 200 or not _NAMED[key][1].fullmatch(value)):
            raise UnknownName(_NAMED[key][0], "?")
    return {key: value for key, value in path_params.items() if key in _NAMED}


def _count(request: Request, principal: Principal) -> None:
    """Know from now on whose request it is, and count it once, however often it is asked whether it may be made."""
    request.state.team, request.state.token_id = principal.team, principal.token_id
    if not getattr(request.state, "counted", False):
        request.app.state.rates.take(principal)
        request.state.counted = True


async def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


WhoAsks = Annotated[Caller, Depends(_caller)]
"""A parameter of an endpoint. Of one that waits in a thread the route fills it in."""


async def _unadmitted(request: Request) -> Request:
    return request


AskedRequest = Annotated[Any, Depends(_unadmitted)]
"""A `Request` that nobody has admitted yet, beside one that the endpoint may want."""
