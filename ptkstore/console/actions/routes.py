"""The pages of actions: a form, a confirmation that says what will happen, and the action itself, by POST alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from anyio import CapacityLimiter, to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ptkstore import errors as e
from ptkstore.application.identity.authorize import Named
from ptkstore.console.actions.acts import Act, Ask, Done
from ptkstore.console.actions.confirmations import Confirmations
from ptkstore.console.actions.table import ACTS
from ptkstore.console.forms import form_of, from_this_site, same
from ptkstore.console.frame import Frame
from ptkstore.console.sessions import Session
from ptkstore.domain.audit import subject_of
from ptkstore.domain.identity import Action, Principal, Reach
from ptkstore.wire.base import NAME, PTK_ID, SUBSCRIPTION_ID
from ptkstore.wiring import Service
from ptkstore.wiring.identity import Identity

PREFIX: Final = "/act"
FORM_REFUSED: Final = "form-refused"
FIELD_MOST: Final = 200
OUTSIDE_AT_ONCE: Final = 8
_OURS: Final = ("form_key", "confirm")
# What a name in a path is called, and which texts can be one.
_NAMED: Final = {
    "stream": ("stream", re.compile(NAME)),
    "ptk_id": ("PTK", re.compile(PTK_ID)),
    "subscription_id": ("subscription", re.compile(SUBSCRIPTION_ID)),
}
# Pages for some roles, of a stream or of the store, that are led to beside the actions: with the right to see them.
_BESIDE: Final[tuple[tuple[AbstractSet[str], Action, str, str], ...]] = (
    ({"stream"}, Action.LEDGER_VERIFY, "/streams/{stream}/officer", "For the privacy officer"),
    (set(), Action.GRANT_LIST, "/access", "Roles and tokens"),
    (set(), Action.AUDIT_READ, "/audit-log", "Audit trail"),
)
_STATUS: Final[tuple[tuple[type[e.PtkStoreError], int], ...]] = (
    (e.UnknownName, 404),
    (e.WindowGone, 410),
    (e.InvalidRequest, 400),
    (e.Refused, 403),
    (e.Conflict, 409),
    (e.TooManyRequests, 429),
    (e.Unavailable, 503),
    (e.OutcomeUnknown, 504),
)
_NOT_OURS: Final = (
    "Nothing was done: the form does not come from a page of your session, or it is too old. Go back, load the page "
    "again, and confirm what it says."
)

_Step = Callable[[Act, Request, Session, Principal, Mapping[str, str]], Response]


class ActionRoutes:
    """Routes for every action of the table; `seeks` is that of the `Console`."""

    def __init__(self, service: Service, identity: Identity, frame: Frame, seeks: Callable[[], bool]) -> None:
        self._service, self._identity, self._frame, self._prefix = service, identity, frame, frame.prefix
        self._seeks = seeks
        self._confirmations = Confirmations()

    @cached_property
    def _outside(self) -> CapacityLimiter:
        """Threads that wait for hosts of others: those that do not answer hold up no other page."""
        return CapacityLimiter(OUTSIDE_AT_ONCE)

    def routes(self) -> list[Route]:
        """Return a route for each action, to be asked by GET and done by POST."""
        return [Route(PREFIX + act.path, self._answering(act), methods=["GET", "POST"]) for act in ACTS]

    def offered(
        self, who: Principal, names: Mapping[str, str], done: Collection[Action] = ()
    ) -> list[dict[str, str]]:
        """Return links to the actions that the roles allow on what a page is about, or on the store.

        Parameters
        ----------
        done : collection of Action
            Those that would change nothing now, which get no link.
        """
        fitting = [act for act in ACTS if act.names() == names.keys()]
        beside = [one for one in _BESIDE if one[0] == names.keys()]
        asked = {act.action for act in fitting} | {action for _, action, *_ in beside}
        may = self._identity.allowed(who, asked, Named(**names) if names else None)
        links = [
            {"href": self._prefix + PREFIX + act.path.format(**names), "title": act.title}
            for act in fitting
            if act.action in may - set(done)
        ]
        links += [
            {"href": self._prefix + path.format(**names), "title": title}
            for _, action, path, title in beside
            if action in may
        ]
        return links

    def _answering(self, act: Act) -> Any:
        async def answer(request: Request) -> Response:
            if request.method == "HEAD":
                raise HTTPException(405)
            session = self._frame.session_of(request)
            if session is None:
                return self._frame.sign_in_again(request)
            if request.method == "GET":
                sent = dict(request.query_params)
                return await to_thread.run_sync(self._guarded, self._asked, act, request, session, sent)
            form = await form_of(request)
            limiter = self._outside if act.asks_outside else None
            return await to_thread.run_sync(
                self._guarded, self._done, act, request, session, form, limiter=limiter
            )

        return answer

    def _guarded(
        self, step: _Step, act: Act, request: Request, session: Session, sent: Mapping[str, str]
    ) -> Response:
        """Have a step answer whoever is signed in, and show a refusal with its reason and code."""
        try:
            who = self._frame.entered(request, session)
        except e.Unauthenticated:
            return self._frame.sign_in_again(request)
        try:
            response = step(act, request, session, who, sent)
        except e.PtkStoreError as error:
            request.state.code = error.code
            response = self._refusal(act, request, session, who, error)
        # no-referrer would have the browser send `Origin: null` with the form
        response.headers["Referrer-Policy"] = "same-origin"
        return response

    def _asked(
        self, act: Act, request: Request, session: Session, who: Principal, sent: Mapping[str, str]
    ) -> Response:
        """Show the form until its fields are as they should be, and then what will happen. It changes nothing."""
        names = self._permitted(act, request, who)
        fields = _fields(act, sent)
        shown: dict[str, Any] = {
            "act": act,
            "names": names,
            "cancel": self._back(act, names),
            "fields": fields,
            "problem": "",
        }
        if act.fields and (not sent or act.lacks(sent)):
            first = {one.name: fields[one.name] or one.first for one in act.fields}
            return self._page(request, who, session, "ask.html", **{**shown, "fields": first})
        ask = Ask(self._service, self._identity, who, names, None, self._seeks)
        try:
            ask = replace(ask, document=act.document(fields))
            says = act.says(ask)
        except e.InvalidRequest as error:
            request.state.code = error.code
            shown["problem"] = str(error)
            status = 404 if isinstance(error, e.UnknownName) else 400
            return self._page(request, who, session, "ask.html", status=status, **shown)
        key = self._confirmations.key(session.form_key, request.url.path, fields)
        return self._page(request, who, session, "confirm.html", says=says, confirm=key, **shown)

    def _done(
        self, act: Act, request: Request, session: Session, who: Principal, form: Mapping[str, str]
    ) -> Response:
        """Do what was confirmed, once, with a line of the audit trail before it and one after."""
        names = self._permitted(act, request, who)
        fields = _fields(act, {name: text for name, text in form.items() if name not in _OURS})
        back = self._back(act, names)
        name = self._confirmations.name_of(
            form.get("confirm", ""), session.form_key, request.url.path, fields
        )
        if (
            not from_this_site(request)
            or not same(form.get("form_key", ""), session.form_key)
            or name is None
        ):
            request.state.code = FORM_REFUSED
            shown = _refused(act, _NOT_OURS, FORM_REFUSED, back)
            return self._page(request, who, session, "refused.html", status=403, **shown)
        ask = Ask(self._service, self._identity, who, names, act.document(fields), self._seeks)
        subject = subject_of(act.kind, act.about(ask))
        with self._identity.recorded(act.action, subject, request.state.request_id, who):
            done, again = self._once(act, ask, f"console-{name}", request.url.path, fields)
        if act.secret:
            return self._page(
                request, who, session, "secret.html", act=act, done=done, again=again, back=back
            )
        self._frame.leave_message(request, done.message)
        return RedirectResponse(back if act.leads_to is None else self._prefix + act.leads_to(ask), 303)

    def _once(self, act: Act, ask: Ask, key: str, path: str, fields: Mapping[str, str]) -> tuple[Done, bool]:
        """Do it unless this confirmation was sent before; a secret is shown to the first alone."""
        made: list[Done] = []

        def do() -> tuple[int, str]:
            made.append(act.do(ask))
            return 200, json.dumps(made[0].message)

        requested = {"operation": path, "asked": dict(fields)}
        answer, old = self._identity.answer_once(ask.who.team, key, requested, do, repeatable=act.repeatable)
        return (Done(json.loads(answer.content)), True) if old else (made[0], False)

    def _permitted(self, act: Act, request: Request, who: Principal) -> dict[str, str]:
        """Return what the path names, if the roles allow the action on it; a refusal by roles is recorded."""
        names = _checked(request.path_params)
        subject = subject_of(act.kind, next(iter(names.values()))) if names else "store"
        try:
            named = [] if act.action.rule.reach is Reach.STORE else [act.named(names)]
            self._identity.permit(who, act.action, *named)
        except e.NotAllowed as error:
            self._identity.record(act.action, subject, request.state.request_id, who, error.code)
            raise
        return names

    def _refusal(
        self, act: Act, request: Request, session: Session, who: Principal, error: e.PtkStoreError
    ) -> Response:
        status = next((number for kind, number in _STATUS if isinstance(error, kind)), 500)
        reason = str(error)
        if isinstance(error, e.InvariantBroken):
            reason = f"This is for the operator, who finds it by the request id {request.state.request_id}."
        shown = _refused(act, reason, error.code, f"{self._prefix}/")
        return self._page(request, who, session, "refused.html", status=status, **shown)

    def _page(
        self,
        request: Request,
        who: Principal,
        session: Session,
        template: str,
        status: int = 200,
        **more: Any,
    ) -> Response:
        return self._frame.shown(request, who, session, f"actions/{template}", more, status)

    def _back(self, act: Act, names: Mapping[str, str]) -> str:
        return self._prefix + act.back.format(**names)


def _refused(act: Act, reason: str, code: str, back: str) -> dict[str, Any]:
    return {"act": act, "reason": reason, "code": code, "back": back}


def _fields(act: Act, sent: Mapping[str, str]) -> dict[str, str]:
    """The fields of the form as they were sent; `InvalidRequest` for any other, and for one that is too long."""
    known = [one.name for one in act.fields]
    if not sent.keys() <= set(known):
        raise e.InvalidRequest("the form has other fields")
    if any(len(text) > FIELD_MOST for text in sent.values()):
        raise e.InvalidRequest(f"a field has at most {FIELD_MOST} characters")
    return {name: sent.get(name, "").strip() for name in known}


def _checked(path_params: Mapping[str, str]) -> dict[str, str]:
    """The names in the path; what cannot be one names nothing, and is not repeated."""
    for key, value in path_params.items():
        kind, form = _NAMED[key]
        if len(value) > FIELD_MOST or not form.fullmatch(value):
            raise e.UnknownName(kind, "?")
    return dict(path_params)
