"""Pages about the whole store: all roles and tokens, and the audit trail, each for the roles of its HTTP route."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from ptkstore.application.identity import read_audit_log
from ptkstore.console.pages.oversight import access as access_page
from ptkstore.console.pages.oversight import trail as trail_page
from ptkstore.domain.audit import DONE, STARTED, AuditEntry
from ptkstore.domain.identity import STREAM_ROLES, Grant, Role
from tests.support.api_server import Api
from tests.support.console_pages import HOSTILE, OF_THE_STORE, seen, signed_in
from tests.support.world import NOW

ACCESS, TRAIL = OF_THE_STORE


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with Api(tmp_path / "home") as api:
        api.world.stream()
        yield api


def administrator(api: Api) -> httpx.Client:
    return signed_in(api, Role.ADMINISTRATOR, team="operators")


def cells(page: httpx.Response, label: str) -> list[list[str]]:
    """The rows of the table in the region of this name."""
    table = page.text.partition(f'aria-label="{label}"')[2].partition("</table>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", table.partition("<tbody>")[2], re.DOTALL)
    return [
        [re.sub(r"<[^>]+>|\s+", " ", cell).strip() for cell in re.findall(r"<t[hd].*?</t[hd]>", row)]
        for row in rows
    ]


def text_of(page: httpx.Response) -> str:
    return re.sub(r"\s+", " ", seen(page).text)


# who sees them


def test_only_the_roles_of_the_routes_see_them_and_links_to_them(api: Api) -> None:
    api.grant("law", "*", Role.OFFICER)
    admin = administrator(api)
    for path in OF_THE_STORE:
        assert admin.get(path).status_code == 200
        assert f'href="{path}"' in admin.get("/console/").text
        assert f'href="{path}"' in admin.get("/console/streams/taxi").text
    law = signed_in(api, Role.OFFICER, team="law")
    assert (law.get(TRAIL).status_code, law.get(ACCESS).status_code) == (200, 403)
    for page in ("/console/", "/console/streams/taxi"):
        links = [path for path in OF_THE_STORE if f'href="{path}' in law.get(page).text]
        assert links == [TRAIL], page
    for client in (signed_in(api, *STREAM_ROLES), signed_in(api, *STREAM_ROLES, team="strangers")):
        for path in OF_THE_STORE:
            refused = client.get(path)
            assert (refused.status_code, "do not allow this" in refused.text) == (403, True)
            assert path not in client.get("/console/").text
            assert path not in client.get("/console/streams/taxi").text
    for path, route in zip(OF_THE_STORE, ("/v1/grants", "/v1/audit-log"), strict=True):
        over_http = [one.get(route).status_code for one in (api.acting(), api.acting(Role.ADMINISTRATOR))]
        assert over_http == [403, 200], path
        assert api.client().get(path).headers["location"] == "/console/login"
        for method in ("POST", "PUT", "DELETE"):
            assert admin.request(method, path).status_code == 405


def test_looks_at_the_trail_and_refusals_are_on_record_as_over_http(api: Api) -> None:
    client = signed_in(api, Role.DEVELOPER)
    for path in OF_THE_STORE:
        client.get(path)
    admin = administrator(api)
    shown = admin.get(TRAIL)
    admin.get(ACCESS)
    lines = [(one.team, one.action, one.subject, one.outcome) for one in api.identity.audit_log(limit=1_000)]
    assert [one for one in lines if one[1] != "console.sign-in"] == [
        ("taxi", "grant.list", "store", "not-allowed"),
        ("taxi", "audit.read", "store", "not-allowed"),
        ("operators", "audit.read", "store", "done"),
    ]
    (own, *_) = cells(shown, "Lines of the trail")
    assert (own[1], own[3], own[5]) == ("operators", "audit.read", "started")  # it is being read


# roles and tokens


def test_all_roles_are_listed_by_stream_with_the_owner_and_a_link_to_take_each_away(api: Api) -> None:
    api.world.stream("bikes")
    for team, stream, role in (
        ("press", "taxi", Role.CONSUMER),
        ("law", "*", Role.OFFICER),
        ("ads", "bikes", Role.DEVELOPER),
    ):
        api.grant(team, stream, role)
    api.identity.grant(Grant("*", "*", Role.CONSUMER))
    admin = administrator(api)
    page = admin.get(ACCESS)
    assert [row[:3] for row in cells(page, "Roles")] == [
        ["every team", "consumer", "every stream"],
        ["law", "officer", "every stream"],
        ["taxi", "all, as the owner", "bikes"],
        ["ads", "developer", "bikes"],
        ["taxi", "all, as the owner", "taxi"],
        ["press", "consumer", "taxi"],
    ]
    links = re.findall(r'href="/console(/act/grants/[^"]+)"', page.text)
    assert len(links) == 4 + 1  # owners keep theirs
    assert links[-1] == "/act/grants/add"
    confirm = admin.get("/console" + links[1].replace("&amp;", "&"))
    assert "You take from the team law the role officer on every stream" in confirm.text
    law = cells(admin.get(f"{ACCESS}?team=law"), "Roles")
    assert [row[:3] for row in law] == [
        ["every team", "consumer", "every stream"],
        ["law", "officer", "every stream"],
    ]
    bikes = cells(admin.get(f"{ACCESS}?stream=bikes&team=ads"), "Roles")
    assert [row[0] for row in bikes] == ["every team", "ads"]
    assert len(api.acting(Role.ADMINISTRATOR).get("/v1/grants").json()["items"]) == 4


def test_all_tokens_are_listed_and_no_secret(api: Api) -> None:
    clock = api.world.clock
    texts = [api.token(Role.PRODUCER, team="press", label=HOSTILE[:90], life=timedelta(days=2))]
    clock.pass_(hours=1)
    texts += [api.token(Role.CONSUMER, team="ads"), api.token(team="gone")]
    api.identity.revoke_token(texts[2].split("_")[1])
    clock.pass_(days=3)
    admin = administrator(api)
    page = admin.get(ACCESS)
    rows = {row[1]: row for row in cells(page, "Tokens")}
    assert list(rows) == ["operators", "ads", "gone", "press"]  # valid ones first, then the newest
    assert rows["ads"][0] == "ptk_" + texts[1].split("_")[1]
    assert rows["ads"][2] == "consumer"
    assert rows["ads"][5].startswith("valid until ")
    assert rows["press"][5].startswith("expired ")
    assert rows["gone"][5].startswith("revoked ")
    assert rows["ads"][4] == (NOW + timedelta(hours=1)).strftime("%Y-%m-%d %H:%M")
    assert "<script" not in page.text
    assert HOSTILE[:90] in seen(page).text
    for text in texts:
        assert text.split("_", 2)[2] not in page.text
    digests = [one.digest for one in api.identity.tokens()]
    assert not any(one in page.text for one in digests)
    assert [row[1] for row in cells(admin.get(f"{ACCESS}?team=ads"), "Tokens")] == ["ads"]


def test_the_lists_are_bounded_and_say_so(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_page, "ROLES_SHOWN", 2)
    monkeypatch.setattr(access_page, "TOKENS_SHOWN", 1)
    for team in ("press", "ads"):
        api.grant(team, "taxi", Role.CONSUMER)
        api.token(team=team)
    page = administrator(api).get(ACCESS)
    assert (len(cells(page, "Roles")), len(cells(page, "Tokens"))) == (2, 1)
    assert "The first 2 of 3. Name a team or a stream" in text_of(page)
    assert "The first 1 of 3. Name a team" in text_of(page)


@pytest.mark.parametrize("asked", ["team=none", "stream=none", "team=%3Cb%3E", "stream=A%20B", "team=*"])
def test_a_filter_that_names_nothing_is_said_and_shows_nothing(api: Api, asked: str) -> None:
    page = administrator(api).get(f"{ACCESS}?{asked}")
    assert page.status_code == 200
    assert 'role="alert"' in page.text
    assert cells(page, "Roles") == [["No role is given."]]
    assert cells(page, "Tokens") == [["No token."]]
    assert "<b>" not in page.text


# the trail


def line(number: int, **more: Any) -> AuditEntry:
    """A line of `number` minutes after the world's beginning."""
    plain = {"team": "press", "token_id": "t" * 16, "action": "stream.ingest", "subject": "stream/taxi"}
    at = NOW + timedelta(minutes=number)
    return AuditEntry(at, f"r{number}", outcome=DONE, **{**plain, **more})


