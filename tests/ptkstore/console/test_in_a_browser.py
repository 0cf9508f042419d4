"""The console in a real browser: signing in, every page, by keyboard, on a phone, in the dark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ptkstore.domain.identity import Role
from ptkstore.domain.scheduling.choices import Scheduler
from ptkstore.domain.subscriptions import DeadLetter
from ptkstore.ports.row_processes import RunFailed
from tests.services.chromium import Chromium, executable
from tests.support.api_server import Api
from tests.support.plugins.lacking import needs
from tests.support.world import DAY, ORIGIN, STREAM, trips

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(executable() is None, reason=needs("chromium", "apt-get install chromium")),
]
PAGES = (
    *("", "streams/taxi", "ptks", "ptks/taxi.speed", "deliveries", "streams/rides/queue"),
    "streams/rides/simulation?rate=0.5&windows=20&seed=1&scheduler=conserve&scheduler=guided",
)
LEAST_CONTRAST = 4.5  # WCAG AA for text
DESCRIPTION = "Mean speed by hour of the day. <script>document.title='taken'</script>"

# Every piece of text with its colour and the one behind it.
COLOURS = """
(() => {
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const clear = c => c === 'rgba(0, 0, 0, 0)' || c === 'transparent';
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), at = walker.currentNode.parentElement;
    if (!text || at.closest('title, .skip') || !at.getClientRects().length) continue;
    const style = getComputedStyle(at), svg = at.closest('svg');
    let behind = svg ? svg.parentElement : at;
    while (behind && clear(getComputedStyle(behind).backgroundColor)) behind = behind.parentElement;
    const ground = getComputedStyle(behind || document.body).backgroundColor;
    found.push([text.slice(0, 40), svg ? style.fill : style.color, ground]);
  }
  return found;
})()
"""


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
        world.register(epsilon=0.35, description=DESCRIPTION)
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
                uow.commit()
        yield api


@pytest.fixture(scope="module")
def browser(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """A browser that has signed in as people do."""
    with Chromium(tmp_path_factory.mktemp("profile")) as browser:
        browser.size(1_100, 800)
        browser.go(f"{api.url}/console/")
        assert browser.run("location.pathname") == "/console/login"
        browser.submit("main form", token="ptk_" + "0" * 16 + "_" + "x" * 43)
        assert "not valid" in browser.run("document.body.innerText")
        browser.submit("main form", token=api.token(*Role))
        assert browser.run("location.pathname") == "/console/"
        yield browser


def kept(browser: Chromium, name: str) -> None:
    """Leave a picture where CONSOLE_PICTURES says, for people to look at."""
    folder = os.environ.get("CONSOLE_PICTURES")
    if folder:
        Path(folder, f"{name}.png").write_bytes(browser.picture())


@pytest.mark.long
def test_the_session_is_out_of_reach_of_scripts_and_other_sites(browser: Chromium, api: Api) -> None:
    browser.go(f"{api.url}/console/")
    (session,) = (one for one in browser.cookies() if one["name"] == "ptk_session")
    assert (session["httpOnly"], session["sameSite"], session["path"]) == (True, "Strict", "/console")
    assert browser.run("document.cookie") == ""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1_100, 390, 360])
@pytest.mark.parametrize("page", PAGES)
def test_every_page_can_be_read_by_everybody(
    browser: Chromium, api: Api, page: str, width: int, scheme: str
) -> None:
    browser.size(width, 800)
    browser.scheme(scheme)
    browser.go(f"{api.url}/console/{page}")
    kept(browser, f"{page.partition('?')[0].replace('/', '-') or 'overview'}-{width}-{scheme}")
    assert browser.run("document.documentElement.scrollWidth") <= width  # wide tables scroll by themselves
    if width < 500:  # a row of a table is a card there
        assert browser.run(
            "[...document.querySelectorAll('.scroll')].every(s => s.scrollWidth <= s.clientWidth)"
        )
        unnamed = "main tbody tr > :not([data-label]):not([colspan])"
        assert browser.run(f"document.querySelectorAll('{unnamed}').length") == 0
    assert browser.run("document.documentElement.lang") == "en"
    assert browser.run("document.querySelectorAll('h1').length") == 1
    assert browser.run("document.querySelectorAll('main table th:not([scope])').length") == 0
    assert browser.run("[...document.querySelectorAll('svg')].every(s => s.getAttribute('aria-label'))")
    weak = [(text, round(contrast(ink, ground), 2)) for text, ink, ground in browser.run(COLOURS)]
    assert [one for one in weak if one[1] < LEAST_CONTRAST] == []
    assert browser.run("document.title") != "taken"
    refused = [e for e in browser.events if e.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown")]
    assert refused == []  # nothing that the policy had to stop


def test_the_signing_in_page_can_be_read_by_everybody(api: Api, tmp_path: Path) -> None:
    with Chromium(tmp_path) as other:
        other.size(390, 700)
        for scheme in ("light", "dark"):
            other.scheme(scheme)
            other.go(f"{api.url}/console/")
            kept(other, f"login-390-{scheme}")
            weak = [(text, contrast(ink, ground)) for text, ink, ground in other.run(COLOURS)]
            assert [one for one in weak if one[1] < LEAST_CONTRAST] == []
            assert other.run("document.activeElement.id") == "token"


def test_pages_are_walked_by_keyboard_with_a_mark_where_one_is(browser: Chromium, api: Api) -> None:
    browser.size(1_100, 800)
    browser.scheme("light")
    browser.go(f"{api.url}/console/")
    places = []
    for _ in range(4):
        browser.press("Tab")
        places.append(browser.run("document.activeElement.innerText.trim()"))
        assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert places == ["Skip to the content", "PTK store", "Overview", "PTKs"]


def test_a_word_is_explained_when_the_keyboard_reaches_it(browser: Chromium, api: Api) -> None:
    browser.size(1_100, 800)
    browser.scheme("light")
    browser.go(f"{api.url}/console/streams/{STREAM}")
    shown = "getComputedStyle(document.querySelector('.facts .term'), '::after').content"
    assert browser.run(shown) == "none"
    for _ in range(12):
        browser.press("Tab")
        if browser.run("document.activeElement.className") == "term":
            break
    assert browser.run("document.activeElement.textContent") == "block"
    assert browser.run(shown).strip('"') == browser.run("document.activeElement.title")
    assert "privacy budget of its own" in browser.run("document.activeElement.title")


def test_the_lines_of_a_queue_stand_for_who_waited_when(browser: Chromium, api: Api) -> None:
    browser.size(1_100, 800)
    browser.go(f"{api.url}/console/streams/rides/queue")
    drawn: Any = browser.run(
        "[...document.querySelectorAll('svg.wait')].map(s => [s.querySelector('title').textContent, "
        "s.querySelector('.waited').width.baseVal.value > 0, s.querySelectorAll('.retried').length])"
    )
    assert [(title.partition(":")[0], waited, retries) for title, waited, retries in drawn] == [
        ("taxi.served", True, 0),
        ("taxi.waits_long", True, 1),
    ]


def test_a_simulation_is_asked_for_by_the_form(browser: Chromium, api: Api) -> None:
    browser.size(1_100, 800)
    browser.go(f"{api.url}/console/streams/rides")
    browser.submit("form.asks", windows="10")
    assert browser.run("location.pathname") == "/console/streams/rides/simulation"
    assert "10 windows" in browser.run("document.querySelector('main').innerText")
    assert browser.run("document.querySelectorAll('main tbody tr').length") == 3


def test_the_bars_stand_for_the_budget(browser: Chromium, api: Api) -> None:
    browser.size(1_100, 800)
    browser.go(f"{api.url}/console/streams/{STREAM}")
    titles: list[str] = browser.run("[...document.querySelectorAll('.chart title')].map(t => t.textContent)")
    assert "2026-01-05, train-0: 0.55 spent, 0 reserved of 1, active" in titles
    assert "2026-01-19, train-0: 0 spent, 0.8 reserved of 1, active" in titles
    heights: Any = browser.run(
        "[...document.querySelectorAll('.chart g')]"
        ".map(g => [...g.querySelectorAll('rect')].map(r => r.height.baseVal.value))"
    )
    assert len(titles) == len(heights) == 15  # of the windows; nothing was lost of the other parts
    assert [round(h, 2) for h in heights[0]] == [140, 77, 0]
    assert "Nothing is lost or promised of: profile, test." in browser.run("document.body.innerText")


def channels(colour: str) -> tuple[float, ...]:
    return tuple(float(part) for part in colour.partition("(")[2].rstrip(")").split(","))[:3]


def luminance(colour: str) -> float:
    parts = [c / 255 for c in channels(colour)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """The contrast of two colours as WCAG 2 has it."""
    dark, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dark + 0.05)
