"""Pages that forms, actions, refusals and one-time links end in, in a real browser at every width and colour scheme."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from playwright.sync_api import Browser, expect

from ptkstore.adapters.processes import OneTimeLinks
from ptkstore.domain.identity import STREAM_ROLES, Role
from ptkstore.domain.jobs import JobKind, JobState
from ptkstore.domain.subscriptions import DeadLetter
from ptkstore.errors import Unavailable
from tests.services.chromium import Tab, executable, tab
from tests.support.api_server import Api
from tests.support.console_tours import ACTS, SENT, WITHOUT_SESSION, looks_right, sign_in
from tests.support.plugins.lacking import needs

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(executable() is None, reason=needs("chromium", "apt-get install chromium")),
]
WORDS = {
    403: "Forbidden",
    404: "Not Found",
    409: "Conflict",
    429: "Too Many Requests",
    503: "Service Unavailable",
}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with Api(tmp_path_factory.mktemp("home")) as api:
        world = api.world
        world.stream(retention_windows=9)
        world.register()
        world.register("waits", epsilon=0.01)
        world.register("busy", epsilon=0.01)
        world.publish(0)
        world.publish(1)
        made, _ = world.service.subscribe_to_ptk("taxi.speed", "http://127.0.0.1:9/hook", team="taxi")
        with world.service.begin() as uow:
            uow.subscriptions.add_dead_letter(DeadLetter(made.id, 1, "timeout", world.clock.now()))
            uow.commit()
        api.identity.create_team("ads")
        api.identity.create_team("press")
        yield api


@pytest.fixture(scope="module")
def page(api: Api, browser: Browser) -> Iterator[Tab]:
    with entered(api, browser, *Role) as one:
        yield one


class entered:  # noqa: N801
    """A page of somebody who has signed in, in some roles."""

    def __init__(self, api: Api, browser: Browser, *roles: Role) -> None:
        self._api, self._tab, self._roles = api, tab(browser), roles

    def __enter__(self) -> Tab:
        one = self._tab.__enter__()
        one.go(f"{self._api.url}/console/")
        sign_in(one, self._api.token(*self._roles))
        assert one.run("location.pathname") == "/console/"
        return one

    def __exit__(self, *error: object) -> None:
        self._tab.__exit__(None, None, None)


def said(one: Tab) -> str:
    text: str = one.run("document.querySelector('main').innerText")
    return re.sub(r"\s+", " ", text)


def answered(one: Tab, status: int) -> None:
    """The page is a refusal with this status; the browser says so in its console, and says nothing else."""
    told = f"Failed to load resource: the server responded with a status of {status} ({WORDS[status]})"
    assert one.wrong == [told]
    one.wrong.clear()
    looks_right(one)


@pytest.mark.parametrize("route", ACTS)
def test_an_action_can_be_read_before_and_after_it_is_done(page: Tab, api: Api, route: str) -> None:
    fields, message = ACTS[route]
    one = api.world.service.subscriptions(None)[0].subscription
    ptk_id = "taxi.waits" if "deregister" in route else "taxi.speed"
    path = route.format(subscription_id=one.id, ptk_id=ptk_id, stream="taxi")
    page.go(f"{api.url}/console{path}")
    if fields:
        looks_right(page)
    for name, value in fields.items():
        field = page.page.locator(f"[name={name}]:not([type=radio]), [name={name}][value='{value}']")
        kind = field.evaluate("one => one.type")
        if kind == "radio":
            field.check()
        elif kind == "select-one":
            field.select_option(value)
        else:
            field.fill(value)
    if fields:
        page.page.get_by_role("button", name="Continue").click()
    looks_right(page)
    page.page.locator("main form[method=post] button").click()
    expect(page.page.get_by_role("status").first).to_contain_text(message)
    assert page.page.locator("code.secret").count() == (1 if "rotate" in route else 0)
    looks_right(page)


@pytest.mark.parametrize("route", SENT)
def test_what_a_form_shows_can_be_read_by_everybody(api: Api, browser: Browser, route: str) -> None:
    with entered(api, browser, *Role) as one:
        if route == "/login":
            one.page.context.clear_cookies()
            one.go(f"{api.url}/console/login")
            sign_in(one, "no token")
            expect(one.page.get_by_role("alert")).to_be_visible()
            answered(one, 403)
            return
        if route == "/logout":
            one.page.get_by_role("button", name="Sign out").click()
            expect(one.page.get_by_label("API token")).to_be_visible()
        elif route.endswith("lookup"):
            one.go(f"{api.url}/console/ptks/taxi.speed/lookup")
            one.page.locator("#key_0").fill("8")
            one.page.get_by_role("button", name="Look up").click()
            expect(one.page.get_by_role("heading", name="Answer")).to_be_visible()
        elif route.endswith("check"):
            one.go(f"{api.url}/console/streams/taxi/officer")
            one.page.locator("#signed-file").set_input_files(
                {"name": "report.json", "mimeType": "application/json", "buffer": b"{}"}
            )
            one.page.get_by_role("button", name="Check the signature").click()
            one.page.wait_for_load_state()
            assert one.page.url.endswith("/streams/taxi/check")
        else:
            one.go(f"{api.url}/console/ptks/taxi.speed")
            one.page.locator("#find").fill("1")
            one.page.locator("#find").press("Enter")
            one.page.wait_for_load_state()
            assert one.page.locator("#find").input_value() == "1"
        looks_right(one)


@pytest.mark.parametrize("path", WITHOUT_SESSION)
def test_pages_without_a_session_can_be_read_by_everybody(api: Api, browser: Browser, path: str) -> None:
    made = OneTimeLinks(api.world.service.settings.root)
    holder = api.token(Role.ADMINISTRATOR, *STREAM_ROLES).split("_")[1]
    now, address = api.world.clock.now(), f"127.0.0.1:{api.port}"
    with tab(browser) as one:
        if "LINK" not in path:
            one.go(f"{api.url}/console/{path}")
            looks_right(one)
            return
        # the page leads to the overview at once; an answer without a page keeps it open
        one.page.route("**/console/", lambda route: route.fulfill(status=204))
        one.go(f"{api.url}/console/{path.replace('LINK', made.make(holder, address, now))}")
        assert "The link is used up." in said(one)
        looks_right(one)
        one.page.unroute("**/console/")
        one.page.get_by_role("link", name="Open the overview").click()
        expect(one.page.get_by_role("heading", level=1)).to_have_text("Overview")
        expired = made.make(holder, address, now - timedelta(minutes=2))
        one.go(f"{api.url}/console/{path.replace('LINK', expired)}")
        assert "This link opens nothing." in said(one)
        answered(one, 403)


def of_a_role(one: Tab, api: Api) -> None:
    one.go(f"{api.url}/console/ptks/taxi.speed/diff?one=1&other=2")


def of_an_unknown_name(one: Tab, api: Api) -> None:
    one.go(f"{api.url}/console/streams/taxii")
    assert "Did you mean taxi?" in said(one)


def of_an_action_by_roles(one: Tab, api: Api) -> None:
    one.go(f"{api.url}/console/act/ptks/taxi.speed/rollback")
    assert "not-allowed" in said(one)


def of_an_unknown_team(one: Tab, api: Api) -> None:
    one.go(f"{api.url}/console/act/grants/add?team=pres&stream=taxi&role=consumer")
    assert "did you mean 'press'?" in said(one)


def of_a_conflict(one: Tab, api: Api) -> None:
    api.world.ingest((5.5,))
    api.world.close(6)
    api.world.work("prepare", "allocate")
    with api.world.service.begin() as uow:
        runs = uow.jobs.find(ptk_id="taxi.busy")
        waits = next(one for one in runs if one.kind is JobKind.TRAIN and one.state is JobState.READY)
        assert uow.jobs.claim(waits.id, api.world.clock.now(), timedelta(hours=1)) is not None
        uow.commit()
    one.go(f"{api.url}/console/act/ptks/taxi.busy/rollback?to=1")
    one.page.locator("main form[method=post] button").click()
    expect(one.page.get_by_role("alert")).to_contain_text("is under way")


def of_too_many_requests(one: Tab, api: Api) -> None:
    rates = api.app.state.rates
    kept = rates._rates, rates._buckets
    try:
        rates._rates, rates._buckets = (1e-9, 1e-9), {}
        for _ in range(3):
            one.go(f"{api.url}/console/ptks")
    finally:
        rates._rates, rates._buckets = kept
    assert "You ask for many pages at once." in said(one)


def of_a_part_that_is_away(one: Tab, api: Api) -> None:
    def away(*_: object, **__: object) -> None:
        raise Unavailable("the catalog does not answer")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(api.world.service), "verify_ledger", away)
        one.go(f"{api.url}/console/streams/taxi/officer")


@pytest.mark.parametrize(
    ("refusal", "status", "role"),
    [
        (of_a_role, 403, Role.PRODUCER),
        (of_an_unknown_name, 404, Role.PRODUCER),
        (of_an_action_by_roles, 403, Role.PRODUCER),
        (of_an_unknown_team, 404, Role.ADMINISTRATOR),
        (of_a_conflict, 409, Role.DEVELOPER),
        (of_too_many_requests, 429, Role.CONSUMER),
        (of_a_part_that_is_away, 503, Role.OFFICER),
    ],
)
def test_a_refusal_can_be_read_by_everybody(
    api: Api, browser: Browser, refusal: Callable[[Tab, Api], None], status: int, role: Role
) -> None:
    with entered(api, browser, role) as one:
        refusal(one, api)
        answered(one, status)


def test_a_report_for_people_can_be_read_by_everybody(api: Api, page: Tab) -> None:
    report = page.page.context.request.get(f"{api.url}/console/streams/taxi/report.html")
    assert report.status == 200
    page.go("about:blank")
    page.page.set_content(report.text())
    looks_right(page)
