"""The check of a signed report that somebody uploads: bounded, by a form of this session, and of the file alone."""

from __future__ import annotations

import hashlib
import re
from email.message import Message
from typing import Any, Final

from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ptkstore.application.identity.authorize import Named
from ptkstore.application.operations.few import Few
from ptkstore.console.forms import from_this_site, same
from ptkstore.console.frame import Frame
from ptkstore.console.pages.shown import formed
from ptkstore.console.sessions import Session
from ptkstore.domain.audit import subject_of
from ptkstore.domain.identity import Action, Principal
from ptkstore.errors import InvalidRequest, NotAllowed, Unauthenticated
from ptkstore.sdk.documents.ledgers import check_report
from ptkstore.sdk.reports.content import Section, Table, page_of
from ptkstore.wiring import Service
from ptkstore.wiring.identity import Identity

REPORT_BYTES_MAX: Final = 8 * 1024 * 1024
UPLOADS_AT_ONCE: Final = 4
UPLOADS_OF_A_TEAM: Final = 2
_ENVELOPE_BYTES: Final = 4_096
_PARTS_MAX: Final = 4
_NAME: Final = re.compile(rb';[ \t]*name="([^"\r\n]*)"')

_TOO_LARGE: Final = (
    f"The file is larger than {REPORT_BYTES_MAX // 2**20} MiB, so it is not checked here. Check it on your machine: "
    "ptk ledger check FILE --public-key KEY"
)
_NO_FORM: Final = "Choose the signed file of a report, which ends in .json, and send the form again."
_NOT_OURS: Final = "Nothing was checked: the form is not of your session. Open the officer's page again."


class Checks:
    """The route that takes a report."""

    def __init__(self, service: Service, identity: Identity, frame: Frame) -> None:
        self._service, self._identity, self._frame = service, identity, frame
        self._few = Few(UPLOADS_AT_ONCE, UPLOADS_OF_A_TEAM)

    def route(self) -> Route:
        """Return the route: by POST alone, as a link must not send a file."""
        return Route("/streams/{name}/check", self._answer, methods=["POST"])

    async def _answer(self, request: Request) -> Response:
        session = self._frame.session_of(request)
        if session is None:
            return self._frame.sign_in_again(request)
        try:
            who = await to_thread.run_sync(self._let, request, session)
        except Unauthenticated:
            return self._frame.sign_in_again(request)

        def told(status: int, detail: str) -> Response:
            more = {"status": status, "detail": detail, "near": []}
            return self._frame.shown(request, who, session, "error.html", more, status)

        if not from_this_site(request):
            return told(403, _NOT_OURS)
        with self._few.place(who.team):
            body = await _bounded(request)
            if body is None:
                return told(413, _TOO_LARGE)
            fields = fields_of(request.headers.get("content-type", ""), body)
            if fields is None or not fields.get("report"):
                return told(400, _NO_FORM)
            if not same(fields.get("form_key", b"").decode("ascii", "replace"), session.form_key):
                return told(403, _NOT_OURS)
            found = await to_thread.run_sync(self._checked, fields["report"])
        more = {"name": request.path_params["name"], **found}
        return await to_thread.run_sync(self._frame.shown, request, who, session, "check.html", more)

    def _let(self, request: Request, session: Session) -> Principal:
        """Return who asks, if it may check the ledger of the stream; a refusal is on record."""
        who = self._frame.entered(request, session)
        name = formed("stream", request.path_params["name"])
        try:
            self._identity.permit(who, Action.LEDGER_VERIFY, Named(stream=name))
        except NotAllowed as error:
            subject = subject_of("stream", name)
            self._identity.record(Action.LEDGER_VERIFY, subject, request.state.request_id, who, error.code)
            raise
        return who

    def _checked(self, content: bytes) -> dict[str, Any]:
        """The verdict on a file, and what it says where this store signed it; nothing of any other file is shown."""
        key = self._service.report_key()
        reading = check_report(content, key)
        found: dict[str, Any] = {"fault": reading.fault, "summary": {}, "lead": "", "sections": []}
        if reading.fault:
            return found
        found |= {"summary": reading.summary, "digest": hashlib.sha256(content).hexdigest(), "key": key}
        try:
            page = page_of(content)
        except InvalidRequest:  # of a form of before pages; the summary stands
            return found
        return {**found, "lead": page.lead, "sections": [_shown(one) for one in page.sections[:-1]]}


def fields_of(content_type: str, body: bytes) -> dict[str, bytes] | None:
    """Return the fields of a form that was sent as multipart/form-data, the first of each name; None if it is none."""
    header = Message()
    header["content-type"] = content_type
    boundary = header.get_boundary()
    if header.get_content_type() != "multipart/form-data" or not boundary or not boundary.isascii():
        return None
    first, *parts = (b"\r\n" + body).split(b"\r\n--" + boundary.encode(), _PARTS_MAX)
    if first or not parts or not parts.pop().startswith(b"--"):
        return None
    fields: dict[str, bytes] = {}
    for part in parts:
        head, blank, content = part.partition(b"\r\n\r\n")
        name = _NAME.search(head[:_ENVELOPE_BYTES])
        if not blank or name is None:
            return None
        fields.setdefault(name[1].decode("ascii", "replace"), content)
    return fields


async def _bounded(request: Request) -> bytes | None:
    """The body of a request; None if it is too large, of which no more is read."""
    most = REPORT_BYTES_MAX + _ENVELOPE_BYTES
    length = request.headers.get("content-length", "0")
    if not length.isdecimal():
        raise HTTPException(400)
    if len(length) > 18 or int(length) > most:
        return None
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            return None
    return bytes(body)


def _shown(section: Section) -> dict[str, Any]:
    return {
        "heading": section.heading,
        "parts": [
            {"header": part.header, "rows": part.rows}
            if isinstance(part, Table)
            else {"text": part.text, "alarm": part.alarm}
            for part in section.parts
        ],
    }