def keep(api: Api, *lines: AuditEntry) -> None:
    with api.world.service.begin() as uow:
        for one in lines:
            uow.audit.append(one)
        uow.commit()


def found(page: httpx.Response) -> list[str]:
    """The ids of the requests of our own lines."""
    return [row[7] for row in cells(page, "Lines of the trail") if row[-1].startswith("r")]


def test_a_line_has_all_that_the_route_tells(api: Api) -> None:
    keep(api, line(1))
    (row,) = [one for one in cells(administrator(api).get(TRAIL), "Lines of the trail") if one[7] == "r1"]
    items = api.acting(Role.ADMINISTRATOR).get("/v1/audit-log").json()["items"]
    (told,) = [one for one in items if one["request_id"] == "r1"]
    assert row[1:] == [
        told["team"],
        told["token_id"],
        told["action"],
        told["subject"],
        told["outcome"],
        str(told["number"]),
        told["request_id"],
    ]
    assert row[0] == (NOW + timedelta(minutes=1)).strftime("%Y-%m-%d %H:%M:%S")


def test_lines_are_found_by_time_action_and_team_the_newest_first(api: Api) -> None:
    keep(
        api,
        line(1),
        line(2, action="grant.add"),
        line(3, team="ads"),
        line(4, action="grant.add", team="ads"),
    )
    admin = administrator(api)

    def asked(**query: str) -> list[str]:
        return found(admin.get(TRAIL, params=query))

    def minute(number: int) -> str:
        return (NOW + timedelta(minutes=number)).strftime("%Y-%m-%dT%H:%M")

    assert asked() == ["r4", "r3", "r2", "r1"]
    assert asked(action="grant.add") == ["r4", "r2"]
    assert asked(team="ads") == ["r4", "r3"]
    assert asked(**{"from": minute(2)}) == ["r4", "r3", "r2"]
    assert asked(to=minute(2)) == ["r1"]  # without it
    assert asked(**{"from": minute(2), "to": minute(4), "team": "press"}) == ["r2"]
    assert asked(action="grant.remove") == []
    assert asked(team="nobody") == []
    page = admin.get(TRAIL, params={"action": "grant.add", "from": minute(2)})
    assert "<option selected>grant.add</option>" in page.text
    assert f'value="{minute(2)}"' in page.text


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ({"action": HOSTILE}, "the action is not one"),
        ({"from": "yesterday"}, "a time is a UTC time"),
        ({"to": HOSTILE}, "a time is a UTC time"),
        ({"from": "0001-01-01T00:00+14:00"}, "a time is a UTC time"),
        ({"team": "\0"}, "team name"),
        ({"team": "a" * 64}, "team name"),
        ({"below": "-1"}, "the number of a line"),
        ({"below": "9" * 40}, "the number of a line"),
    ],
)
def test_a_filter_that_is_none_is_refused_and_finds_no_other_lines(
    api: Api, query: dict[str, str], why: str
) -> None:
    keep(api, line(1))
    page = administrator(api).get(TRAIL, params=query)
    assert (page.status_code, why in page.text) == (200, True)
    assert "Lines of the trail" not in page.text
    assert "<script" not in page.text
    reads = [one for one in api.identity.audit_log(limit=1_000) if one.action == "audit.read"]
    assert reads == []


