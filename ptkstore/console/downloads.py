"""Signed reports to keep: made, recorded and checked as by the HTTP API, and sent as a file."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from ptkstore.application.identity.authorize import Named
from ptkstore.console.pages.shown import formed
from ptkstore.domain.audit import subject_of
from ptkstore.domain.identity import Action, Principal
from ptkstore.errors import NotAllowed, UnknownName
from ptkstore.sdk.reports.formats import FORMATS, report_in
from ptkstore.wiring import Service
from ptkstore.wiring.identity import Identity


class Reports:
    """Reports for those whose roles export the ledger."""

    def __init__(self, service: Service, identity: Identity) -> None:
        self._service, self._identity = service, identity

    def report(self, request: Request, who: Principal) -> Response:
        """Return the report on a stream as a file, with a line of the audit trail before it and one after."""
        name, form = (str(request.path_params[key]) for key in ("name", "form"))
        if form not in FORMATS:
            raise UnknownName("page", "?")
        subject, request_id = subject_of("stream", formed("stream", name)), request.state.request_id
        try:
            self._identity.permit(who, Action.LEDGER_EXPORT, Named(stream=name))
        except NotAllowed as error:
            self._identity.record(Action.LEDGER_EXPORT, subject, request_id, who, error.code)
            raise
        with self._identity.recorded(Action.LEDGER_EXPORT, subject, request_id, who):
            made = self._service.export_ledger(name)
            content = report_in(form, made.content, self._service.report_key())
        attached = f'attachment; filename="{name}-report.{form}"'
        policy = (
            "default-src 'none'; style-src 'unsafe-inline'; sandbox"
            if form == "html"
            else "default-src 'none'"
        )
        headers = {"Content-Disposition": attached, "Content-Security-Policy": policy}
        return Response(content, media_type=FORMATS[form], headers=headers)
