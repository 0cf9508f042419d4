"""The page of a PTK at its limits: what is promised in words, errors against targets, states that cannot be shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from ptkstore.application.states import diff_versions, state_tables
from ptkstore.application.states.diff_versions import ColumnDiff, TableDiff, VersionDiff
from ptkstore.console.pages import diffs, ptks
from ptkstore.console.pages.pages import Pages
from ptkstore.domain.identity import Role
from ptkstore.errors import UnknownName
from tests.support.api_server import Api
from tests.support.builders import ptk_spec
from tests.support.console_pages import seen, signed_in

PAGE = "/console/ptks/taxi.speed"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Two versions, and a PTK whose states are tested and do not pass."""
    with Api(tmp_path_factory.mktemp("home")) as api:
        world = api.world
        world.stream(retention_windows=9, rows_per_window=4_000)
        world.register(epsilon=0.2)
        test = {"accept": {"metric": "loss", "epsilon": 0.2}}
        world.register("tested", epsilon=0.2, config=test, target=1e-9)
        for day in (0, 1, 2):
            world.ingest([day + number / 4_000 for number in range(4_000 if day < 2 else 1)])
            world.publish(day)
            world.work("validate")
        world.register("untold", epsilon=0.2, config=test, target=1e-9)
        world.publish(3)
        world.work("validate")
        yield api


def verdict(window: int, estimate: float | None, bound: float = 0.5, metric: str = "loss") -> dict[str, Any]:
    said = {"window": window, "decision": "retry", "metric": metric, "estimate": estimate}
    return {**said, "bound": bound, "target": 0.25}


def test_errors_of_verdicts_are_drawn_against_their_target() -> None:
    judged = [verdict(2, 0.3, 0.4), verdict(1, None), verdict(0, 0.4, 0.6), verdict(0, 0.9, metric="error")]
    errors = ptks._errors(judged, {}, ptk_spec())  # the newest first, as the table has them
    assert errors is not None
    assert errors["target"] == 0.25
    labels = [one.label for one in errors["chart"].marks]
    assert labels == ["window 0, retry: 0.4, bound 0.6", "window 2, retry: 0.3, bound 0.4"]
    height = 160.0  # from 0 at the bottom to 0.6, the greatest bound
    assert errors["chart"].target == pytest.approx(height * (0.6 - 0.25) / 0.6, abs=0.01)
    assert "loss of each verdict" in errors["about"]
    assert ptks._errors([verdict(0, None)], {}, ptk_spec()) is None


def test_without_verdicts_estimates_of_versions_are_drawn() -> None:
    estimates: dict[int, dict[str, Any]] = {
        2: {"loss": 0.5, "standard_error": 0.1},
        3: {"loss": None, "standard_error": None},
        1: {"loss": 0.7, "standard_error": 0.1},
    }
    errors = ptks._errors([], estimates, ptk_spec())
    assert errors is not None
    assert [one.label for one in errors["chart"].marks] == ["version 1: 0.7 ± 0.1", "version 2: 0.5 ± 0.1"]
    assert errors["target"] is None  # nobody says that it is in the unit of the loss
    assert ptks._errors([], {}, ptk_spec()) is None


def test_the_page_draws_verdicts_and_their_target_for_those_who_may_read_them(api: Api) -> None:
    page = signed_in(api).get("/console/ptks/taxi.tested")
    part = page.text.partition('<h2 id="error">')[2].partition("</section>")[0]
    assert 'class="goal"' in part
    assert "the target 1e-09" in part
    assert re.findall(r"<title>(window \d+), retry: ", part) == ["window 0", "window 1"]
    untold = signed_in(api).get("/console/ptks/taxi.untold").text
    assert "No verdict has an estimate yet" in untold
    assert "Nothing is known" not in untold
    assert "The trained state did not pass its test." in page.text
    hidden = signed_in(api, Role.PRODUCER).get("/console/ptks/taxi.tested").text
    part = hidden.partition('<h2 id="error">')[2].partition("</section>")[0]
    assert "Your roles do not read states." in part
    assert "<svg" not in part
    assert 'aria-label="Verdicts"' not in hidden


