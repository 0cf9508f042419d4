"""The page of a PTK: what a version says, by whom it may be read, what changed, where it comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from ptklib.doc_pages import site_address
from ptkstore.console.glossary import GLOSSARY, glossary_page
from ptkstore.console.graphs import Graph
from ptkstore.console.pages import ptks
from ptkstore.console.pages.lineage_graphs import lineage_graph
from ptkstore.console.pages.origins import Origins
from ptkstore.console.value_charts import HEIGHT, Value, value_chart
from ptkstore.domain.identity import Role
from ptkstore.ports.row_processes import RunFailed
from ptkstore.sdk.documents.lineage import Ancestor
from tests.architecture.source import REPOSITORY
from tests.support.api_server import Api
from tests.support.builders import ptk_spec
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


def test_a_page_reads_the_newest_of_a_long_history_alone(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptks, "VERSIONS_SHOWN", 1)
    service, client, read = api.world.service, signed_in(api, Role.DEVELOPER), dict[str, Any]()

    def noting(name: str) -> None:
        call = getattr(service, name)

        def noted(*asked: Any, **more: Any) -> Any:
            read[name] = more
            return call(*asked, **more)

        monkeypatch.setattr(service, name, noted)

    for name in ("versions", "evaluations", "validations"):
        noting(name)
    assert client.get(PAGE).status_code == 200
    assert read == {
        "versions": {"after": 1, "limit": 1},
        "evaluations": {"after": 1},
        "validations": {"newest": ptks.VERDICTS_SHOWN},
    }


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
    assert "stream taxi hour, speed; 2026-01-05 to 2026-01-06" in text
    assert "Feast view taxi__speed 3 features from taxi.speed v2" in text
    late = seen(signed_in(api).get("/console/ptks/taxi.late")).text
    assert "No version yet" in late
    assert "No version to trace." in late


def vertices(page: httpx.Response) -> list[tuple[str, str]]:
    """The name of each node of the graph, with the page that it leads to."""
    drawing = page.text.partition('<svg class="graph"')[2].partition("</svg>")[0]
    found = re.findall(r'<(?:a href="([^"]*)"|g role="img") aria-label="([^"]*)"', drawing)
    assert drawing.count("<title>") == len(found)
    return [(name, href) for href, name in found]


def traced(page: httpx.Response) -> dict[str, str]:
    """What the text form says of where each thing comes from."""
    rows = page.text.partition('<ul class="rows traced">')[2].partition("</ul>")[0].split("<li>")[1:]
    texts = [re.sub(r"<[^>]*>", "", row).strip() for row in rows]
    named = [re.findall(r"<(?:strong|a[^>]*)>([^<]*)</", row)[0] for row in rows]
    return {
        name: text.rpartition("from ")[2] if "from " in text else ""
        for name, text in zip(named, texts, strict=True)
    }


def test_the_graph_leads_from_the_stream_to_who_is_told(api: Api) -> None:
    made, _ = api.world.service.subscribe_to_ptk(
        "taxi.speed", "http://127.0.0.1:9/hook?key=s3cret", team="taxi"
    )
    try:
        other, _ = api.world.service.subscribe_to_ptk("taxi.late", "http://127.0.0.1:9/other", team="taxi")
        page = signed_in(api).get(PAGE, params={"version": "1"})
        assert other.id not in page.text
        assert vertices(page) == [
            ("stream taxi: hour, speed; 2026-01-05 to 2026-01-06", "/console/streams/taxi"),
            ("PTK taxi.speed: HistoricalStatistics, ε 0.3 per training", ""),
            ("version taxi.speed v1: older version", "/console/ptks/taxi.speed?version=1"),
            ("version taxi.speed v2: newest version", "/console/ptks/taxi.speed?version=2"),
            ("Feast view taxi__speed: 3 features", ""),
            (f"subscription {made.id}: ok", f"/console/subscriptions/{made.id}"),
        ]
        assert traced(page) == {
            "taxi": "",
            "taxi.speed": "taxi",
            "taxi.speed v1": "taxi.speed",
            "taxi.speed v2": "taxi.speed v1",
            "taxi__speed": "taxi.speed v2",
            made.id: "taxi__speed",
        }
        assert "s3cret" not in page.text
        assert made.id not in signed_in(api, Role.DEVELOPER, team="strangers_with_a_role").get(PAGE).text
        producer = vertices(signed_in(api, Role.PRODUCER).get(PAGE))
        assert [name for name, _ in producer] == [
            "stream taxi: hour, speed",
            "PTK taxi.speed: HistoricalStatistics, ε 0.3 per training",
            "Feast view taxi__speed: 3 features",
        ]
    finally:
        api.world.service.unsubscribe(made.id)


def ancestor(name: str, *made_from: str, decision: str = "elected") -> Ancestor:
    ptk_id, _, number = name.partition(" v")
    return Ancestor(ptk_id, int(number), decision, "", made_from, intact=True)


def graph_of(layers: tuple[tuple[Ancestor, ...], ...], **more: Any) -> Graph:
    origins = Origins("2026-01-05", "2026-01-06", "taxi", layers, cut=more.pop("cut", False))
    given = {"spec": ptk_spec(), "columns": [], "newest": {"version": 9}, "shown": 9, "subscriptions": []}
    given |= {"origins": origins, "may": lambda kind, name: True}
    return lineage_graph(**{**given, **more})


def test_a_long_history_is_drawn_in_bounds() -> None:
    own = ptk_spec().ptk_id
    chain = tuple(
        (ancestor(f"{own} v{number}", *([f"{own} v{number - 1}"] if number > 1 else [])),)
        for number in range(1, 9)
    )
    graph = graph_of(chain)
    rows = {node.title: sources for node, sources in graph.rows}
    assert rows["4 earlier versions"] == (own,)
    assert rows[f"{own} v5"] == ("4 earlier versions",)
    assert rows[f"{own} v9"] == (f"{own} v8",)
    assert len(graph.boxes) == 8  # with the stream, the PTK and the earlier ones
    wide = (tuple(ancestor(f"other.p{number} v1") for number in range(40)),)
    graph = graph_of(wide)
    assert {node.title for node, _ in graph.rows} >= {"other.p0 v1", "other.p1 v1", "38 more versions"}
    rows = {node.title: sources for node, sources in graph.rows}
    assert set(rows[f"{own} v9"]) == {"other.p0 v1", "other.p1 v1", "38 more versions", own}
    told = [{"id": f"sub_{number:016x}", "status": "active"} for number in range(500)]
    assert len(graph.boxes) == 6
    assert len(graph_of((), subscriptions=told).boxes) == 6
    assert "498 more" in {node.title for node, _ in graph_of((), subscriptions=told).rows}
    assert "earlier versions" in {node.title for node, _ in graph_of((), cut=True).rows}


def test_what_may_not_be_read_is_named_and_leads_nowhere() -> None:
    layers = ((ancestor("other.p v1", decision="unknown"), ancestor("other.q v1")),)
    nodes = {node.title: node for node, _ in graph_of(layers, may=lambda kind, name: kind == "stream").rows}
    assert (nodes["other.p v1"].note, nodes["other.p v1"].href) == ("not to be read", "")
    assert nodes["other.q v1"].href == ""
    nodes = {node.title: node for node, _ in graph_of(layers).rows}
    assert (nodes["other.p v1"].href, nodes["other.q v1"].href) == ("", "/ptks/other.q?version=1")


def test_streams_that_test_and_versions_to_begin_with_lead_to_the_ptk() -> None:
    config = {
        "start_from": {"ptk": "other.q", "version": 3},
        "accept": {"metric": "loss", "epsilon": 0.1, "stream": "labelled"},
    }
    graph = graph_of((), spec=replace(ptk_spec(), config=config))
    rows = {node.title: sources for node, sources in graph.rows}
    assert rows[ptk_spec().ptk_id] == (ptk_spec().stream, "labelled", "other.q v3")


def test_versions_are_drawn_by_time_and_a_rollback_is_told_apart(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api:
        world = api.world
        world.stream(retention_windows=9)
        world.register()
        world.publish(0)
        one = signed_in(api).get(PAGE).text
        assert "history" not in one
        for days in (1, 2):
            world.clock.pass_(days=days)
            world.publish(days)
        world.service.rollback_ptk("taxi.speed", 1)
        world.work("place", "flip")
        text = signed_in(api).get(PAGE).text
    drawing = text.partition('<figure class="values history">')[2].partition("</figure>")[0]
    marks = re.findall(r'<g class="([a-z-]+)"><title>([^<]*)</title><rect x="([0-9.]+)"', drawing)
    assert [(kind, label) for kind, label, _ in marks] == [
        ("elected", "version 1, 2026-02-04: elected"),
        ("elected", "version 2, 2026-02-05: elected"),
        ("elected", "version 3, 2026-02-07: elected"),
        ("rolled-back", "version 4, 2026-02-07: rolled back to version 1"),
    ]
    assert [float(x) for _, _, x in marks] == [0.0, pytest.approx(634 / 3, abs=0.01), 634.0, 634.0]
    assert "rolled back, with the state of an older version" in drawing


def test_versions_that_were_published_at_once_are_drawn_in_their_order(api: Api) -> None:
    text = signed_in(api).get(PAGE).text
    assert re.findall(r'<g class="elected"><title>version (\d), [^<]*</title><rect x="([0-9.]+)"', text) == [
        ("1", "0.0"),
        ("2", "634.0"),
    ]
    assert 'class="values history"' not in signed_in(api, Role.PRODUCER).get(PAGE).text


def test_trainings_say_why_they_made_no_version(failed: Api) -> None:
    page = signed_in(failed).get(PAGE)
    cells = re.findall(r'data-label="Cause" class="wide">(.*?)</td>', page.text)
    text = [re.sub(r"<[^>]*>", "", cell) for cell in cells]
    assert text == [
        "newer-than-this",
        "It needed more memory than PTK_TRAIN_MEMORY_MIB allows. memory-limit",
        "",
    ]
    links = re.findall(
        r'<a href="([^"]*)" rel="noreferrer" aria-label="The documentation about memory-limit">', page.text
    )
    assert links == ["https://docs.example.org/ptk/reference/codes.html#memory-limit"]
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
    assert [(one.text, one.y) for one in drawn.ticks] == [
        ("0", HEIGHT),
        ("1", 120.0),
        ("2", 80.0),
        ("3", 40.0),
        ("4", 0.0),
    ]
    far = value_chart([Value("a", 1_400.0, 1_092.0, 1_616.0, "a")])
    assert far is not None
    assert (far.zero, [one.text for one in far.ticks]) == (None, ["1,200", "1,400", "1,600"])
    flat = value_chart([Value("a", 7.0, 7.0, 7.0, "a")])
    assert flat is not None
    assert 0.0 <= flat.marks[0].y <= HEIGHT
    large = value_chart([Value("a", 1e300, 1e300, 1e300, "a")])
    assert large is not None
    assert 0.0 <= large.marks[0].y <= HEIGHT
    assert value_chart([Value("a", 5e-324, 0.0, 5e-324, "a")]) is not None
    assert value_chart([Value("a", float("nan"), 0.0, 1.0, "a")]) is None
    assert value_chart([]) is None


def test_a_page_says_how_old_its_newest_version_is_and_which_rows_are_in_it(api: Api) -> None:
    text = re.sub(r"\s+", " ", seen(signed_in(api).get(PAGE)).text)
    assert re.search(
        r"newest version ?\d+, (under a minute|\d+ \w+) old ?rows in it ?2026-01-05 to 2026-01-\d\d", text
    )
