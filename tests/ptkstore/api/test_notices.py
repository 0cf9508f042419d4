"""What owners are told over HTTP: words left for their team alone, and how trainings of their PTKs ended."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.identity import STREAM_ROLES, Role
from ptkstore.domain.jobs import JobKind, paid_run
from ptkstore.domain.notices import Notice
from ptkstore.domain.streams.policies import Closing
from ptkstore.domain.streams.windows import WindowId
from ptkstore.ports.row_processes import RunFailed
from tests.support.api_server import Api, all_items, problem
from tests.support.receiver import WebhookReceiver
from tests.support.team_code import Inspector, bundle_with, described
from tests.support.world import DAY, NOW, ORIGIN, STREAM, World, trips

PTK = "taxi.speed"
CANARY = "canary-7c1f9a"
# Tells what it read in every way that code has.
TELLS = """
import sys

def train_dp(trainset_iter, epsilon, previous_model_state, previous_config):
    rows = str([table.to_pydict() for table in trainset_iter])
    print(rows)
    print(rows, file=sys.stderr)
    raise RuntimeError(rows)
"""


@pytest.fixture
def admin(api: Api) -> httpx.Client:
    return api.acting(Role.ADMINISTRATOR, team="operators")


def leave(world: World, *words: Notice) -> None:
    with world.service.begin() as uow:
        for word in words:
            uow.notify_owner(word)
        uow.commit()


def words(n: int, team: str = "taxi") -> list[Notice]:
    return [
        Notice(NOW + timedelta(hours=hour), team, "expired", ptk_id=f"{team}.speed", window_index=hour)
        for hour in range(n)
    ]


def disabled(api: Api, receiver: WebhookReceiver) -> str:
    """A subscription of the team `ads` to a PTK of the team `taxi`, whose endpoint is gone."""
    api.grant("ads", "taxi", Role.CONSUMER)
    api.world.register()
    api.world.publish(0)
    made, _ = api.world.service.subscribe_to_ptk(PTK, receiver.endpoint(), team="ads")
    api.world.publish(1)
    receiver.answer_next(1, 410)
    api.world.work("notify")
    return made.id


# notices


def test_a_notice_names_its_page_on_the_site_of_the_documentation(
    api: Api, admin: httpx.Client, webhook_receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    disabled(api, webhook_receiver)
    monkeypatch.setenv("PTK_DOCS_URL", "https://docs.example.org")
    pages = {one["page"] for one in admin.get("/v1/notices").json()["items"]}
    assert pages == {"https://docs.example.org/reference/codes.html#subscription-disabled"}


def test_both_teams_hear_of_an_endpoint_that_was_disabled_and_no_other(
    api: Api, admin: httpx.Client, webhook_receiver: WebhookReceiver
) -> None:
    name = disabled(api, webhook_receiver)
    told = {
        "at": api.world.clock.now().isoformat(),
        "subject": f"{PTK} to {name}",
        "code": "subscription-disabled",
        "stream": None,
        "ptk": PTK,
        "page": "docs/reference/codes.md#subscription-disabled",
    }
    for team in ("taxi", "ads"):
        for role in STREAM_ROLES - {Role.DEVICE_GATEWAY}:
            assert api.acting(role, team=team).get("/v1/notices").json() == {
                "items": [{**told, "team": team}],
                "next_cursor": None,
            }
    assert all_items(api.acting(team="strangers"), "/v1/notices") == []
    assert all_items(admin, "/v1/notices") == [{**told, "team": "ads"}, {**told, "team": "taxi"}]
    assert all_items(admin, "/v1/notices", team="ads") == [{**told, "team": "ads"}]
    assert all_items(admin, "/v1/notices", team="strangers") == []
    for client in (api.acting(team="taxi"), api.acting(team="ads"), admin):
        text = client.get("/v1/notices").text
        assert "127.0.0.1" not in text  # no endpoint
        assert webhook_receiver.endpoint() not in text


@pytest.mark.parametrize("team", ["ads", "nobody"])
def test_another_teams_words_are_refused_whether_there_is_such_a_team_or_not(api: Api, team: str) -> None:
    api.identity.create_team("ads")
    leave(api.world, *words(2, "ads"))
    client = api.acting()
    assert problem(client.get("/v1/notices", params={"team": team})) == (403, "not-allowed")
    assert client.get("/v1/notices", params={"team": "taxi"}).json()["items"] == []
    (entry,) = [one for one in api.identity.audit_log(limit=100) if one.outcome == "not-allowed"]
    assert (entry.team, entry.action, entry.subject) == ("taxi", "notice.list", "store")


def test_words_come_in_pages_oldest_first(api: Api, admin: httpx.Client) -> None:
    client = api.acting()
    leave(api.world, *words(5))
    page = client.get("/v1/notices", params={"limit": 2}).json()
    assert [one["subject"] for one in page["items"]] == [f"{PTK} window {n}" for n in (0, 1)]
    leave(api.world, Notice(NOW, "taxi", "expired", "later"))
    rest = all_items(client, "/v1/notices", limit=2, cursor=page["next_cursor"])
    assert [one["subject"] for one in rest] == [*(f"{PTK} window {n}" for n in (2, 3, 4)), "later"]
    assert len(all_items(client, "/v1/notices", limit=6)) == 6
    assert client.get("/v1/notices", params={"limit": 6}).json()["next_cursor"] is None
    since = (NOW + timedelta(hours=3)).isoformat()
    assert [one["subject"] for one in all_items(client, "/v1/notices", limit=1, since=since)] == [
        f"{PTK} window {n}" for n in (3, 4)
    ]
    for cursor in (
        "LTE",
        "eA",
        "w6k",
        "MTAwMDAwMDAwMDAwMDAwMDAwMDAw",
    ):  # -1, x, a byte that is no text, too many digits
        assert problem(client.get("/v1/notices", params={"cursor": cursor})) == (400, "invalid-request")
    for params in ({"limit": 0}, {"limit": 201}, {"since": "soon"}, {"team": "Ads"}):
        assert client.get("/v1/notices", params=params).status_code == 422
    assert admin.get("/v1/notices", params={"limit": 200}).json()["next_cursor"] is None


def test_a_page_says_nothing_of_the_words_left_for_others(tmp_path: Path) -> None:
    pages = []
    for crowd in (0, 37):
        with Api(tmp_path / str(crowd)) as api:
            for word in words(6):
                leave(api.world, *words(crowd, "ads"), word)
            client = api.acting()
            page = client.get("/v1/notices", params={"limit": 2}).json()
            after = client.get("/v1/notices", params={"limit": 2, "cursor": page["next_cursor"]}).json()
            pages.append((page, after))
    assert pages[0] == pages[1]


def test_a_word_is_told_to_the_second(api: Api) -> None:
    leave(api.world, Notice(NOW + timedelta(milliseconds=1_999), "taxi", "expired", ptk_id=PTK))
    (one,) = all_items(api.acting(), "/v1/notices", since=(NOW + timedelta(seconds=1)).isoformat())
    assert datetime.fromisoformat(one["at"]) == NOW + timedelta(seconds=1)


# trainings


def test_trainings_say_what_they_made_or_a_code(api: Api) -> None:
    world = api.world
    world.register()
    world.publish(0)
    world.trainer.failing = RunFailed("killed")
    world.publish(1)
    world.publish(2)
    world.ingest((3.5,))
    world.close(4)
    world.work("prepare", "allocate")
    failed_at = next(at for at, code in told_of(world) if code == "killed")
    with world.service.begin() as uow:
        elected = {version.number: version.elected_at.isoformat() for version in uow.versions.of(PTK)}
    expected = [
        ended(0, "published", version=1, ended_at=elected[1]),
        ended(1, "failed", code="killed", ended_at=failed_at),
        ended(2, "published", version=2, ended_at=elected[2]),
        {**ended(3, None), "state": "ready"},
    ]
    client = api.acting(Role.DEVELOPER)
    assert all_items(client, f"/v1/ptks/{PTK}/trainings") == expected
    assert all_items(client, f"/v1/ptks/{PTK}/trainings", limit=1) == expected
    page = client.get(f"/v1/ptks/{PTK}/trainings", params={"limit": 3}).json()
    assert page["items"] == expected[:3]
    assert problem(client.get(f"/v1/ptks/{PTK}/trainings", params={"cursor": "eA"})) == (
        400,
        "invalid-request",
    )


def test_looks_on_one_window_come_page_by_page(api: Api) -> None:
    api.world.register()
    with api.world.service.begin() as uow:
        for window, look in ((4, 1), (4, 2), (4, 11), (5, 1)):
            of = WindowId(STREAM, window)
            uow.jobs.add(paid_run(JobKind.TRAIN, PTK, of, NOW, oldest=window - 2, look=look))
        uow.commit()
    expected = [
        {**ended(window, None, oldest_window=window - 2, look=look), "state": "ready"}
        for window, look in ((4, 1), (4, 2), (4, 11), (5, 1))
    ]
    path, client = f"/v1/ptks/{PTK}/trainings", api.acting(Role.DEVELOPER)
    for limit in (1, 2, 3, 100):
        assert all_items(client, path, limit=limit) == expected
    of_an_older_program = base64.urlsafe_b64encode(b"4").decode().rstrip("=")
    assert client.get(path, params={"cursor": of_an_older_program}).json()["items"] == expected
    for wrong in ("4.", "4.x", "x.1", "4.2.1", "."):
        cursor = base64.urlsafe_b64encode(wrong.encode()).decode().rstrip("=")
        answer = client.get(path, params={"cursor": cursor})
        assert answer.status_code == (200 if wrong == "4." else 400)


def test_an_expired_a_refused_and_a_withdrawn_training_say_why(api: Api) -> None:
    world = api.world
    world.stream("short", retention_windows=1, epsilon=0.15)
    fast, slow = world.register("fast", stream="short"), world.register("slow", stream="short", epsilon=0.05)
    world.service.ingest("short", trips((0.5,)))
    world.service.close_windows("short", ORIGIN + DAY)
    world.work("prepare", "allocate")
    world.service.deregister_ptk(slow)
    world.service.close_windows("short", ORIGIN + 3 * DAY, expire_unfinished=True)
    world.work("expire")
    client = api.acting(Role.DEVELOPER)
    (expired, *_) = all_items(client, f"/v1/ptks/{fast}/trainings")
    assert expired == ended(0, "expired", ptk_id=fast, code="expired", ended_at=world.clock.now().isoformat())
    (gone, *_) = all_items(client, f"/v1/ptks/{slow}/trainings")  # its history stays
    assert gone == ended(0, "withdrawn", ptk_id=slow, code="withdrawn")


@pytest.mark.long
@pytest.mark.usefixtures("sandbox")
def test_code_that_fails_on_real_rows_is_told_to_its_owner_as_a_code_and_to_nobody_else(
    api: Api, admin: httpx.Client, capfd: pytest.CaptureFixture[str]
) -> None:
    world = api.world
    world.in_processes()
    world.service.__dict__["sandbox"] = Inspector()  # at registration; the run itself is in the real one
    world.stream("open", minimum_assurance=Assurance.ASSERTED, asserted_text=True, closing=Closing.OPERATOR)
    bundle = bundle_with(TELLS)
    world.service.put_bundle(bundle, team="taxi")
    tables = {"zones": {"keys": [], "columns": [["zone", "string"]]}}
    ptk_id = world.register(
        "told",
        stream="open",
        estimator=described(bundle, columns=["zone"], tables=tables, synthetic={"zone": ["a"]}),
    )
    world.service.ingest("open", trips((0.5, 0.6), zone=pa.array([CANARY] * 2)))
    world.service.close_windows("open", ORIGIN + DAY)
    world.work()
    assert world.job(f"train/{ptk_id}/0").outcome == "failed"
    api.grant("ads", "open", Role.DEVELOPER)
    owner, path = api.acting(Role.DEVELOPER), f"/v1/ptks/{ptk_id}/trainings"
    at = world.clock.now().isoformat()
    for client in (owner, admin):
        assert all_items(client, path) == [
            ended(0, "failed", ptk_id=ptk_id, code="team-code-failed", ended_at=at)
        ]
    subject = f"{ptk_id} window 0"
    assert all_items(owner, "/v1/notices") == [
        {
            "at": at,
            "team": "taxi",
            "subject": subject,
            "code": "team-code-failed",
            "stream": None,
            "ptk": ptk_id,
            "page": "docs/reference/codes.md#team-code-failed",
        }
    ]
    granted, stranger = api.acting(*STREAM_ROLES, team="ads"), api.acting(*STREAM_ROLES, team="strangers")
    assert granted.get(f"/v1/ptks/{ptk_id}").status_code == 200  # which it may see
    assert problem(granted.get(path)) == (403, "not-allowed")
    assert problem(stranger.get(path)) == (404, "unknown-name")
    for client in (granted, stranger):
        assert all_items(client, "/v1/notices") == []
    answers = [client.get(one).text for client in (owner, admin) for one in (path, "/v1/notices", "/metrics")]
    assert CANARY not in "".join((*answers, *capfd.readouterr()))


def test_how_long_and_how_often_a_training_ran_is_not_told(api: Api) -> None:
    world = api.world
    world.register()
    world.ingest((0.5,))
    world.close(1)
    world.work("prepare", "allocate")
    world.trainer.meanwhile = lambda: seen.append(text())
    seen: list[str] = []
    client = api.acting()

    def text() -> str:
        return json.dumps(all_items(client, f"/v1/ptks/{PTK}/trainings"))

    world.work("train")
    (running,) = json.loads(seen[0])
    assert running == {**ended(0, None), "state": "opened"}
    (over,) = json.loads(text())
    assert set(over) == set(running)
    assert datetime.fromisoformat(over["ended_at"]).microsecond == 0
    assert world.job(f"{JobKind.TRAIN}/{PTK}/0").n_rows > 0
    assert "rows" not in text()


def ended(window: int, outcome: str | None, *, code: str | None = None, **more: Any) -> dict[str, Any]:
    base = {"ptk_id": PTK, "window": window, "state": "ended", "outcome": outcome}
    on_one = {"oldest_window": window, "look": 1}
    why = {"code": code, "page": None if code is None else f"docs/reference/codes.md#{code}"}
    return {**base, **why, "version": None, "ended_at": None, **on_one, **more}


def told_of(world: World) -> list[tuple[str, str]]:
    with world.service.begin() as uow:
        return [(one.at.isoformat(), one.code) for one in uow.notices("taxi")]


def test_an_unknown_team_is_named_to_administrators_and_to_nobody_else(api: Api, admin: httpx.Client) -> None:
    leave(api.world, *words(1))
    api.acting(Role.DEVELOPER, team="riders")
    for path in ("/v1/notices", "/v1/audit-log"):
        assert admin.get(path, params={"team": "riders"}).json()["items"] == []
        refused = admin.get(path, params={"team": "rider"})
        assert problem(refused) == (404, "unknown-name")
        assert "did you mean 'riders'?" in refused.text
    api.grant("audit", "*", Role.OFFICER)
    officer = api.acting(Role.OFFICER, team="audit")
    assert [
        officer.get("/v1/audit-log", params={"team": one}).status_code for one in ("riders", "rider")
    ] == [200, 200]
    assert problem(officer.get("/v1/notices", params={"team": "rider"})) == (403, "not-allowed")
