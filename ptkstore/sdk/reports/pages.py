"""Chooses the layout of a report's page."""

from __future__ import annotations

from ptkstore.errors import InvalidRequest
from ptkstore.sdk.reports.content import page_of


def report_page(content: bytes, form: str) -> bytes:
    """Make the page for people of an exported report, as `html` or `pdf`. Check the report itself first.

    The page carries the digest of `content` and its signature.
    """
    page = page_of(content)
    if form == "html":
        from ptkstore.sdk.reports.html import html_of

        return html_of(page)
    if form == "pdf":
        from ptkstore.sdk.reports.pdf import pdf_of

        return pdf_of(page)
    raise InvalidRequest(f"a report's page is html or pdf, not {form!r}")
