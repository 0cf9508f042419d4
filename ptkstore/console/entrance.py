"""Sign in by a token or a one-time link, and sign out."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ptkstore.adapters.processes import OneTimeLinks
from ptkstore.application.identity.refused_callers import RefusedCallers
from ptkstore.console.cookies import FORM, SESSION, cookie_of, set_cookie
from ptkstore.console.forms import form_of, from_this_site, same
from ptkstore.console.frame import Frame
from ptkstore.console.sessions import LIFE_SECONDS
from ptkstore.console.ways import direct_address
from ptkstore.domain.audit import DONE, subject_of
from ptkstore.domain.identity import Action, Principal
from ptkstore.errors import NotAllowed, Unauthenticated
from ptkstore.wiring import Service
from ptkstore.wiring.identity import Identity

_NO_LINK = (
    "This link opens nothing. It works once, for two minutes, in a browser on this machine, at the address that ptk ui "
    "printed, and at the server of the same home. Run ptk ui again for a new one."
)


class Entrance:
    """The routes that begin and end sessions."""

    def __init__(self, service: Service, identity: Identity, frame: Frame) -> None:
        self._identity, self._admit, self._html, self._prefix = (
            identity,
            frame.admit,
            frame.html,
            frame.prefix,
        )
        self._sessions, self._refused = frame.sessions, RefusedCallers()
        self._links, self._clock = OneTimeLinks(service.settings.root), service.clock
        self._begun = service.clock.now()

    def routes(self) -> list[Route]:
        """Return the routes, the most of which need no session."""
        return [
            Route("/login", self._login),
            Route("/login", self._enter, methods=["POST"]),
            Route("/logout", self._leave, methods=["POST"]),
            Route("/open", self._open),
        ]

    async def _login(self, request: Request, wrong: bool = False) -> Response:
        key = secrets.token_urlsafe(32)
        response = self._html("login.html", {"form_key": key, "wrong": wrong}, 403 if wrong else 200)
        set_cookie(response, request, self._prefix, FORM, key, 3600)
        return response

    async def _enter(self, request: Request) -> Response:
        """Sign in: only by the form that this very browser was given, so that nobody signs another in as himself."""
        form = await form_of(request)
        key = cookie_of(request, FORM)
        if not from_this_site(request) or not same(form.get("form_key", ""), key):
            return await self._login(request, wrong=True)
        try:
            token = form.get("token", "").strip()
            who = await to_thread.run_sync(
                self._let_in, lambda: self._identity.identify(token), request.state.request_id
            )
        except Unauthenticated:
            return await self._login(request, wrong=True)
        return await self._signed_in(request, who, RedirectResponse(f"{self._prefix}/", 303))

    async def _open(self, request: Request) -> Response:
        """Sign in by a one-time link that `ptk ui` made in the home, straight from this machine."""
        if request.method != "GET":  # a look at what is there must not use the link up
            raise HTTPException(405)
        secret, address = request.query_params.get("link", ""), direct_address(request)

        def holder() -> Principal:
            token_id = self._links.take(secret, address, self._clock.now(), since=self._begun)
            return self._identity.identify(None) if token_id is None else self._identity.principal(token_id)

        try:
            who = await to_thread.run_sync(self._let_in, holder, request.state.request_id)
        except Unauthenticated:
            return _without_referrer(self._html("error.html", {"status": 403, "detail": _NO_LINK}, 403))
        # A page, not a redirect: the browser sends the new cookie only where a page of this site leads.
        response = await self._signed_in(request, who, self._html("opened.html", {}), by_link=True)
        response.headers["Refresh"] = f"0; url={self._prefix}/"
        return _without_referrer(response)

    async def _signed_in(
        self, request: Request, who: Principal, response: Response, *, by_link: bool = False
    ) -> Response:
        await to_thread.run_sync(self._end, request)
        name = self._sessions.begin(who.token_id, who.team, by_link=by_link)
        set_cookie(response, request, self._prefix, SESSION, name, int(LIFE_SECONDS))
        set_cookie(response, request, self._prefix, FORM, "", 0)
        return response

    def _let_in(self, identify: Callable[[], Principal], request_id: str) -> Principal:
        """Return the principal that signs in, and record the sign-in before it happens.

        A refused sign-in is recorded, too: once a minute at most if the token is not valid.
        """
        try:
            who = identify()
        except Unauthenticated as error:
            code = error.code
            self._refused.tell(
                lambda nobody: self._identity.record(
                    Action.CONSOLE_SIGN_IN, "console", request_id, nobody, code
                )
            )
            raise
        self._admit(who)
        try:
            self._identity.permit(who, Action.CONSOLE_SIGN_IN)
        except NotAllowed as error:
            self._identity.record(Action.CONSOLE_SIGN_IN, "console", request_id, who, error.code)
            raise
        self._identity.record(Action.CONSOLE_SIGN_IN, "console", request_id, who, DONE)
        return who

    async def _leave(self, request: Request) -> Response:
        """Sign out: only by the form of a page of this session, so that no other site signs anybody out."""
        session, form = self._sessions.of(cookie_of(request, SESSION)), await form_of(request)
        response = RedirectResponse(f"{self._prefix}/login", 303)
        if session is None:  # another site's form comes without the cookie, and must not have it deleted
            return response
        if not from_this_site(request) or not same(form.get("form_key", ""), session.form_key):
            detail = "You are still signed in: this form is not of your session. Sign out from the overview."
            return self._html("error.html", {"status": 403, "detail": detail}, 403)
        await to_thread.run_sync(self._end, request)
        set_cookie(response, request, self._prefix, SESSION, "", 0)
        return response

    def _end(self, request: Request) -> None:
        """End the session of a request, and with it the token that `ptk ui` made for this session alone."""
        session = self._sessions.end(cookie_of(request, SESSION))
        if session is None or not session.by_link:
            return
        try:
            who = self._identity.principal(session.token_id)
        except Unauthenticated:  # revoked or expired meanwhile
            return
        subject, request_id = subject_of("token", session.token_id), request.state.request_id
        with self._identity.recorded(Action.TOKEN_REVOKE, subject, request_id, who):
            self._identity.revoke_token(session.token_id)


def _without_referrer(response: Response) -> Response:
    """A page whose own address is a secret."""
    response.headers["Referrer-Policy"] = "no-referrer"
    return response
