"""The console in a real browser: signing in, every page, by keyboard, on a phone, in the dark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser

from ptkstore.domain.identity import Role
from ptkstore.domain.scheduling.choices import Scheduler
from ptkstore.domain.subscriptions import Attempt, DeadLetter
from ptkstore.ports.row_processes import RunFailed
from tests.services.chromium import Tab, executable, tab
from tests.support.api_server import Api
from tests.support.console_pages import session_cookie
from tests.support.console_tours import PAGES, SCHEMES, WIDTHS, can_be_read_by_everybody, sign_in
from tests.support.plugins.lacking import needs
from tests.support.world import DAY, ORIGIN, STREAM, trips

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(executable() is None, reason=needs("chromium", "apt-get install chromium")),
]
DESCRIPTION = "Mean speed by hour of the day. <script>document.title='taken'</script>"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with Api(tmp_path_factory.mktemp("home")) as api:
        world = api.world
        world.stream("rides", scheduler=Scheduler.ADAPTIVE, rows_per_window=1_000, retention_windows=4)
        test = {"accept": {"metric": "loss", "epsilon": 0.2}}
        world.register("waits_long", stream="rides", config=test, target=1e-9, windows=(1, 2))
        world.register("served", stream="rides", epsilon=0.1)
        world.service.ingest("rides", trips([i / 1_000 for i in range(1_000)]))
        world.service.close_windows("rides", ORIGIN + DAY)
        world.work("prepare", "allocate", "schedule", "train", "validate", "place", "flip")
        world.stream(retention_windows=40)
        world.register(epsilon=0.35, description=DESCRIPTION, tags=["ads", "night-and-day"])
        world.register("busy_hours", epsilon=0.2)
        for day in range(14):
            world.trainer.failing = RunFailed("memory-limit") if day == 13 else None
            world.publish(day)
        world.register("late_comer", epsilon=0.25)
        world.ingest((14.5,))
        world.close(15)
        world.work("prepare", "allocate")  # promised, not yet lost
        world.stream("bikes", window=timedelta(hours=6))
        for name in ("speed", "busy_hours"):
            made, _ = world.service.subscribe_to_ptk(
                f"taxi.{name}", f"http://127.0.0.1:9/{name}", team="taxi"
            )
            with world.service.begin() as uow:
                letter = DeadLetter(made.id, 3, "endpoint-refused", ORIGIN + 4 * DAY)
                uow.subscriptions.add_dead_letter(letter)
                uow.subscriptions.add_attempts(
                    [
                        Attempt(made.id, number, ORIGIN + 4 * DAY, 3, number, False, "status-5xx", 503, 9_900)
                        for number in (1, 2)
                    ]
                )
                uow.commit()
        yield api


@pytest.fixture(scope="module")
def page(api: Api, browser: Browser) -> Iterator[Tab]:
    """A page of somebody who has signed in as people do."""
    with tab(browser) as one:
        one.go(f"{api.url}/console/")
        assert one.run("location.pathname") == "/console/login"
        sign_in(one, "ptk_" + "0" * 16 + "_" + "x" * 43)
        assert one.page.get_by_role("alert").inner_text().startswith("That did not work")
        sign_in(one, api.token(*Role))
        assert one.run("location.pathname") == "/console/"
        yield one


def kept(one: Tab, name: str) -> None:
    """Leave a picture where CONSOLE_PICTURES says, for people to look at."""
    folder = os.environ.get("CONSOLE_PICTURES")
    if folder:
        one.page.screenshot(path=Path(folder, f"{name}.png"), full_page=True)


@pytest.mark.long
def test_the_session_is_out_of_reach_of_scripts_and_other_sites(page: Tab, api: Api) -> None:
    page.go(f"{api.url}/console/")
    (session,) = (one for one in page.page.context.cookies() if one.get("name") == session_cookie(api))
    assert (session.get("httpOnly"), session.get("sameSite")) == (True, "Strict")
    assert session.get("path") == "/console"
    assert page.run("document.cookie") == ""


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("path", PAGES)
def test_every_page_can_be_read_by_everybody(
    page: Tab, api: Api, path: str, width: int, scheme: Literal["light", "dark"]
) -> None:
    page.size(width)
    page.scheme(scheme)
    one = api.world.service.subscriptions(None)[0].subscription
    page.go(f"{api.url}/console/{path.replace('SUBSCRIPTION', one.id)}")
    kept(page, f"{path.partition('?')[0].replace('/', '-') or 'overview'}-{width}-{scheme}")
    can_be_read_by_everybody(page)
    if width < 500:  # a row of a table is a card there
        assert page.run(
            "[...document.querySelectorAll('.scroll')].every(s => s.scrollWidth <= s.clientWidth)"
        )
        unnamed = "main tbody tr > :not([data-label]):not([colspan])"
        assert page.page.locator(unnamed).count() == 0
    assert page.page.locator("main table th:not([scope])").count() == 0
    assert page.run(
        "[...document.querySelectorAll('svg')].every(s => s.ariaHidden || s.getAttribute('aria-label'))"
    )
    assert page.run("document.title") != "taken"


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_pages_of_nobody_can_be_read_by_everybody(
    api: Api, browser: Browser, width: int, scheme: Literal["light", "dark"]
) -> None:
    with tab(browser) as other:
        other.size(width)
        other.scheme(scheme)
        other.go(f"{api.url}/console/")
        kept(other, f"login-{width}-{scheme}")
        can_be_read_by_everybody(other)
        assert other.run("document.activeElement.id") == "token"
        other.go(f"{api.url}/console/none")
        kept(other, f"none-{width}-{scheme}")
        other.wrong.clear()  # the browser writes each 404 to its console
        can_be_read_by_everybody(other)


def test_pages_are_walked_by_keyboard_with_a_mark_where_one_is(page: Tab, api: Api) -> None:
    page.size(1_280)
    page.scheme("light")
    page.go(f"{api.url}/console/")
    places = []
    for _ in range(4):
        page.page.keyboard.press("Tab")
        places.append(page.run("document.activeElement.innerText.trim()"))
        assert page.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert places == ["Skip to the content", "PTK store", "Overview", "Catalog"]


def test_a_word_is_explained_when_the_keyboard_reaches_it(page: Tab, api: Api) -> None:
    page.size(1_280)
    page.scheme("light")
    page.go(f"{api.url}/console/streams/{STREAM}")
    shown = "getComputedStyle(document.querySelector('.facts .term'), '::after').content"
    assert page.run(shown) == "none"
    for _ in range(20):
        page.page.keyboard.press("Tab")
        if page.run("document.activeElement.className") == "term":
            break
    assert page.run("document.activeElement.textContent") == "block"
    assert page.run(shown).strip('"') == page.run("document.activeElement.title")
    assert "privacy budget of its own" in page.run("document.activeElement.title")


def test_the_lines_of_a_queue_stand_for_who_waited_when(page: Tab, api: Api) -> None:
    page.size(1_280)
    page.go(f"{api.url}/console/streams/rides/queue")
    drawn: Any = page.run(
        "[...document.querySelectorAll('svg.wait')].map(s => [s.querySelector('title').textContent, "
        "s.querySelector('.waited').width.baseVal.value > 0, s.querySelectorAll('.retried').length])"
    )
    assert [(title.partition(":")[0], waited, retries) for title, waited, retries in drawn] == [
        ("taxi.served", True, 0),
        ("taxi.waits_long", True, 1),
    ]


def test_a_simulation_is_asked_for_by_the_form(page: Tab, api: Api) -> None:
    page.size(1_280)
    page.go(f"{api.url}/console/streams/rides")
    page.page.get_by_label("windows", exact=True).fill("10")
    page.page.get_by_role("button", name="Simulate").click()
    assert page.run("location.pathname") == "/console/streams/rides/simulation"
    assert "10 windows" in page.run("document.querySelector('main').innerText")
    assert page.run("document.querySelectorAll('main tbody tr').length") == 3


def test_the_bars_stand_for_the_budget(page: Tab, api: Api) -> None:
    page.size(1_280)
    page.go(f"{api.url}/console/streams/{STREAM}")
    titles: list[str] = page.run("[...document.querySelectorAll('.chart title')].map(t => t.textContent)")
    assert "2026-01-05, train-0: 0.55 spent, 0 reserved of 1, active" in titles
    assert "2026-01-19, train-0: 0 spent, 0.8 reserved of 1, active" in titles
    heights: Any = page.run(
        "[...document.querySelectorAll('.chart g')]"
        ".map(g => [...g.querySelectorAll('rect')].map(r => r.height.baseVal.value))"
    )
    assert len(titles) == len(heights) == 15  # of the windows; nothing was lost of the other parts
    assert [round(h, 2) for h in heights[0]] == [140, 77, 0]
    assert "Nothing is lost or promised of: profile, test." in page.run("document.body.innerText")
