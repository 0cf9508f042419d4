"""The page of a PTK: what a version says, by whom it may be read, what changed, where it comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from ptkstore.console.glossary import GLOSSARY, glossary_page
from ptkstore.console.site import site_address
from ptkstore.console.value_charts import HEIGHT, Value, value_chart
from ptkstore.domain.identity import Role
from ptkstore.ports.row_processes import RunFailed
from tests.architecture.source import REPOSITORY
from tests.support.api_server import Api
from tests.support.console_pages import HOSTILE, seen, signed_in

PAGE = "/console/ptks/taxi.speed"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with Api(tmp_path_factory.mktemp("home")) as api:
        api.world.stream()
        api.world.register(epsilon=0.3)
        api.world.publish(0)
        api.world.publish(1)
        api.world.register("late", epsilon=0.01)
        yield api


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A version, a training that failed, and one whose code this program does not know; and a site of the docs."""
    with Api(tmp_path_factory.mktemp("failed"), docs_url="https://docs.example.org/ptk") as api:
        world = api.world
        world.stream(retention_windows=9)
        world.register()
        world.publish(0)
        for day, code in ((1, "memory-limit"), (2, "newer-than-this")):
            world.trainer.failing = RunFailed(code)
            world.publish(day)
        world.trainer.failing = None
        api.identity.create_team("strangers_with_grant")
        api.grant("strangers_with_grant", "taxi", Role.CONSUMER)
        yield api


def rows(page: httpx.Response) -> list[list[str]]:
    """The cells of the table of the state."""
    assert page.status_code == 200
    table = page.text.partition('aria-label="Rows of statistics"')[2].partition("</table>")[0]
    return [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in table.split("<tr>")[2:]]


def searched(client: httpx.Client, **form: str) -> httpx.Response:
    """The page after its form was sent."""
    key = seen(client.get("/console/")).fields["form_key"]
    return client.post(PAGE, data={"form_key": key, **form})


def test_a_page_shows_the_newest_state_with_its_noise(api: Api) -> None:
    page = signed_in(api).get(PAGE)
    content, files = api.world.service.ptk_version("taxi.speed", 2)
    noise = content["state"]["noise_std"]["statistics"]["count"]
    assert files
    assert len(rows(page)) == 24
    text = re.sub(r"\s+", " ", seen(page).text)
    assert "What it says version 2" in text
    assert f"count ± {noise:.3g}" in text
    assert f"two standard deviations of the noise ({noise:.4g})" in text
    assert page.text.count('class="error"') == 24
    assert "(0.3, 0)-differentially private" in text
    assert "by a factor of at most e^0.3 = 1.35." in text
    assert "ptk lookup taxi__speed:count hour=8" in text


def test_rows_are_searched_and_sorted(api: Api) -> None:
    client = signed_in(api)
    found = rows(searched(client, find="1"))
    assert [row[0] for row in found] == ["1", *map(str, range(10, 20)), "21"]
    down = rows(client.get(PAGE, params={"sort": "count", "order": "down", "version": "1"}))
    counts = [float(row[1]) for row in down]
    assert counts == sorted(counts, reverse=True)
    assert len(set(counts)) > 1
    assert down != rows(client.get(PAGE, params={"sort": "count", "order": "down", "version": "2"}))
    assert "speed_mean" in client.get(PAGE, params={"plot": "speed_mean"}).text
    for odd in ({"sort": "none"}, {"table": "none"}, {"plot": "hour"}, {"version": "x"}, {"version": "²"}):
        assert len(rows(client.get(PAGE, params=odd))) == 24, odd
    assert "none of the newest 2 versions" in client.get(PAGE, params={"version": "9"}).text
    nothing = searched(client, find=HOSTILE)
    assert "No key contains that." in nothing.text
    assert seen(nothing).fields["find"] == HOSTILE
    assert not {"script", "img"} & set(seen(nothing).tags)


def test_what_is_searched_for_is_in_no_address(api: Api) -> None:
    client = signed_in(api)
    page = client.get(PAGE, params={"find": "17"})
    assert len(rows(page)) == 24
    assert "does not belong into an address" in page.text
    assert seen(page).fields["find"] == ""
    assert '<form method="post" action="/console/ptks/taxi.speed#says"' in page.text
    assert 'method="get"' not in page.text
    assert "does not belong into an address" not in client.get(PAGE).text
    found = searched(client, find="17", version="1", sort="count", order="down", plot="speed_mean")
    assert [row[0] for row in rows(found)] == ["17"]
    assert "What it says version 1" in re.sub(r"\s+", " ", seen(found).text)
    assert "does not belong into an address" not in found.text


