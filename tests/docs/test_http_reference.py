"""The page about the HTTP API says what the program does."""

from __future__ import annotations

import json
import re
from pathlib import Path

from ptkstore.api.reference import openapi, page_with, tables
from ptkstore.settings import Settings


def test_the_reference_is_up_to_date(repository: Path) -> None:
    page = (repository / "docs/reference/http.md").read_text()
    again = "run: .venv/bin/python -m ptkstore.api.reference docs/reference/http.md"
    assert page_with(tables(), page) == page, again


def test_the_settings_it_names_exist(repository: Path) -> None:
    page = (repository / "docs/reference/http.md").read_text()
    defaults = Settings.model_fields
    assert defaults["api_timeout_seconds"].default == 60
    assert defaults["api_ingest_mib"].default == 64
    assert defaults["api_event_streams"].default == 200
    assert defaults["api_requests_per_second"].default == 300
    for name in ("API_REQUESTS_PER_SECOND", "API_TIMEOUT_SECONDS", "API_INGEST_MIB", "API_EVENT_STREAMS"):
        assert f"PTK_{name}" in page


def test_each_schema_that_the_document_names_is_in_it() -> None:
    document = openapi()
    named = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))
    assert len(named) > 80
    assert named - set(document["components"]["schemas"]) == set()
