"""Actions of the console: who may, what is on record, and what no other site and no repeated form can do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

from ptkstore.cli.tables import second
from ptkstore.console.actions.confirmations import LIFE_SECONDS, Confirmations
from ptkstore.console.actions.table import ACTS
from ptkstore.console.pages.deliveries import ATTEMPTS_SHOWN
from ptkstore.domain.audit import AuditEntry
from ptkstore.domain.identity import ROLE_TEXTS, STREAM_ROLES, Role
from ptkstore.domain.subscriptions import Attempt, DeadLetter
from ptkstore.errors import OutcomeUnknown, Unavailable
from tests.support.api_server import Api
from tests.support.console_pages import seen, signed_in

UNTIL = "2026-01-08T00:00:00Z"


@dataclass(frozen=True)
class Case:
    """An action as it is allowed, who may not, and what is there afterwards."""

    path: str
    fields: dict[str, str]
    action: str
    subject: str
    role: Role
    denied: Role
    message: str


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with Api(tmp_path / "home") as api:
        world = api.world
        world.stream()
        world.register()
        world.publish(0)
        world.publish(1)
        made, _ = world.service.subscribe_to_ptk("taxi.speed", "http://127.0.0.1:9/hook", team="taxi")
        with world.service.begin() as uow:
            uow.subscriptions.add_dead_letter(DeadLetter(made.id, 1, "timeout", world.clock.now()))
            uow.commit()
        api.identity.create_team("ads")
        yield api


def subscription(api: Api) -> Any:
    (one,) = api.world.service.subscriptions(None)
    return one.subscription


def case(name: str, api: Api) -> Case:
    its = f"subscriptions/{subscription(api).id}"
    about = its.replace("subscriptions", "subscription")
    rows: dict[str, tuple[Any, ...]] = {
        "redeliver": (
            f"{its}/redeliver",
            {"version": ""},
            "subscription.redeliver",
            about,
            Role.DEVELOPER,
            Role.OFFICER,
            "sent again: 1",
        ),
        "enable": (
            f"{its}/enable",
            {"redeliver": "no"},
            "subscription.enable",
            about,
            Role.CONSUMER,
            Role.OFFICER,
            "is enabled",
        ),
        "disable": (
            f"{its}/disable",
            {},
            "subscription.disable",
            about,
            Role.DEVELOPER,
            Role.PRODUCER,
            "is disabled",
        ),
        "rotate": (
            f"{its}/rotate",
            {"overlap_hours": "1"},
            "subscription.rotate",
            about,
            Role.DEVELOPER,
            Role.OFFICER,
            "has a new secret",
        ),
        "rollback": (
            "ptks/taxi.speed/rollback",
            {"to": "1"},
            "ptk.roll-back",
            "ptk/taxi.speed",
            Role.DEVELOPER,
            Role.CONSUMER,
            "Version 3 of taxi.speed repeats version 1",
        ),
        "deregister": (
            "ptks/taxi.speed/deregister",
            {},
            "ptk.deregister",
            "ptk/taxi.speed",
            Role.ADMINISTRATOR,
            Role.CONSUMER,
            "taxi.speed is deregistered",
        ),
        "close": (
            "streams/taxi/close",
            {"until": UNTIL, "expire_unfinished": "no"},
            "stream.close",
            "stream/taxi",
            Role.PRODUCER,
            Role.DEVELOPER,
            "Closed windows of taxi: 2",
        ),
        "grant": (
            "grants/add",
            {"team": "ads", "stream": "taxi", "role": "consumer"},
            "grant.add",
            "grant/ads/taxi/consumer",
            Role.ADMINISTRATOR,
            Role.DEVELOPER,
            "You gave the team ads the role consumer on the stream taxi",
        ),
        "revoke": (
            "grants/remove",
            {"team": "ads", "stream": "taxi", "role": "officer"},
            "grant.remove",
            "grant/ads/taxi/officer",
            Role.ADMINISTRATOR,
            Role.DEVELOPER,
            "You took from the team ads the role officer on the stream taxi",
        ),
    }
    path, *rest = rows[name]
    return Case(f"/console/act/{path}", *rest)


NAMES = ("redeliver", "enable", "disable", "rotate", "rollback", "deregister", "close", "grant", "revoke")


def prepared(name: str, api: Api) -> Case:
    """The case, with what it needs to change anything."""
    if name == "enable":
        api.world.service.disable_subscription(subscription(api).id)
    if name == "revoke":
        api.grant("ads", "taxi", Role.OFFICER)
    return case(name, api)


def state(api: Api) -> str:
    """All that an action of these tests could have changed."""
    service = api.world.service
    one = subscription(api)
    secrets = service.keys.secrets_of(one.id, service.clock.now())
    letters = service.deliveries(one.id).dead_letters
    windows = service.windows("taxi")
    with service.read() as uow:
        versions = uow.versions.latest("taxi.speed")
        registered = uow.ptks.find(stream="taxi")
    return repr((one, secrets, letters, windows, versions, registered, api.identity.grants()))


def trail(api: Api, action: str) -> list[AuditEntry]:
    return [one for one in api.identity.audit_log(limit=1_000) if one.action == action]


def confirmed(client: httpx.Client, made: Case, **changed: str) -> dict[str, str]:
    """The fields of the confirmation page of an action."""
    page = client.get(made.path, params=made.fields or None)
    assert page.status_code == 200, page.text
    assert "confirm" in seen(page).fields, page.text
    return {**seen(page).fields, **changed}


def post(client: httpx.Client, made: Case, form: dict[str, str], **headers: str) -> httpx.Response:
    return client.post(made.path, data=form, headers=headers)


def test_every_action_of_the_table_is_tried_here() -> None:
    assert len(ACTS) == len(NAMES) + len(ELSEWHERE)


ELSEWHERE = ("test",)  # in test_test_events.py


@pytest.mark.parametrize("name", NAMES)
def test_who_may_does_it_and_it_is_on_record(api: Api, name: str) -> None:
    made = prepared(name, api)
    client = signed_in(api, made.role)
    before = state(api)
    form = confirmed(client, made)
    assert state(api) == before, "a look has changed something"
    assert trail(api, made.action) == []
    answer = post(client, made, form)
    if name == "rotate":
        assert answer.status_code == 200
        assert made.message in answer.text
    else:
        assert answer.status_code == 303
        page = seen(client.get(answer.headers["location"]))
        assert made.message in page.text
        assert made.message not in seen(client.get(answer.headers["location"])).text  # said once
    assert state(api) != before
    lines = trail(api, made.action)
    assert [(one.team, one.subject, one.outcome) for one in lines][-1] == ("taxi", made.subject, "done")
    assert {one.outcome for one in lines} <= {"started", "done"}


@pytest.mark.parametrize("name", NAMES)
def test_who_may_not_is_refused_and_that_is_on_record(api: Api, name: str) -> None:
    made = prepared(name, api)
    may, may_not = signed_in(api, made.role), signed_in(api, made.denied)
    before = state(api)
    looked = may_not.get(made.path, params=made.fields or None)
    stolen = confirmed(may, made)
    own = seen(may_not.get("/console/")).fields["form_key"]
    for answer in (looked, post(may_not, made, stolen), post(may_not, made, {**stolen, "form_key": own})):
        assert answer.status_code == 403
        assert "not-allowed" in answer.text
    assert state(api) == before
    assert [(one.team, one.outcome) for one in trail(api, made.action)] == [("taxi", "not-allowed")] * 3


@pytest.mark.parametrize("name", NAMES)
def test_a_form_that_is_not_of_this_session_does_nothing(api: Api, name: str) -> None:
    made = prepared(name, api)
    client, other = signed_in(api, made.role), signed_in(api, made.role)
    form, foreign = confirmed(client, made), confirmed(other, made)
    before = state(api)
    without_key = {key: text for key, text in form.items() if key != "form_key"}
    without_page = {key: text for key, text in form.items() if key != "confirm"}
    for sent in (
        without_key,
        without_page,
        {**form, "form_key": ""},
        {**form, "form_key": "x" * 43},
        {**form, "form_key": foreign["form_key"]},
        {**form, "confirm": "x" * 43},
        {**form, "confirm": "x.1.é"},
        {**form, "confirm": foreign["confirm"]},
    ):
        answer = post(client, made, sent)
        assert answer.status_code == 403, sent
        assert "form-refused" in answer.text
    assert state(api) == before
    assert trail(api, made.action) == []
    assert post(client, made, form).status_code in (200, 303)


@pytest.mark.parametrize("name", NAMES)
def test_another_site_can_do_nothing(api: Api, name: str) -> None:
    made = prepared(name, api)
    client = signed_in(api, made.role)
    form, before = confirmed(client, made), state(api)
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": api.url},
        {"Origin": "https://evil.example.org"},
        {"Origin": "null"},
        {"Origin": f"http://127.0.0.1:{api.port + 1}"},
    ):
        assert post(client, made, form, **headers).status_code == 403, headers
    stranger = api.client()  # a form of another site comes without the cookie, which is SameSite=Strict
    assert post(stranger, made, form).headers["location"] == "/console/login"
    assert state(api) == before
    assert post(client, made, form, **{"Sec-Fetch-Site": "same-origin"}).status_code in (200, 303)


@pytest.mark.parametrize("name", NAMES)
def test_a_form_sent_twice_is_done_once(api: Api, name: str) -> None:
    made = prepared(name, api)
    client = signed_in(api, made.role)
    form = confirmed(client, made)
    first = post(client, made, form)
    after = state(api)
    again = post(client, made, form)
    assert again.status_code == first.status_code
    assert state(api) == after
    if name == "rotate":
        assert "whsec_" in first.text
        assert "whsec_" not in again.text
        assert "was shown then" in again.text


def test_a_rollback_of_unknown_outcome_does_not_run_again_after_a_training(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = case("rollback", api)
    client = signed_in(api, Role.DEVELOPER)
    form = confirmed(client, made)
    service = api.world.service
    roll_back = service.rollback_ptk

    def done_and_lost(ptk_id: str, to: int) -> int:
        roll_back(ptk_id, to)
        raise OutcomeUnknown("the catalog did not say whether it committed")

    with monkeypatch.context() as patch:
        patch.setattr(type(service), "rollback_ptk", lambda _, ptk_id, to: done_and_lost(ptk_id, to))
        assert post(client, made, form).status_code == 504
    api.world.work("place", "flip")
    api.world.publish(2)
    before = state(api)
    again = post(client, made, form)
    assert (again.status_code, "outcome-unknown" in again.text) == (504, True)
    assert state(api) == before


@pytest.mark.parametrize("name", NAMES)
def test_what_was_confirmed_is_what_is_done(api: Api, name: str) -> None:
    made = prepared(name, api)
    client = signed_in(api, made.role)
    form, before = confirmed(client, made), state(api)
    for field in made.fields:
        assert post(client, made, {**form, field: "7"}).status_code == 403, field
    more = post(client, made, {**form, "more": "x"})
    assert (more.status_code, "invalid-request" in more.text) == (400, True)
    other = case("disable" if name != "disable" else "rotate", api)
    elsewhere = {key: form[key] for key in ("form_key", "confirm")}
    assert post(signed_in(api, *Role), other, elsewhere).status_code == 403
    assert post(client, other, elsewhere).status_code == 403
    assert client.post(made.path + "/", data=form).status_code == 404
    assert state(api) == before


@pytest.mark.parametrize("name", NAMES)
def test_no_other_method_does_anything(api: Api, name: str) -> None:
    made = prepared(name, api)
    client = signed_in(api, made.role)
    form, before = confirmed(client, made), state(api)
    for method in ("HEAD", "PUT", "PATCH", "DELETE"):
        assert client.request(method, made.path, params=form).status_code == 405
    answer = client.get(made.path, params=form)
    assert answer.status_code == 400
    assert state(api) == before


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_done_that_cannot_be_put_on_record(
    api: Api, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = prepared(name, api)
    client = signed_in(api, made.role)
    form, before = confirmed(client, made), state(api)

    def away(*_: object) -> None:
        raise Unavailable("the catalog does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(type(api.identity), "recorded", away)
        answer = post(client, made, form)
    assert (answer.status_code, "unavailable" in answer.text) == (503, True)
    assert state(api) == before


def test_a_new_secret_is_the_one_that_signs_and_its_page_is_not_kept(api: Api) -> None:
    made = case("rotate", api)
    client = signed_in(api, Role.DEVELOPER)
    answer = post(client, made, confirmed(client, made))
    (secret,) = re.findall(r"whsec_[A-Za-z0-9+/=]+", unescape(answer.text))
    service = api.world.service
    assert service.keys.secrets_of(subscription(api).id, service.clock.now())[0] == secret
    assert answer.headers["cache-control"] == "no-store"
    for page in ("/console/", "/console/deliveries", made.path):
        assert secret not in client.get(page).text
    assert secret not in repr(api.identity.audit_log(limit=1_000))


@pytest.mark.parametrize(
    ("path", "fields", "status", "code"),
    [
        ("ptks/taxi.speed/rollback", {"to": "9"}, 404, "unknown-name"),
        ("ptks/taxi.speed/rollback", {"to": "0"}, 400, None),
        ("ptks/taxi.speed/rollback", {"to": "x"}, 400, None),
        ("ptks/taxi.speed/rollback", {"to": "vv1"}, 400, None),
        ("ptks/taxi.none/deregister", {}, 404, "unknown-name"),
        ("ptks/taxi.none/rollback", {"to": "1"}, 404, "unknown-name"),
        ("streams/taxi/close", {"until": "tomorrow", "expire_unfinished": "no"}, 400, None),
        ("streams/taxi/close", {"until": "", "expire_unfinished": "no"}, 400, "invalid-request"),
        ("subscriptions/sub_0000000000000000/disable", {}, 404, "unknown-name"),
        ("subscriptions/%00/disable", {}, 404, "unknown-name"),
        ("grants/add", {"team": "none", "stream": "taxi", "role": "officer"}, 404, None),
        ("grants/add", {"team": "ads", "stream": "none", "role": "officer"}, 404, None),
        ("grants/remove", {"team": "none", "stream": "taxi", "role": "officer"}, 404, "unknown-name"),
        ("grants/add", {"team": "*", "stream": "taxi", "role": "officer"}, 400, None),
        ("grants/add", {"team": "<b>", "stream": "taxi", "role": "officer"}, 400, None),
        ("grants/add", {"team": "ads", "stream": "taxi", "role": "administrator"}, 400, None),
        ("grants/add", {"team": "a" * 201, "stream": "taxi", "role": "officer"}, 400, "invalid-request"),
    ],
)
def test_a_refusal_says_why_and_its_code(
    api: Api, path: str, fields: dict[str, str], status: int, code: str | None
) -> None:
    client = signed_in(api, *Role)
    before = state(api)
    page = client.get(f"/console/act/{path}", params=fields or None)
    if page.status_code == 200:
        page = client.post(f"/console/act/{path}", data=seen(page).fields)
    assert page.status_code == status, page.text
    if code is None:  # the form again, with what is wrong in it
        wrong = ("not as it should be", "consumers only", "there is no team", "there is no stream")
        assert any(one in page.text for one in wrong)
    else:
        assert f"<code>{code}</code>" in page.text
    assert "<b>" not in page.text
    assert state(api) == before


def test_a_version_is_named_by_its_number_or_as_the_command_line_names_it(api: Api) -> None:
    made = case("rollback", api)
    made = replace(made, fields={"to": "v1"})
    client = signed_in(api, made.role)
    assert post(client, made, confirmed(client, made)).status_code == 303
    assert "repeats version 1" in unescape(client.get("/console/ptks/taxi.speed").text)


def test_a_form_for_a_role_begins_with_the_stream_that_led_to_it_and_explains_each_role(api: Api) -> None:
    client = signed_in(api, Role.ADMINISTRATOR)
    (link,) = re.findall(r'href="(/console/act/grants/add[^"]*)"', client.get("/console/streams/taxi").text)
    page = client.get(link)
    assert (page.status_code, 'role="alert"' in page.text) == (200, False)
    assert (seen(page).fields["stream"], seen(page).fields["team"]) == ("taxi", "")
    assert seen(page).tags.count("legend") == 1
    assert " checked" not in page.text
    for role in STREAM_ROLES:
        assert f"{role.value} {ROLE_TEXTS[role]}" in seen(page).text
    assert ROLE_TEXTS[Role.ADMINISTRATOR] not in seen(page).text
    chosen = client.get(link, params={"stream": "taxi", "role": "officer"}).text
    assert 'value="officer" checked' in chosen


def test_an_unknown_team_is_told_of_in_the_form_with_the_one_that_may_be_meant(api: Api) -> None:
    client, pace = signed_in(api, Role.ADMINISTRATOR), api.app.state.near_names
    api.identity.create_team("press")
    asked = {"team": "pres", "stream": "taxi", "role": "consumer"}
    page = client.get("/console/act/grants/add", params=asked)
    assert page.status_code == 404
    assert "there is no team 'pres'; did you mean 'press'?" in seen(page).text
    assert 'value="consumer" checked' in page.text
    page = client.get("/console/act/grants/add", params={**asked, "team": "ads", "stream": "taxii"})
    assert "there is no stream 'taxii'; did you mean 'taxi'?" in seen(page).text
    pace._left, pace._per_second = 0.0, 0.0
    page = client.get("/console/act/grants/add", params=asked)
    assert "did you mean" not in page.text
    developer = signed_in(api, Role.DEVELOPER).get("/console/act/grants/add", params=asked)
    assert (developer.status_code, "press" in developer.text) == (403, False)


def test_a_given_role_is_shown_on_the_page_of_its_stream(api: Api) -> None:
    client = signed_in(api, Role.ADMINISTRATOR)
    for name, place in (("taxi", "/console/streams/taxi#grants"), ("*", "/console/access#roles")):
        made = replace(case("grant", api), fields={"team": "ads", "stream": name, "role": "consumer"})
        assert post(client, made, confirmed(client, made)).headers["location"] == place


def test_another_team_sees_nothing_to_act_on(api: Api) -> None:
    client = signed_in(api, *STREAM_ROLES, team="strangers")
    for name in ("redeliver", "rotate", "rollback", "deregister", "close"):
        made = case(name, api)
        assert client.get(made.path, params=made.fields).status_code == 404, name


def test_an_action_without_its_fields_shows_a_form_that_asks_for_them(api: Api) -> None:
    client = signed_in(api, Role.DEVELOPER)
    page = client.get("/console/act/ptks/taxi.speed/rollback")
    assert (page.status_code, list(seen(page).fields)) == (200, ["form_key", "to"])
    assert 'method="get"' in page.text
    assert page.headers["referrer-policy"] == "same-origin"


def test_a_confirmation_ends_after_ten_minutes_with_its_session_and_with_the_process() -> None:
    now = 100.0
    made = Confirmations(lambda: now)
    key = made.key("session", "/path", {"a": "1"})
    assert made.name_of(key, "session", "/path", {"a": "1"}) == key.split(".")[0]
    assert made.name_of(key, "other", "/path", {"a": "1"}) is None
    assert made.name_of(key, "session", "/other", {"a": "1"}) is None
    assert made.name_of(key, "session", "/path", {"a": "2"}) is None
    assert made.name_of(key, "session", "/path", {}) is None
    assert Confirmations(lambda: now).name_of(key, "session", "/path", {"a": "1"}) is None
    name, until, seal = key.split(".")
    assert made.name_of(f"{name}.{int(until) + 1}.{seal}", "session", "/path", {"a": "1"}) is None
    assert made.name_of(f"{name}.{'9' * 5000}.{seal}", "session", "/path", {"a": "1"}) is None
    now += LIFE_SECONDS
    assert made.name_of(key, "session", "/path", {"a": "1"}) is None


def test_actions_end_with_the_token(api: Api) -> None:
    made = case("disable", api)
    client = signed_in(api, Role.DEVELOPER, life=timedelta(hours=1))
    form = confirmed(client, made)
    api.world.clock.pass_(hours=1)
    assert post(client, made, form).headers["location"] == "/console/login"
    assert subscription(api).disabled_at is None


def offered(page: httpx.Response) -> list[str]:
    nav = page.text.partition('aria-label="Actions"')[2].partition("</nav>")[0]
    return re.findall(r'href="/console/act/([^"]+)"', nav)


def test_pages_lead_to_the_actions_that_the_roles_allow_and_to_no_other(api: Api) -> None:
    name = subscription(api).id
    pages = {
        "/console/": (Role.ADMINISTRATOR, ["grants/add", "grants/remove"]),
        "/console/streams/taxi": (Role.PRODUCER, ["streams/taxi/close"]),
        "/console/ptks/taxi.speed": (
            Role.DEVELOPER,
            ["ptks/taxi.speed/rollback", "ptks/taxi.speed/deregister"],
        ),
        f"/console/subscriptions/{name}": (
            Role.CONSUMER,
            [f"subscriptions/{name}/{act}" for act in ("redeliver", "disable", "rotate", "test")],
        ),
    }
    officer = signed_in(api, Role.OFFICER)
    for path, (role, acts) in pages.items():
        page = signed_in(api, role).get(path)
        assert page.status_code == 200
        assert offered(page) == acts, path
        assert "/console/act/" not in officer.get(path).text, path
    api.world.service.disable_subscription(name)
    page = signed_in(api, Role.CONSUMER).get(f"/console/subscriptions/{name}")
    assert offered(page) == [
        f"subscriptions/{name}/{act}" for act in ("redeliver", "enable", "rotate", "test")
    ]
    assert page.text.count('aria-label="Actions"') == 1
    api.grant("ads", "taxi", Role.DEVELOPER)  # which does not make the PTK theirs
    theirs = signed_in(api, Role.DEVELOPER, team="ads").get("/console/ptks/taxi.speed")
    assert (theirs.status_code, "/console/act/" in theirs.text) == (200, False)


def test_a_subscription_shows_how_its_endpoint_answers_and_what_it_missed(api: Api) -> None:
    one = subscription(api)
    client = signed_in(api, Role.DEVELOPER)
    with api.world.service.begin() as uow:
        now = api.world.clock.now()
        uow.subscriptions.save([one.after("status-5xx", now)])
        uow.subscriptions.add_attempts(
            [
                Attempt(one.id, number, now, 1, number, False, "status-5xx", 503, 300)
                for number in range(1, ATTEMPTS_SHOWN + 2)
            ]
        )
        uow.commit()
    page = client.get(f"/console/subscriptions/{one.id}")
    text = re.sub(r"\s+", " ", seen(page).text)
    assert "failing" in text
    assert "status-5xx" in text
    assert "Failed attempts since the last success1, since" in text
    assert "Send version 1 again" in text
    assert text.count("refused: 503 in 0.3 s") == ATTEMPTS_SHOWN
    assert "Waiting" not in text
    assert f"The newest {ATTEMPTS_SHOWN}. ptk subscription attempts {one.id} lists" in text
    assert f"/console/subscriptions/{one.id}" in client.get("/console/deliveries").text
    assert client.get("/console/subscriptions/sub_0000000000000000").status_code == 404
    assert client.get("/console/subscriptions/%3Cb%3E").status_code == 404
    stranger = signed_in(api, *STREAM_ROLES, team="strangers")
    assert stranger.get(f"/console/subscriptions/{one.id}").status_code == 404
    api.world.publish(2)
    (attempt,) = api.world.service.deliveries(one.id).next_attempts
    later = attempt.at + timedelta(minutes=1, seconds=7)
    with api.world.service.begin() as uow:
        job = uow.jobs.lock(f"notify/{one.id}")
        uow.jobs.save(replace(job, attempt=4, due_at=later))
        uow.commit()
    text = re.sub(r"\s+", " ", seen(client.get(f"/console/subscriptions/{one.id}")).text)
    assert f"WaitingVersion 3 waits for attempt 5, at {second(later.isoformat())} UTC." in text