def test_versions_are_listed_from_the_newest_down(api: Api) -> None:
    text = signed_in(api).get(PAGE).text
    assert re.findall(r'<a href="\?version=(\d+)#says">', text) == ["4", "3", "2", "1"]


def test_a_damaged_file_of_the_lake_is_told_as_such(api: Api) -> None:
    content, _ = api.world.service.ptk_version("taxi.speed", 1)
    (name,) = (one["name"] for one in content["files"])
    (file,) = (
        one
        for one in api.world.service.settings.root.joinpath("lake").rglob(name)
        if "taxi" in str(one) and "1" in str(one)
    )
    whole = file.read_bytes()
    try:
        file.chmod(0o600)
        file.write_bytes(whole[:-1] + b"x")
        page = signed_in(api).get(PAGE, params={"version": "1"})
    finally:
        file.write_bytes(whole)
    assert page.status_code == 200
    assert "does not hold what was published" in seen(page).text
    assert "Lineage" in page.text


def test_versions_that_are_too_large_are_compared_elsewhere(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_tables, "BYTES_MOST", 10)
    client = signed_in(api)
    assert "too large to be compared on a page" in client.get(f"{PAGE}/diff?one=1&other=2").text
    assert "too large for a page" in client.get(PAGE).text


@pytest.mark.parametrize("bound", ["ROWS_MOST", "CELLS_MOST"])
def test_versions_with_too_many_keys_are_compared_elsewhere_however_small_their_files(
    api: Api, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    client = signed_in(api)
    monkeypatch.setattr(diff_versions, bound, 24 if bound == "ROWS_MOST" else 96)  # exactly its table
    assert "24 rows in both versions" in client.get(f"{PAGE}/diff?one=1&other=2").text
    monkeypatch.setattr(diff_versions, bound, 23 if bound == "ROWS_MOST" else 95)
    page = seen(client.get(f"{PAGE}/diff?one=1&other=2")).text
    assert "too large to be compared on a page" in page
    assert "To compare them in full: ptk diff taxi.speed 1 2." in page
    assert "rows in both versions" not in page


def test_a_page_of_changes_says_how_many_columns_and_tables_it_leaves_out() -> None:
    names = tuple(f"c{number}" for number in range(diffs.COLUMNS_SHOWN + 3))
    changed = tuple(ColumnDiff(name, 1, 1.0, 1.0) for name in names)
    tables = tuple(
        TableDiff(f"t{number}", 0, 0, 1, names[:12], names[:2], changed)
        for number in range(diffs.TABLES_SHOWN + 2)
    )
    shown = diffs.shown_diff(VersionDiff("taxi.speed", (1, 2), {}, tables))
    assert (len(shown["tables"]), shown["more_tables"]) == (diffs.TABLES_SHOWN, 2)
    table = shown["tables"][0]
    assert (len(table["columns"]), table["n_columns"]) == (diffs.COLUMNS_SHOWN, diffs.COLUMNS_SHOWN + 3)
    assert table["added"] == ", ".join([*names[:10], "2 more"])
    assert table["dropped"] == "c0, c1"


def test_a_page_of_changes_that_leaves_some_out_says_so(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diffs, "COLUMNS_SHOWN", 1)
    text = seen(signed_in(api).get(f"{PAGE}/diff?one=1&other=2")).text
    assert "The first 1 of 3 columns; ptk diff compares all." in text
    monkeypatch.setattr(diffs, "TABLES_SHOWN", 0)
    assert (
        "1 more table; ptk diff compares all." in seen(signed_in(api).get(f"{PAGE}/diff?one=1&other=2")).text
    )


def test_the_manifest_of_a_version_of_others_is_read_for_nobody_else(api: Api) -> None:
    pages = Pages(api.world.service, api.identity, lambda: ({}, ()), lambda: True)
    ours, theirs = (api.identity.identify(api.token(team=team)) for team in ("taxi", "strangers"))
    assert pages._manifest(ours, "taxi.speed", 1)["version"] == 1
    with pytest.raises(UnknownName):
        pages._manifest(theirs, "taxi.speed", 1)
