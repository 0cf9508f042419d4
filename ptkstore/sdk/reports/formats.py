"""The forms of a signed report, with their media types; every page is checked against its signature first."""

from __future__ import annotations

from typing import Final

from ptkstore.errors import InvalidRequest, InvariantBroken
from ptkstore.sdk.documents.ledgers import check_report
from ptkstore.sdk.reports.pages import report_page

FORMATS: Final = {"html": "text/html; charset=utf-8", "pdf": "application/pdf", "json": "application/json"}


def report_in(form: str, content: bytes, public_key: str) -> bytes:
    """Return an exported report as JSON, or as a page for people; check that its signature is by `public_key`.

    Raises
    ------
    InvariantBroken
        The signature does not hold.
    """
    if form not in FORMATS:
        raise InvalidRequest(f"a report is {', '.join(FORMATS)}")
    if check_report(content, public_key).fault:
        raise InvariantBroken("the signature of a report that was just made does not hold")
    return content if form == "json" else report_page(content, form)
