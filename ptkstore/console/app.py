"""The console's own application, to be mounted beside the API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ptklib.doc_pages import site_address
from ptkstore.application.operations.few import Few
from ptkstore.console.actions.routes import ActionRoutes
from ptkstore.console.checks import Checks
from ptkstore.console.downloads import Reports
from ptkstore.console.entrance import Entrance
from ptkstore.console.forms import form_of, from_this_site, same
from ptkstore.console.frame import Frame
from ptkstore.console.glossary import glossary_page, meaning
from ptkstore.console.pages.diffs import fact
from ptkstore.console.pages.pages import Pages
from ptkstore.console.pages.reads import Health
from ptkstore.console.pages.shown import compact, problem_of, shown_second, shown_time
from ptkstore.console.sessions import Session
from ptkstore.domain.accounting.assurances import assured_of
from ptkstore.domain.audit import subject_of
from ptkstore.domain.identity import Action, Principal
from ptkstore.domain.notices import code_page
from ptkstore.errors import (
    NotAllowed,
    PtkStoreError,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    UnknownName,
)
from ptkstore.wiring import Service
from ptkstore.wiring.identity import Identity

PREFIX = "/console"
HEAVY_AT_ONCE, OF_A_TEAM_AT_ONCE = 3, 2  # officer's pages and reports: each reads a whole journal
_STYLE = (Path(__file__).parent / "style.css").read_text()

# Pages that lead to the actions on what they are about.
_ACTED_ON = ("/", "/streams/{name}", "/ptks/{ptk_id}", "/subscriptions/{subscription_id}")

# Pages that are not made for HEAD, which would drop them.
_HEAVY = ("/streams/{name}/officer",)

Page = Callable[..., dict[str, Any]]  # of a principal, and of what the path names


class Console:
    """Pages for users who signed in with an API token, under the rules of the API.

    Parameters
    ----------
    health : callable
        Returns the state of every part by name, and the names of those that fail.
    admit : callable
        Counts a request of a principal. Refuses a request too many.
    seeks : callable
        Whether near names may be sought for one more unknown name now.
    """

    def __init__(
        self,
        service: Service,
        identity: Identity,
        health: Health,
        admit: Callable[[Principal], None],
        seeks: Callable[[], bool],
    ) -> None:
        self._identity = identity
        self._frame = frame = Frame(identity, admit, PREFIX, _filters(service.settings.docs_url))
        self._pages = pages = Pages(service, identity, health, seeks)
        self._reports, self._few = Reports(service, identity), Few(HEAVY_AT_ONCE, OF_A_TEAM_AT_ONCE)
        self._actions = ActionRoutes(service, identity, frame, seeks)
        self.app = Starlette(
            routes=[
                Route("/style.css", _style),
                *Entrance(service, identity, frame).routes(),
                self._page("/", "overview.html", pages.overview, Action.STREAM_LIST),
                self._page(
                    "/streams/{name}",
                    "stream.html",
                    pages.stream,
                    Action.STREAM_READ,
                    "stream",
                    asks=True,
                    traced=True,
                ),
                self._page(
                    "/streams/{name}/windows/{window}",
                    "window.html",
                    pages.window,
                    Action.STATE_TRACE,
                    "stream",
                ),
                self._page("/streams/{name}/queue", "queue.html", pages.queue, Action.BUDGET_READ, "stream"),
                self._page(
                    "/streams/{name}/simulation",
                    "simulation.html",
                    pages.simulation,
                    Action.STREAM_RECOMMEND,
                    "stream",
                    asks=True,
                ),
                self._page("/ptks", "ptks.html", pages.ptks, Action.PTK_LIST, asks=True),
                self._page("/ptks/{ptk_id}", "ptk.html", pages.ptk, Action.PTK_READ, "ptk", asks=True),
                self._page("/ptks/{ptk_id}", "ptk.html", pages.searched, Action.PTK_READ, "ptk", sends=True),
                self._page("/lookup", "lookups.html", pages.lookups, Action.FEATURE_LOOK_UP, asks=True),
                self._page(
                    "/ptks/{ptk_id}/diff", "diff.html", pages.diff, Action.STATE_READ, "ptk", asks=True
                ),
                self._page(
                    "/ptks/{ptk_id}/lookup", "lookup.html", pages.lookup, Action.FEATURE_LOOK_UP, "ptk"
                ),
                self._page(
                    "/ptks/{ptk_id}/lookup",
                    "lookup.html",
                    pages.lookup,
                    Action.FEATURE_LOOK_UP,
                    "ptk",
                    sends=True,
                ),
                self._page("/deliveries", "deliveries.html", pages.deliveries, Action.SUBSCRIPTION_LIST),
                self._page(
                    "/subscriptions/{subscription_id}",
                    "subscription.html",
                    pages.subscription,
                    Action.SUBSCRIPTION_READ,
                    "subscription",
                ),
                self._page(
                    "/streams/{name}/officer",
                    "officer.html",
                    self._few.guarding(pages.officer),
                    Action.LEDGER_VERIFY,
                    "stream",
                ),
                self._page("/access", "access.html", pages.access, Action.GRANT_LIST, asks=True),
                self._page(
                    "/audit-log", "trail.html", pages.trail, Action.AUDIT_READ, asks=True, traced=True
                ),
                Route("/streams/{name}/report.{form}", self._download),
                Checks(service, identity, frame).route(),
                *self._actions.routes(),
            ],
            exception_handlers={HTTPException: self._strange, PtkStoreError: self._failed},
        )
        self.app.router.redirect_slashes = False

    # pages

    def _page(
        self,
        path: str,
        template: str,
        page: Page,
        action: Action,
        kind: str = "store",
        *,
        asks: bool = False,
        sends: bool = False,
        traced: bool = False,
    ) -> Route:
        """A page for whoever is signed in, about the store or about what the path names.

        With `asks` it takes the query, and with `sends` a form that a page of this session sent by POST. With `traced`
        it takes the id of the request, for its own lines of the audit trail.
        """

        def shown(request: Request, session: Session, *form: Mapping[str, str]) -> Response:
            try:
                who = self._frame.entered(request, session)
            except Unauthenticated:
                return self._frame.sign_in_again(request)
            names = tuple(request.path_params.values())
            try:
                query: list[Any] = [_query(request)] if asks else []
                if traced:
                    query.append(request.state.request_id)
                about = {"stream": names[0]} if kind == "stream" else dict(request.path_params)
                more = page(who, *names, *query, *form)
                done = more.pop("done", ())
                more["acts"] = self._actions.offered(who, about, done) if path in _ACTED_ON else []
                return self._frame.shown(request, who, session, template, more)
            except UnknownName as error:
                request.state.code = error.code
                near = self._pages.near(who, kind, names[0]) if names else []
                status, detail = problem_of(error)
                told = {"status": status, "detail": detail, "near": near}
                return self._frame.shown(request, who, session, "error.html", told, status)
            except NotAllowed as error:
                subject = subject_of(kind, names[0] if names else None)
                self._identity.record(action, subject, request.state.request_id, who, error.code)
                raise

        async def answer(request: Request) -> Response:
            session = self._frame.session_of(request)
            if session is None:
                return self._frame.sign_in_again(request)
            if path in _HEAVY and request.method != "GET":
                raise HTTPException(405)
            if not sends:
                return await to_thread.run_sync(shown, request, session)
            form = await form_of(request)
            if not from_this_site(request) or not same(form.get("form_key", ""), session.form_key):
                detail = "This form is not of your session. Open the page again."
                return self._frame.html("error.html", {"status": 403, "detail": detail}, 403)
            return await to_thread.run_sync(shown, request, session, form)

        return Route(path, answer, methods=["POST"] if sends else ["GET"])

    async def _download(self, request: Request) -> Response:
        """A signed report as a file, for whoever is signed in."""
        session = self._frame.session_of(request)
        if session is None:
            return self._frame.sign_in_again(request)
        if request.method != "GET":  # which would make a report that nobody gets
            raise HTTPException(405)

        def made() -> Response:
            try:
                who = self._frame.entered(request, session)
            except Unauthenticated:
                return self._frame.sign_in_again(request)
            return self._few.guarding(self._reports.report)(request, who)

        return await to_thread.run_sync(made)

    # what goes wrong

    async def _strange(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 404
        return self._frame.html("error.html", {"status": status, "detail": "There is no such page."}, status)

    async def _failed(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, PtkStoreError)
        request.state.code = error.code
        status, detail = problem_of(error)
        if isinstance(error, TooManyRequests):
            status, detail = 429, "You ask for many pages at once. Wait a moment."
        response = self._frame.html("error.html", {"status": status, "detail": detail}, status)
        if isinstance(error, Unavailable):
            response.headers["Retry-After"] = "5"
        return response


def _filters(docs_url: str | None) -> dict[str, Callable[..., Any]]:
    return {
        "time": shown_time,
        "second": shown_second,
        "meaning": meaning,
        "glossary_page": glossary_page,
        "code_page": code_page,
        "site": partial(site_address, docs_url),
        "compact": compact,
        "fact": fact,
        "assured": lambda document: assured_of(document).words(),
        "assured_sentence": lambda document: assured_of(document).sentence(),
    }


async def _style(request: Request) -> Response:
    return Response(_STYLE, media_type="text/css", headers={"Cache-Control": "public, max-age=3600"})


def _query(request: Request) -> dict[str, list[str]]:
    """The fields of a form that asks, each with all its values."""
    return {name: request.query_params.getlist(name) for name in request.query_params}
