"""The console: who may see what, and what no page ever does."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ptkstore.api.app import create_app
from ptkstore.console.charts import budget_chart
from ptkstore.console.glossary import GLOSSARY, meaning
from ptkstore.console.pages import deliveries
from ptkstore.console.pages.overview import NOTICES_SHOWN
from ptkstore.console.pages.ptks import TRAININGS_SHOWN
from ptkstore.console.sessions import (
    IDLE_SECONDS,
    LIFE_SECONDS,
    OF_A_TEAM_MAX,
    OF_A_TOKEN_MAX,
    SESSIONS_MAX,
    Sessions,
)
from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.identity import STREAM_ROLES, Role
from ptkstore.domain.jobs import Job, JobKind, JobState, Outcome, job_id
from ptkstore.domain.notices import Notice
from ptkstore.ports.row_processes import RunFailed
from tests.support.api_server import Api
from tests.support.console_pages import HOSTILE, PAGES, api, enter, seen, session_cookie, signed_in
from tests.support.receiver import WebhookReceiver
from tests.support.team_code import GOOD, Inspector, bundle_with, described
from tests.support.world import CHAIN, DAY, NOW, ORIGIN, trips

__all__ = ["api"]


def test_pages_show_streams_ptks_versions_and_deliveries(api: Api) -> None:
    client = signed_in(api)
    pages = {path: client.get(path) for path in PAGES}
    assert {page.status_code for page in pages.values()} == {200}
    overview, stream, ptks, ptk, deliveries, queue, simulation = (seen(page).text for page in pages.values())
    assert "its scheduler 'allocate' plans each window" in queue
    assert "PTKs that arrive per window" in simulation
    assert "PTKs that arrive per window" in stream
    assert "taxi" in overview
    assert "1 subscription" in re.sub(r"\s+", " ", overview)
    assert "2026-01-05, train" in stream
    assert "taxi.speed" in ptks
    assert "2026-01-05" in ptk
    assert "http://127.0.0.1:9/hook" in deliveries
    assert "s3cret" not in pages["/console/deliveries"].text  # endpoints may carry a secret behind the path


def test_a_stream_shows_who_closes_it_and_what_is_exposed(api: Api) -> None:
    page = re.sub(r"\s+", " ", seen(signed_in(api).get("/console/streams/taxi")).text)
    assert "until the operator closes further, never by the clock" in page
    assert "rows never expire by the wall clock" in page
    assert "By the wall clock, window 0 would have expired." in page


def test_a_failed_exposure_check_is_red_on_the_overview(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api:
        api.world.stream()
        for day in range(4):
            api.world.publish(day)
        overview = signed_in(api).get("/console/").text
        assert 'class="small failed"' in overview
        assert "The exposure check fails" in seen(signed_in(api).get("/console/")).text
        page = seen(signed_in(api).get("/console/streams/taxi")).text
        assert "The exposure check fails: windows 0 to 1 should have expired and did not." in page
        api.world.work("expire")
        assert "failed" not in signed_in(api).get("/console/").text


@pytest.mark.parametrize("path", PAGES)
def test_names_and_texts_of_others_are_inert(api: Api, path: str) -> None:
    page = signed_in(api).get(path)
    found = seen(page)
    assert not {"script", "img", "iframe", "object", "embed"} & set(found.tags)
    assert not [name for name in found.attributes if name.startswith("on") or name == "style"]
    if "ptk" in path:
        assert HOSTILE in found.text  # shown as it is written, and evaluated by nobody
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "script" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize("path", [*PAGES, "/console/nothing"])
def test_without_a_session_there_is_a_form_and_nothing_else(api: Api, path: str) -> None:
    for client in (api.client(), api.client(api.token())):  # an API token in a header signs nobody in
        client.cookies.set(session_cookie(api), "x" * 43)
        answer = client.get(path)
        if path.endswith("nothing"):
            assert answer.status_code == 404
        else:
            assert (answer.status_code, answer.headers["location"]) == (303, "/console/login")


@pytest.mark.parametrize(
    "path", ["streams/%00", "streams/none", "streams/Taxi", "ptks/%00.%00", "ptks/taxi", "ptks/a.b"]
)
def test_what_names_nothing_is_not_found_and_not_repeated(api: Api, path: str) -> None:
    answer = signed_in(api).get(f"/console/{path}")
    assert answer.status_code == 404
    assert "Taxi" not in answer.text


def test_a_slow_rate_still_lets_one_request_through(tmp_path: Path) -> None:
    from ptkstore.api.limits import Limits

    with Api(tmp_path / "home", Limits(requests_per_second=0.1)) as api:
        clock = iter(range(0, 1000, 10))
        api.app.state.rates._clock = lambda: next(clock)
        assert signed_in(api).get("/console/").status_code == 200


def test_a_session_is_a_cookie_that_no_script_reads_and_no_other_site_sends(api: Api) -> None:
    token = api.token()
    client = api.client()
    key = seen(client.get("/console/login")).fields["form_key"]
    answer = client.post("/console/login", data={"form_key": key, "token": token})
    cookies = answer.headers.get_list("set-cookie")
    session = next(cookie for cookie in cookies if cookie.startswith(f"{session_cookie(api)}="))
    for part in ("HttpOnly", "SameSite=strict", "Path=/console"):
        assert part in session
    assert not any(secret in "".join(cookies) for secret in (token, token[-43:]))
    # Elsewhere than on this machine it goes over https only.
    away = client.get("/console/login", headers={"Host": "ptk.example.org"})
    assert "Secure" in away.headers["set-cookie"]


@pytest.mark.parametrize("key", ["", "x" * 43, None])
def test_a_form_of_another_site_signs_nobody_in(api: Api, key: str | None) -> None:
    client = api.client()
    client.get("/console/login")
    form = {"token": api.token(), **({} if key is None else {"form_key": key})}
    answer = client.post("/console/login", data=form)
    assert answer.status_code == 403
    assert "ptk_session" not in answer.headers["set-cookie"]


def test_a_wrong_token_is_told_as_such_and_not_repeated(api: Api) -> None:
    client = api.client()
    for wrong in ("ptk_" + "0" * 16 + "_" + "x" * 43, HOSTILE, ""):
        key = seen(client.get("/console/login")).fields["form_key"]
        answer = client.post("/console/login", data={"form_key": key, "token": wrong})
        assert answer.status_code == 403
        assert "not valid" in answer.text
        assert not wrong or wrong not in answer.text


@pytest.mark.parametrize("form", [{}, {"form_key": ""}, {"form_key": "x" * 43}])
def test_signing_out_by_a_foreign_form_is_refused_and_leaves_session_and_cookie(
    api: Api, form: dict[str, str]
) -> None:
    client = signed_in(api)
    refused = client.post("/console/logout", data=form)
    assert refused.status_code == 403
    assert "set-cookie" not in refused.headers
    assert client.get("/console/").status_code == 200


ELSEWHERE = [{"Sec-Fetch-Site": "same-site"}, {"Origin": "http://127.0.0.1:1"}, {"Origin": "null"}]


@pytest.mark.parametrize("headers", ELSEWHERE)
def test_a_form_from_another_port_of_this_host_is_refused_with_the_right_key(
    api: Api, headers: dict[str, str]
) -> None:
    """Cookies are shared by the ports of a host, so keys in them prove less than the origin."""
    client = api.client()
    form = {"form_key": seen(client.get("/console/login")).fields["form_key"], "token": api.token()}
    assert client.post("/console/login", data=form, headers=headers).status_code == 403
    here = {"Sec-Fetch-Site": "same-origin"}
    form["form_key"] = seen(client.get("/console/login")).fields["form_key"]
    assert client.post("/console/login", data=form, headers=here).status_code == 303
    asked = {"form_key": seen(client.get("/console/")).fields["form_key"]}
    for path in ("/console/ptks/taxi.speed/lookup", "/console/logout"):
        assert client.post(path, data=asked, headers=headers).status_code == 403, path
    assert client.post("/console/logout", data=asked, headers=here).status_code == 303


def test_another_site_whose_post_carries_no_cookie_has_none_deleted(api: Api) -> None:
    answer = api.client().post("/console/logout", data={})
    assert answer.status_code == 303
    assert "set-cookie" not in answer.headers


def test_signing_out_takes_the_form_and_ends_the_session_for_good(api: Api) -> None:
    client = signed_in(api)
    name = client.cookies[session_cookie(api)]
    key = seen(client.get("/console/")).fields["form_key"]
    assert client.post("/console/logout", data={"form_key": key}).status_code == 303
    assert session_cookie(api) not in client.cookies
    again = api.client()
    again.cookies.set(session_cookie(api), name)
    assert again.get("/console/").status_code == 303


def test_a_session_ends_with_its_token_at_once(api: Api) -> None:
    token = api.token()
    client = enter(api.client(), token)
    assert client.get("/console/").status_code == 200
    api.identity.revoke_token(token[4:20])
    assert client.get("/console/").status_code == 303
    short = signed_in(api, life=timedelta(hours=1))
    api.world.clock.pass_(hours=1)
    assert short.get("/console/").status_code == 303


def test_roles_decide_what_is_shown(api: Api) -> None:
    consumer = signed_in(api, Role.CONSUMER)
    assert "Your roles do not read budgets" in consumer.get("/console/streams/taxi").text
    producer = signed_in(api, Role.PRODUCER)
    assert "Your roles do not read states" in producer.get("/console/ptks/taxi.speed").text
    assert "no subscription" in producer.get("/console/deliveries").text
    stranger = signed_in(api, *STREAM_ROLES, team="strangers")
    assert "taxi" not in stranger.get("/console/").text
    for path in (
        "/console/streams/taxi",
        "/console/ptks/taxi.speed",
        "/console/streams/none",
        "/console/ptks/a",
    ):
        assert stranger.get(path).status_code == 404, path
    assert "taxi.speed" not in stranger.get("/console/ptks").text
    admin = signed_in(api, Role.ADMINISTRATOR, team="operators")
    assert "sub_" in admin.get("/console/deliveries").text


def test_owners_see_the_words_left_for_them_and_the_ends_of_their_trainings(
    tmp_path: Path, webhook_receiver: WebhookReceiver
) -> None:
    with Api(tmp_path / "home") as api:
        world = api.world
        world.stream()
        world.register()
        api.grant("ads", "taxi", Role.CONSUMER)
        world.publish(0)
        made, _ = world.service.subscribe_to_ptk("taxi.speed", webhook_receiver.endpoint(), team="ads")
        world.trainer.failing = RunFailed("killed")
        world.publish(1)
        world.publish(2)
        webhook_receiver.answer_next(1, 410)
        world.work("notify")
        ours, theirs = (seen(signed_in(api, team=team).get("/console/")).text for team in ("taxi", "ads"))
        for overview in (ours, theirs):
            assert f"taxi.speed to {made.id}" in overview
            assert "subscription-disabled" in overview
            assert "127.0.0.1" not in overview
        assert "taxi.speed window 1" in ours
        assert "window 1" not in theirs
        stranger = seen(signed_in(api, team="strangers").get("/console/")).text
        assert "No notices yet" in stranger
        assert "taxi.speed" not in stranger
        everything = seen(signed_in(api, Role.ADMINISTRATOR, team="operators").get("/console/")).text
        assert everything.count(f"taxi.speed to {made.id}") == 2
        page = seen(signed_in(api).get("/console/ptks/taxi.speed")).text
        assert (
            "1endedfailedIts process was killed. Something of the service or its machine went wrong:"
            " see the worker's log. killed" in page
        )  # cells of one row
        assert "0endedpublished1" in page
        for team in ("ads", "operators"):
            roles = (Role.ADMINISTRATOR,) if team == "operators" else tuple(STREAM_ROLES)
            text = signed_in(api, *roles, team=team).get("/console/ptks/taxi.speed").text
            assert ("killed" in text, "Only the team" in text) == (team != "ads", team == "ads"), team


def test_the_newest_words_and_trainings_are_shown_and_no_more(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api:
        api.world.stream()
        ptk_id = api.world.register()
        with api.world.service.begin() as uow:
            for number in range(NOTICES_SHOWN + 3):
                uow.notify_owner(Notice(NOW, "taxi", "expired", f"word-{number:03}"))
            for window in range(TRAININGS_SHOWN + 3):
                name = job_id(JobKind.TRAIN, ptk_id, window)
                job = Job(
                    name, JobKind.TRAIN, "taxi", JobState.ENDED, NOW, window_index=window, ptk_id=ptk_id
                )
                uow.jobs.add(job.ended(Outcome.FAILED))
            uow.commit()
        client = signed_in(api)
        words = re.findall(r"word-(\d+)", client.get("/console/").text)
        assert [int(word) for word in words] == [*range(NOTICES_SHOWN + 2, 2, -1)]
        shown = re.findall(
            r'<th scope="row" class="number"[^>]*>(\d+)', client.get("/console/ptks/taxi.speed").text
        )
        assert [int(window) for window in shown] == [*range(TRAININGS_SHOWN + 2, 2, -1)]


def test_the_console_changes_nothing(api: Api) -> None:
    client = signed_in(api)
    for path in PAGES:
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            searches = (method, path) == (
                "POST",
                "/console/ptks/taxi.speed",
            )  # the rows of a table, by a form
            assert client.request(method, path).status_code == (403 if searches else 405), (method, path)


def test_a_form_that_is_too_long_or_none_is_refused(api: Api) -> None:
    client = api.client()
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client.post("/console/login", content=b"a" * 5_000, headers=kind).status_code == 413
    assert client.post("/console/login", content=b"\xff=\xff&&", headers=kind).status_code == 400


def test_pages_count_as_requests_of_their_token(tmp_path: Path) -> None:
    from ptkstore.api.limits import Limits

    with Api(tmp_path / "home", Limits(requests_per_second=1.0)) as api:
        api.app.state.rates._clock = lambda: 0.0
        client = signed_in(api)
        assert [client.get("/console/").status_code for _ in range(3)] == [200, 429, 429]


def test_sessions_end_after_a_while_and_are_bounded() -> None:
    now = 0.0
    sessions = Sessions(lambda: now)
    idle, busy = sessions.begin("a", "a"), sessions.begin("b", "b")
    while now < LIFE_SECONDS:
        assert sessions.of(busy) is not None
        now += IDLE_SECONDS / 2
    assert (sessions.of(idle), sessions.of(busy), sessions.of(""), sessions.of(None)) == (None,) * 4
    first = sessions.begin("c", "c")
    for number in range(SESSIONS_MAX):
        now += 0.001
        sessions.begin(f"d{number}", f"d{number}")
    assert sessions.of(first) is None
    assert len(sessions._sessions) == SESSIONS_MAX
    assert not any(name in key for key in sessions._sessions for name in (first,))


def test_who_signs_in_again_and_again_ends_nobody_elses_session() -> None:
    now = 0.0
    sessions = Sessions(lambda: now)
    others, first = sessions.begin("other", "other"), sessions.begin("eager", "eager")
    for _ in range(SESSIONS_MAX):
        now += 0.001
        last = sessions.begin("eager", "eager")
    assert (sessions.of(first), len(sessions._sessions)) == (None, OF_A_TOKEN_MAX + 1)
    assert None not in (sessions.of(others), sessions.of(last))


def test_a_team_with_many_tokens_ends_nobody_elses_session() -> None:
    now = 0.0
    sessions = Sessions(lambda: now)
    others = sessions.begin("other", "bikes")
    for number in range(SESSIONS_MAX):
        now += 0.001
        last = sessions.begin(f"token{number}", "ads")
    assert len(sessions._sessions) == OF_A_TEAM_MAX + 1
    assert None not in (sessions.of(others), sessions.of(last))


def test_the_backend_of_an_app_does_not_sign_in(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api:
        api.world.stream()
        client = api.client()
        key = seen(client.get("/console/login")).fields["form_key"]
        gateway = api.token(Role.DEVICE_GATEWAY)
        answer = client.post("/console/login", data={"form_key": key, "token": gateway})
        assert (answer.status_code, session_cookie(api) in client.cookies) == (403, False)
        (entry,) = [one for one in api.identity.audit_log() if one.action == "console.sign-in"]
        assert entry.outcome == "not-allowed"


BUDGET_ROW = {
    "label": "day",
    "state": "active",
    "capacity_epsilon": 2.0,
    "spent_epsilon": 0.5,
    "reserved_epsilon": 1.0,
}


def test_bars_hold_what_was_lost_and_promised() -> None:
    (bar,) = budget_chart([BUDGET_ROW]).bars
    assert (bar.spent, bar.reserved, bar.label) == (35.0, 70.0, "day: 0.5 spent, 1 reserved of 2, active")
    (none,) = budget_chart(
        [{**BUDGET_ROW, "capacity_epsilon": 0.0, "spent_epsilon": 0.0, "reserved_epsilon": 0.0}]
    ).bars
    assert (none.spent, none.reserved) == (0.0, 0.0)


def test_the_bare_address_leads_to_the_console_and_tells_nothing(api: Api) -> None:
    answer = api.client().get("/")
    assert (answer.status_code, answer.headers["location"], answer.content) == (307, "/console/", b"")
    assert "/" not in api.client().get("/openapi.json").json()["paths"]
    assert api.client().post("/").status_code == 405
    assert "/" not in {getattr(route, "path", None) for route in create_app(api.world.service).routes}


@pytest.mark.parametrize("n", [1, 2, 3, 60])
def test_bars_fill_the_chart_from_its_first_date_to_its_last(n: int) -> None:
    chart = budget_chart([{**BUDGET_ROW, "place": f"2026-01-{day + 1:02}"} for day in range(n)])
    last = chart.bars[-1]
    assert 0 <= chart.bars[0].x <= 2
    assert chart.width - 4 <= last.x + chart.bar_width <= chart.width
    assert (chart.first, chart.last) == ("2026-01-01", f"2026-01-{n:02}")
    assert all(b.x - a.x >= chart.bar_width for a, b in pairwise(chart.bars))


def test_words_are_explained_and_can_be_reached_by_keyboard(api: Api) -> None:
    page = signed_in(api, *STREAM_ROLES).get("/console/streams/taxi").text
    found = re.findall(r'<dfn class="term" tabindex="0" title="([^"]+)">([^<]+)</dfn>', page)
    words = {word: unescape(title) for title, word in found}
    for word in ("block", "privacy unit", "window", "accountant", "least assurance", "assurance"):
        assert words[word] == meaning(word)
        assert meaning(word)


def test_the_first_of_many_subscriptions_are_read_alone(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    service, limits = api.world.service, list[int | None]()
    second, _ = service.subscribe_to_ptk("taxi.speed", "http://127.0.0.1:9/other", team="taxi")
    call = service.subscriptions

    def noted(*asked: Any, limit: int | None = None, **more: Any) -> Any:
        limits.append(limit)
        return call(*asked, limit=limit, **more)

    monkeypatch.setattr(deliveries, "SUBSCRIPTIONS_SHOWN", 1)
    monkeypatch.setattr(service, "subscriptions", noted)
    text = seen(signed_in(api).get("/console/deliveries")).text
    service.unsubscribe(second.id)
    assert limits == [2]
    assert "The first 1 subscriptions." in text


def test_how_far_a_subscription_was_sent_to_is_explained(api: Api) -> None:
    page = signed_in(api).get("/console/deliveries").text
    assert f'title="{meaning("sent up to version")}">sent up to version</dfn>' in page
    assert "Dead letters count as sent" in meaning("sent up to version")
    assert 'data-label="Sent up to version" class="number">1</td>' in page  # that from before it subscribed
    assert "heard" not in page.lower()


def test_parts_are_explained_by_their_number_and_other_words_are_not() -> None:
    assert meaning("train-3").startswith("The part number 3 of those that PTKs are trained on.")
    assert [meaning(word) for word in ("train", "train-x", "rome", "")] == ["", "", "", ""]
    assert all(text.endswith(".") and '"' not in text for text in GLOSSARY.values())


@pytest.mark.long
def test_pages_say_which_team_vouches_for_a_ptk(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api:
        world = api.world
        world.service.__dict__["sandbox"] = Inspector()
        world.stream("open", minimum_assurance=Assurance.ASSERTED)
        bundle = bundle_with(GOOD)
        world.service.put_bundle(bundle, team="taxi")
        world.register("own", stream="open", estimator=described(bundle))
        world.service.ingest("open", trips((0.5, 0.6)))
        world.service.close_windows("open", ORIGIN + DAY)
        world.work()
        client = signed_in(api, *STREAM_ROLES)
        for path in ("ptks", "ptks/taxi.own", "streams/open"):
            assert ">asserted by taxi<" in client.get(f"/console/{path}").text, path
        assert "nobody has proven it" in seen(client.get("/console/ptks/taxi.own")).text
        page = seen(client.get("/console/streams/open")).text
        assert "Registered now: taxi.own." in page
        assert "Spent εBy the library εAsserted εReserved ε" in page
        assert "train-0active0.10.00.10.01.0" in page
        assert "accepts asserted PTKs" in seen(client.get("/console/")).text


def test_a_ptk_shows_its_verdicts_and_whether_it_waits(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api:
        world = api.world
        world.stream()
        client = signed_in(api)
        accept = {"metric": "loss", "epsilon": 0.9, "timeout": "1d"}
        world.register(config={"accept": accept}, target=0.9)
        assert "accepted versionswaiting, since window 0" in seen(client.get("/console/ptks/taxi.speed")).text
        for day, target in ((0, 0.9), (1, 1e-9)):
            world.service.update_ptk("taxi.speed", target=target)
            world.ingest([day + one / 1_000 for one in range(1_000)])
            world.close(day + 1)
            world.work(*CHAIN, "validate", "flip")
        page = seen(client.get("/console/ptks/taxi.speed")).text
        assert "accepted versionsgiven up: timeout, since window 1" in page
        accepted, refused = world.service.validations("taxi.speed")
        for one, version in ((accepted, "1"), (refused, "")):
            verdict = one.verdict
            cells = (
                f"{one.window_index}1{verdict['decision']}loss{verdict['estimate']:.3f}{verdict['bound']:.3f}"
            )
            assert f"{cells}{verdict['target']}0.95library{version}" in page
        word = {**accepted.verdict, "assurance": "asserted", "asserted_by": "taxi"}
        with world.service.begin() as uow:
            uow.validations.add(replace(accepted, job_id="validate/own", verdict=word, number=0))
            uow.commit()
        assert "0.95asserted by taxi" in seen(client.get("/console/ptks/taxi.speed")).text
        producer = seen(signed_in(api, Role.PRODUCER).get("/console/ptks/taxi.speed")).text
        assert "Verdicts" not in producer
        world.service.update_ptk("taxi.speed", config={})
        assert "accepted versions" not in seen(client.get("/console/ptks/taxi.speed")).text