def test_a_search_takes_the_form_of_the_session_and_the_roles_of_the_page(api: Api) -> None:
    client = signed_in(api)
    for form in ({"find": "1"}, {"find": "1", "form_key": "x" * 43}):
        assert client.post(PAGE, data=form).status_code == 403
    answer = api.client().post(PAGE, data={"find": "1"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/login")
    assert "Your roles do not read states." in searched(signed_in(api, Role.PRODUCER), find="1").text
    assert searched(signed_in(api, team="strangers"), find="1").status_code == 404


def test_changes_between_versions_are_shown(api: Api) -> None:
    client = signed_in(api)
    text = re.sub(r"\s+", " ", seen(client.get(f"{PAGE}/diff?one=1&other=2")).text)
    assert "24 rows in both versions, 0 added, 0 dropped." in text
    assert "newest_contributing_window" in text
    assert 'href="/console/ptks/taxi.speed/diff?one=1&amp;other=2"' in client.get(PAGE).text
    for odd in ("one=2&other=1", "one=2&other=2"):
        assert "Choose two different versions" in client.get(f"{PAGE}/diff?{odd}").text
    assert client.get("/console/ptks/taxi.late/diff").status_code == 200


def test_states_are_for_those_who_may_read_them(api: Api) -> None:
    producer = signed_in(api, Role.PRODUCER)
    text = producer.get(PAGE).text
    assert "Your roles do not read states." in text
    assert 'class="error"' not in text
    assert producer.get(f"{PAGE}/diff?one=1&other=2").status_code == 403
    stranger = signed_in(api, team="strangers")
    assert {stranger.get(path).status_code for path in (PAGE, f"{PAGE}/diff?one=1&other=2")} == {404}


def test_a_page_shows_where_a_version_comes_from(api: Api) -> None:
    text = re.sub(r"\s+", " ", seen(signed_in(api).get(PAGE, params={"version": "1"})).text)
    assert "windowstaxi2026-01-05 to 2026-01-06" in text
    assert "Feast viewtaxi__speed3 features" in text
    late = seen(signed_in(api).get("/console/ptks/taxi.late")).text
    assert "No version yet" in late
    assert "No version to trace." in late


def test_trainings_say_why_they_made_no_version(failed: Api) -> None:
    page = signed_in(failed).get(PAGE)
    cells = re.findall(r'data-label="Cause" class="wide">(.*?)</td>', page.text)
    text = [re.sub(r"<[^>]*>", "", cell) for cell in cells]
    assert text == [
        "newer-than-this",
        "It took more memory than PTK_TRAIN_MEMORY_MIB allows. memory-limit",
        "",
    ]
    links = re.findall(
        r'<a href="([^"]*)" rel="noreferrer" aria-label="The documentation about memory-limit">', page.text
    )
    assert links == ["https://docs.example.org/ptk/guide/operate.html#what-owners-are-told"]
    assert "Only the team" in signed_in(failed, team="strangers_with_grant").get(PAGE).text


def test_words_lead_to_the_glossary_where_they_are_used_first(failed: Api, api: Api) -> None:
    glossary = "https://docs.example.org/ptk/glossary.html"
    for path in (PAGE, "/console/streams/taxi", "/console/ptks/taxi.speed/lookup", "/console/"):
        text = signed_in(failed).get(path).text
        linked = re.findall(
            rf'<a class="term" href="{glossary}#([a-z-]+)" rel="noreferrer" title="[^"]+">([^<]+)</a>', text
        )
        assert len(linked) == len({word for _, word in linked}), path
        explained = {word for _, word in linked} | set(
            re.findall(r'<dfn class="term"[^>]*>([^<]+)</dfn>', text)
        )
        assert explained == {word for _, word in linked}, path
    text = signed_in(failed).get(PAGE).text
    assert f'href="{glossary}#target"' in text
    assert f'href="{glossary}#spend"' in text
    plain = signed_in(api).get(PAGE).text
    assert 'class="term" href' not in plain
    assert '<dfn class="term" tabindex="0" title="' in plain


@pytest.mark.parametrize("word", [*GLOSSARY, "train-0", "train-12"])
def test_the_glossary_has_each_word_of_the_console(word: str) -> None:
    if word == "train":
        assert glossary_page(word) == ""
        return
    page, _, anchor = glossary_page(word).partition("#")
    assert f'<a id="{anchor}">' in (REPOSITORY / page).read_text(encoding="utf-8")


def test_addresses_on_the_site() -> None:
    assert site_address("https://d.example.org/", "docs/a/b.md#c") == "https://d.example.org/a/b.html#c"
    assert site_address("https://d.example.org", "docs/a.md") == "https://d.example.org/a.html"
    for base, page in (
        (None, "docs/a.md"),
        ("", "docs/a.md"),
        ("https://d", "README.md"),
        ("https://d", "docs/a.py"),
    ):
        assert site_address(base, page) == "", (base, page)
    assert glossary_page("no such word") == ""


def test_a_chart_has_values_errors_zero_and_target_on_one_scale() -> None:
    drawn = value_chart([Value("a", 1.0, 0.5, 1.5, "a"), Value("b", 2.0, 2.0, 2.0, "b")], target=4.0)
    assert drawn is not None
    assert (drawn.top, drawn.bottom, drawn.zero, drawn.target) == ("4", "0", HEIGHT, 0.0)
    assert [(one.top, one.height) for one in drawn.marks] == [(100.0, 40.0), (80.0, 0.0)]
    assert drawn.marks[0].x + drawn.marks[0].width <= drawn.marks[1].x
    flat = value_chart([Value("a", 7.0, 7.0, 7.0, "a")])
    assert flat is not None
    assert 0.0 <= flat.marks[0].y <= HEIGHT
    assert value_chart([Value("a", float("nan"), 0.0, 1.0, "a")]) is None
    assert value_chart([]) is None
