"""The page of a privacy officer, and signed reports as files: for whom, on record, and checked."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from ptkstore.console.app import HEAVY_AT_ONCE, OF_A_TEAM_AT_ONCE
from ptkstore.console.pages import officers
from ptkstore.domain.identity import STREAM_ROLES, Role
from ptkstore.sdk.documents.ledgers import check_report
from tests.support.api_server import Api
from tests.support.console_pages import seen, signed_in

PAGE = "/console/streams/taxi/officer"
REPORT = "/console/streams/taxi/report"


def exports(api: Api) -> list[tuple[str, str, str]]:
    lines = [one for one in api.identity.audit_log(limit=1_000) if one.action == "ledger.export"]
    return [(one.team, one.subject, one.outcome) for one in lines if one.outcome != "started"]


def test_an_officer_sees_the_check_the_exposure_the_losses_and_the_key(api: Api) -> None:
    text = re.sub(r"\s+", " ", seen(signed_in(api, Role.OFFICER).get(PAGE)).text)
    assert "Every sum, sequence and digest of the journal holds" in text
    assert "rows never expire by the wall clock" in text
    assert "taxi.speed0.10library" in text.replace(" ", "")
    assert api.world.service.report_key() in text
    assert "HTML · PDF · JSON" in text
    assert exports(api) == []  # a look exports nothing


def test_the_first_answer_is_what_can_be_learnt_about_one_person(api: Api) -> None:
    api.world.publish(1)
    page = signed_in(api, Role.OFFICER).get(PAGE).text
    text = re.sub(r"\s+", " ", seen(signed_in(api, Role.OFFICER).get(PAGE)).text)
    assert page.index("learnt about one person") < page.index("Check of the ledger")
    assert "one recordε 0.1ε 1the loss of one block" in text
    assert "at most 1.11 times as likely" in text
    assert "Other streams. Each has a report and a budget of its own" in text


def test_an_officer_sees_who_reads_and_where_nothing_is_sent_to(api: Api) -> None:
    api.world.stream("other")
    api.world.register("hidden", stream="other")
    api.world.service.subscribe_to_ptk("taxi.hidden", "http://127.0.0.1:9/other", team="taxi")
    api.grant("ads", "taxi", Role.CONSUMER)
    api.grant("law", "*", Role.OFFICER)
    api.grant("rest", "other", Role.CONSUMER)
    client = api.client(api.token(Role.CONSUMER, team="ads"))
    made = client.post(
        "/v1/subscriptions", json={"ptk_id": "taxi.speed", "endpoint": "http://127.0.0.1:9/secret-path"}
    )
    assert made.status_code == 201
    page = signed_in(api, Role.OFFICER, team="law").get(PAGE).text
    text = re.sub(r"\s+", " ", seen(signed_in(api, Role.OFFICER, team="law").get(PAGE)).text)
    assert "adsconsumertaxi" in text
    assert "lawofficerevery stream" in text
    assert "taxi.speedadswebhook1ok" in text
    assert "rest" not in re.findall(r"<th[^>]*>([^<]*)<", page)
    assert "secret-path" not in page
    assert "taxi.hidden" not in page
    assert made.json()["id"] not in page


def test_lists_of_the_page_are_bounded_and_say_that_there_is_more(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.world.register("slow")
    api.world.publish(1)
    for team in ("ads", "bikes"):
        api.grant(team, "taxi", Role.CONSUMER)
        api.world.service.subscribe_to_ptk("taxi.speed", "redis-stream:news", team=team)
    whole = re.sub(r"\s+", " ", seen(signed_in(api, Role.OFFICER).get(PAGE)).text)
    assert "The first" not in whole
    assert whole.count("taxi.slow") == 1
    monkeypatch.setattr(officers, "PARTIES_SHOWN", 1)
    text = re.sub(r"\s+", " ", seen(signed_in(api, Role.OFFICER).get(PAGE)).text)
    assert text.count("The first 1 of 2") == 2  # PTKs and roles
    assert text.count("The first 1. There are more.") == 1
    assert "taxi.speed" not in text.partition("Spent so far")[2].partition("Who reads")[0]
    roles, _, sent = text.partition("Who reads")[2].partition("Subscriptions that are sent")
    assert (roles.count("consumer"), sent.count("Redis stream")) == (1, 1)


def test_an_administrator_sees_it_without_reports_and_others_do_not(api: Api) -> None:
    page = signed_in(api, Role.ADMINISTRATOR, team="operators").get(PAGE)
    assert page.status_code == 200
    assert "Only the role officer" in page.text
    assert "report.pdf" not in page.text
    for role in (Role.DEVELOPER, Role.CONSUMER, Role.PRODUCER):
        client = signed_in(api, role)
        assert client.get(PAGE).status_code == 403
        assert PAGE not in client.get("/console/streams/taxi").text
    assert signed_in(api, *STREAM_ROLES, team="strangers").get(PAGE).status_code == 404
    assert PAGE in signed_in(api, Role.OFFICER).get("/console/streams/taxi").text
    assert api.client().get(PAGE).headers["location"] == "/console/login"


@pytest.mark.parametrize(
    ("form", "begins"), [("json", b"{"), ("html", b"<!doctype html>"), ("pdf", b"%PDF-")]
)
def test_a_report_is_a_file_and_on_record(api: Api, form: str, begins: bytes) -> None:
    answer = signed_in(api, Role.OFFICER).get(f"{REPORT}.{form}")
    assert answer.status_code == 200
    assert answer.content.startswith(begins)
    assert answer.headers["content-disposition"] == f'attachment; filename="taxi-report.{form}"'
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    if form == "json":
        assert not check_report(answer.content, api.world.service.report_key()).fault
    assert exports(api) == [("taxi", "stream/taxi", "done")]


@pytest.mark.parametrize("form", ["json", "html", "pdf"])
def test_only_officers_get_a_report_and_refusals_are_on_record(api: Api, form: str) -> None:
    for role in (Role.ADMINISTRATOR, Role.DEVELOPER):
        answer = signed_in(api, role).get(f"{REPORT}.{form}")
        assert (answer.status_code, "content-disposition" in answer.headers) == (403, False)
    assert exports(api) == [("taxi", "stream/taxi", "not-allowed")] * 2
    assert api.client().get(f"{REPORT}.{form}").headers["location"] == "/console/login"


def test_what_is_no_report_is_not_found_and_not_made(api: Api) -> None:
    client = signed_in(api, Role.OFFICER)
    for path in (
        f"{REPORT}.exe",
        f"{REPORT}.",
        "/console/streams/none/report.pdf",
        "/console/streams/%0a/report.pdf",
    ):
        assert client.get(path).status_code == 404, path
    for method in ("HEAD", "POST"):
        assert client.request(method, f"{REPORT}.pdf").status_code == 405
    assert exports(api) == []


def test_a_report_whose_signature_does_not_hold_is_not_sent(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = api.world.service
    made = service.export_ledger("taxi")
    forged = replace(made, content=made.content.replace(b"taxi", b"maxi"))
    monkeypatch.setattr(service, "export_ledger", lambda *_: forged)
    client = signed_in(api, Role.OFFICER)
    for form in ("json", "html", "pdf"):
        answer = client.get(f"{REPORT}.{form}")
        assert answer.status_code >= 500
        assert "content-disposition" not in answer.headers


def test_a_wrong_journal_is_said_in_red(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    service = api.world.service
    check = replace(service.verify_ledger("taxi"), faults=("block 1 spent more than it may",))
    monkeypatch.setattr(service, "verify_ledger", lambda _: check)
    page = signed_in(api, Role.OFFICER).get(PAGE)
    assert '<li class="failed">block 1 spent more than it may</li>' in page.text
    assert "holds" not in seen(page).text.partition("Exposure")[0]


def test_few_officers_pages_and_reports_are_made_at_once_and_no_team_takes_all_places(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert OF_A_TEAM_AT_ONCE < HEAVY_AT_ONCE
    for team in ("ads", "bikes"):
        api.identity.create_team(team)
        api.grant(team, "taxi", Role.OFFICER)
    client, other, third = (signed_in(api, Role.OFFICER, team=team) for team in ("taxi", "ads", "bikes"))
    started, go_on = threading.Semaphore(0), threading.Event()
    verify = api.app.state.service.verify_ledger

    def slow(name: str) -> object:
        started.release()
        assert go_on.wait(60)
        return verify(name)

    monkeypatch.setattr(api.app.state.service, "verify_ledger", slow)
    with ThreadPoolExecutor(HEAVY_AT_ONCE) as pool:
        held = [pool.submit(client.get, PAGE) for _ in range(OF_A_TEAM_AT_ONCE)]
        try:
            assert all(started.acquire(timeout=60) for _ in held)
            assert [client.get(path).status_code for path in (PAGE, f"{REPORT}.json")] == [429, 429]
            held += [pool.submit(other.get, PAGE) for _ in range(HEAVY_AT_ONCE - OF_A_TEAM_AT_ONCE)]
            assert all(started.acquire(timeout=60) for _ in held[OF_A_TEAM_AT_ONCE:])
            for path in (PAGE, f"{REPORT}.json"):
                busy = third.get(path)
                assert (busy.status_code, busy.headers["retry-after"]) == (503, "5"), path
            assert client.get("/console/").status_code == 200
        finally:
            go_on.set()
        assert [one.result().status_code for one in held] == [200] * HEAVY_AT_ONCE
    assert client.get(PAGE).status_code == 200


def test_a_page_that_nobody_reads_is_not_made(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    client = signed_in(api, Role.OFFICER)
    monkeypatch.setattr(api.app.state.service, "verify_ledger", None)
    assert client.head(PAGE).status_code == 405
