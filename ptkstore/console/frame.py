"""The frame of all pages: who is signed in, and how a page is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ptkstore.console.cookies import SESSION, cookie_of
from ptkstore.console.sessions import Session, Sessions
from ptkstore.console.site import FirstUses
from ptkstore.domain.identity import Principal
from ptkstore.errors import Unauthenticated
from ptkstore.wiring.identity import Identity

_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)


class Frame:
    """What pages, actions and uploads share.

    Parameters
    ----------
    admit : callable
        Counts a request of a principal. Refuses a request too many.
    prefix : str
        The path below which the console is.
    filters : Mapping
        How values are written in templates.

    Attributes
    ----------
    sessions : Sessions
        Those who are signed in.
    """

    def __init__(
        self,
        identity: Identity,
        admit: Callable[[Principal], None],
        prefix: str,
        filters: Mapping[str, Callable[..., Any]],
    ) -> None:
        self._identity, self.admit, self.prefix = identity, admit, prefix
        self.sessions = Sessions()
        self._templates = Environment(
            loader=FileSystemLoader(Path(__file__).parent / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= filters

    def session_of(self, request: Request) -> Session | None:
        """Return the session of a request."""
        return self.sessions.of(cookie_of(request, SESSION))

    def entered(self, request: Request, session: Session) -> Principal:
        """Return who asks, counted and known to the request log; `Unauthenticated` ends the session."""
        try:
            who = self._identity.principal(session.token_id)
        except Unauthenticated:  # revoked or expired meanwhile
            self.sessions.end(cookie_of(request, SESSION))
            raise
        request.state.team, request.state.token_id = who.team, who.token_id
        self.admit(who)
        return who

    def sign_in_again(self, request: Request) -> Response:
        """Lead to the sign-in."""
        return RedirectResponse(f"{self.prefix}/login", 303)

    def leave_message(self, request: Request, text: str) -> None:
        """Have the next page of the session show a sentence."""
        self.sessions.leave_message(cookie_of(request, SESSION), text)

    def shown(
        self,
        request: Request,
        who: Principal,
        session: Session,
        template: str,
        more: Mapping[str, Any],
        status: int = 200,
    ) -> Response:
        """Draw a page, with the sentence that an action left.

        Parameters
        ----------
        more : Mapping
            What the template shows.
        """
        about = {"who": who, "form_key": session.form_key, "path": request.url.path}
        message = self.sessions.take_message(cookie_of(request, SESSION))
        return self.html(template, {"message": message, **more, **about}, status)

    def html(self, template: str, shown: Mapping[str, Any], status: int = 200) -> Response:
        """Draw a page that needs no session."""
        text = self._templates.get_template(template).render(
            prefix=self.prefix, first_use=FirstUses(), **{"who": None, "message": "", "acts": [], **shown}
        )
        # no-referrer would have the browser send `Origin: null` with the forms of a page
        headers = {"Content-Security-Policy": _POLICY, "Referrer-Policy": "same-origin"}
        return HTMLResponse(text, status, headers=headers)
