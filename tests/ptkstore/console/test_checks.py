"""The check of an uploaded report: by a form of this session alone, bounded, and clear on hostile files."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from ptkstore.console import checks
from ptkstore.console.checks import REPORT_BYTES_MAX, UPLOADS_OF_A_TEAM, fields_of
from ptkstore.domain.identity import Role
from ptkstore.domain.ledger.reports import signed
from ptkstore.sdk.documents.ledgers import check_report
from ptkstore.sdk.reports.pages import report_page
from tests.support.api_server import Api
from tests.support.console_pages import HOSTILE, seen, signed_in

OFFICER = "/console/streams/taxi/officer"
CHECK = "/console/streams/taxi/check"


def sent(client: httpx.Client, content: bytes, key: str | None = None, path: str = CHECK) -> httpx.Response:
    key = seen(client.get(OFFICER)).fields["form_key"] if key is None else key
    return client.post(path, data={"form_key": key}, files={"report": ("report.json", content)})


def test_a_report_of_this_store_is_valid_and_its_figures_are_shown(api: Api) -> None:
    content = api.world.service.export_ledger("taxi").content
    client = signed_in(api, Role.OFFICER)
    answer = sent(client, content)
    assert answer.status_code == 200
    assert "The signature is valid, by the key of this store." in answer.text
    assert "Worst block: ε 0.1 lost, of ε 1 promised" in answer.text
    assert api.world.service.report_key() in answer.text
    assert "not taxi" not in answer.text
    api.world.stream("bikes")
    other = sent(client, api.world.service.export_ledger("bikes").content)
    assert "The report is about the stream bikes, not taxi." in other.text


def test_what_is_not_signed_by_this_store_is_refused_and_not_shown(api: Api) -> None:
    content = api.world.service.export_ledger("taxi").content
    report = json.loads(content)["report"]
    client = signed_in(api, Role.OFFICER)
    forged = signed({**report, "made_at": HOSTILE}, b"k" * 32, lambda _: b"s" * 64)
    deep = b'{"report":' + b"[" * 200_000
    for hostile, why in (
        (content.replace(b"0.1", b"0.2"), "the signature does not fit"),
        (content + b" ", "its bytes were changed"),
        (forged, "signed with another key"),
        (deep, "the file is no report"),
        (b"\xff\xfe\x00", "the file is no report"),
        (b"1" * 5_000, "the file is no report"),
        (report_page(content, "html"), "a page for people"),
        (report_page(content, "pdf"), "a page for people"),
    ):
        answer = sent(client, hostile)
        assert answer.status_code == 200, why
        assert f"The check fails: {why}" in answer.text or why in answer.text
        assert "is valid" not in answer.text
        assert "Worst block" not in answer.text
        assert "<script" not in answer.text


def test_a_check_needs_the_form_of_this_session_and_a_role(api: Api) -> None:
    content = api.world.service.export_ledger("taxi").content
    client = signed_in(api, Role.OFFICER)
    for key in ("", "x" * 43, seen(signed_in(api, Role.OFFICER).get(OFFICER)).fields["form_key"]):
        refused = sent(client, content, key)
        assert (refused.status_code, "is valid" in refused.text) == (403, False)
    key = seen(client.get(OFFICER)).fields["form_key"]
    from_elsewhere = client.post(
        CHECK, data={"form_key": key}, files={"report": content}, headers={"Sec-Fetch-Site": "cross-site"}
    )
    assert from_elsewhere.status_code == 403
    assert client.get(CHECK).status_code == 405
    assert sent(client, content, path="/console/streams/none/check").status_code == 404
    assert sent(signed_in(api, Role.ADMINISTRATOR, team="operators"), content).status_code == 200
    developer = signed_in(api, Role.DEVELOPER)
    assert sent(developer, content, "any").status_code == 403
    assert sent(signed_in(api, Role.OFFICER, team="strangers"), content, "any").status_code == 404
    lines = [one for one in api.identity.audit_log(limit=1_000) if one.action == "ledger.verify"]
    assert [(one.subject, one.outcome) for one in lines] == [("stream/taxi", "not-allowed")]
    assert sent(api.client(), content, "any").headers["location"] == "/console/login"


def test_a_file_beyond_the_limit_is_refused_clearly(api: Api) -> None:
    client = signed_in(api, Role.OFFICER)
    key = seen(client.get(OFFICER)).fields["form_key"]
    large = sent(client, b"x" * (REPORT_BYTES_MAX + 5_000), key)
    assert (large.status_code, "larger than 8 MiB" in large.text) == (413, True)

    def chunks() -> Iterator[bytes]:  # without a length that it admits
        for _ in range(REPORT_BYTES_MAX // 2**16 + 2):
            yield b"x" * 2**16

    assert client.post(CHECK, content=chunks()).status_code == 413
    assert client.post("/console/login", content=b"x" * (2**20 + 1)).status_code == 413
    nearly = sent(client, b"x" * REPORT_BYTES_MAX, key)
    assert (nearly.status_code, "The check fails" in nearly.text) == (200, True)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/plain", b"x"),
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=b", b""),
        ("multipart/form-data; boundary=b", b"--b--\r\n"),
        ("multipart/form-data; boundary=b", b"--b\r\n\r\nx\r\n--b--\r\n"),
        ("multipart/form-data; boundary=b", b'--b\r\nContent-Disposition: form-data; name="report"\r\n\r\nx'),
        ("multipart/form-data; boundary=b", b"--b\r\n" * 1_000),
    ],
)
def test_what_is_no_form_with_a_file_is_told_so(api: Api, kind: str, body: bytes) -> None:
    answer = signed_in(api, Role.OFFICER).post(CHECK, content=body, headers={"Content-Type": kind})
    assert (answer.status_code, "Choose the signed file" in answer.text) == (400, True)


def test_the_bytes_of_a_file_are_those_that_were_sent() -> None:
    def form(*parts: tuple[str, bytes]) -> bytes:
        pieces = [
            f'--b\r\nContent-Disposition: form-data; filename="name=x"; name="{name}"\r\n\r\n'.encode()
            + content
            for name, content in parts
        ]
        return b"\r\n".join([*pieces, b"--b--\r\n"])

    kind = 'multipart/form-data; boundary="b"'
    content = b"\r\n\r\n\xff\r\n--\r\nb\n"
    assert fields_of(kind, form(("form_key", b"k"), ("report", content))) == {
        "form_key": b"k",
        "report": content,
    }
    twice = fields_of(kind, form(("report", b"1"), ("report", b"2")))
    assert twice == {"report": b"1"}
    assert fields_of(kind, form(*[("a", b"1")] * 9)) is None


def test_few_files_are_read_at_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    client, started, go_on = signed_in(api, Role.OFFICER), threading.Semaphore(0), threading.Event()
    key, check = seen(client.get(OFFICER)).fields["form_key"], check_report

    def slow(*given: Any) -> Any:
        started.release()
        assert go_on.wait(60)
        return check(*given)

    monkeypatch.setattr(checks, "check_report", slow)
    held = [threading.Thread(target=sent, args=(client, b"x", key)) for _ in range(UPLOADS_OF_A_TEAM)]
    try:
        for one in held:
            one.start()
        assert all(started.acquire(timeout=60) for _ in held)
        busy = sent(client, b"x", key)
        assert busy.status_code == 429
        assert client.get(OFFICER).status_code == 200
    finally:
        go_on.set()
        for one in held:
            one.join()
    assert sent(client, b"x", key).status_code == 200