def test_pages_lead_to_older_lines_until_the_first_and_keep_the_filter(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trail_page, "LINES_SHOWN", 2)
    keep(api, *(line(number, team="ads") for number in range(1, 6)))
    admin = administrator(api)
    path, pages = f"{TRAIL}?team=ads", []
    while path and len(pages) < 9:
        page = admin.get(path)
        pages.append(found(page))
        link = re.search(r'href="/console(/audit-log\?[^"]+)" rel="next"', page.text)
        path = "/console" + link[1].replace("&amp;", "&") if link else ""
        assert not path or "team=ads" in path
    assert pages == [["r5", "r4"], ["r3", "r2"], ["r1"]]


def test_a_look_reads_a_bounded_part_of_the_trail_and_leads_on(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(api, line(1, team="ads"), *(line(number) for number in range(2, 9)))
    admin = administrator(api)
    monkeypatch.setattr(read_audit_log, "LOOKED_THROUGH", 5)
    page = admin.get(f"{TRAIL}?team=ads")
    assert found(page) == []
    assert "Older lines" in page.text
    link = re.search(r'href="(/console/audit-log\?[^"]+)" rel="next"', page.text)
    assert link is not None
    older = admin.get(link[1].replace("&amp;", "&"))
    assert found(older) == ["r1"]
    assert "Older lines" not in older.text


def test_a_start_is_told_only_where_its_end_is_missing(api: Api) -> None:
    keep(
        api,
        AuditEntry(NOW, "r1", "ads", "t", "grant.add", "grant/a", STARTED),
        AuditEntry(NOW, "r1", "ads", "t", "grant.add", "grant/a", DONE),
        AuditEntry(NOW, "r2", "ads", "t", "grant.add", "grant/b", STARTED),
    )
    rows = cells(administrator(api).get(f"{TRAIL}?team=ads"), "Lines of the trail")
    assert [(row[7], row[5]) for row in rows] == [("r2", "started"), ("r1", "done")]
