"""The papers' scenarios as scripts: quick runs on generated rows and, where they are, on real ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

pytestmark = pytest.mark.long

LINES = ["No PTK", "NP PTK", "PTK 1"]
QUICK = ["--seeds", "1", "--epsilons", "1"]


@pytest.fixture(scope="module", autouse=True)
def scenarios(repository: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(repository / "examples" / "scenarios"))
        yield


@pytest.fixture(autouse=True)
def one_split(monkeypatch: pytest.MonkeyPatch, scenarios: None) -> None:
    """Models choose by one split of their rows, however few: what is chosen is no matter here, but time is."""
    monkeypatch.setattr(import_module("_common.models"), "FEW_ROWS", 0)


FIGURES = {"sharing": ["sharing_cabs", "sharing_bikes"]}


def measured(name: str, out: Path, *arguments: str) -> list[dict[str, Any]]:
    """Run a scenario as its command line does; what it saved, checked for its form."""
    assert import_module(name).main([*arguments, *QUICK, "--out", str(out)]) == 0
    plots = sorted(out.glob("*.svg"))
    assert {plot.stem for plot in plots} <= set(FIGURES.get(name, [name]))
    drawn = [plot.read_text() for plot in plots]
    assert all(plot.lstrip().startswith("<?xml") and len(plot) < 150_000 for plot in drawn)
    found: list[dict[str, Any]] = json.loads((out / f"{name}.json").read_text())
    best: dict[str, list[float]] = {}
    for task in found:
        assert task["lines"][: len(LINES)] == LINES
        assert sum(task["task"] in plot for plot in drawn) == 1
        losses = np.array(task["losses"])
        assert losses.shape == (len(task["lines"]), len(task["rows"]), 1)
        assert np.isfinite(losses).all()
        assert (losses > 0).all()
        assert task["rows"] == sorted(set(task["rows"]))
        assert task["rows"][0] >= 100
        best.setdefault(task["group"] or task["task"], []).append(float(losses[1].mean(axis=-1).min()))
    assert all(t["best"] == pytest.approx(min(best[t["group"] or t["task"]])) for t in found)
    return found


@pytest.mark.parametrize(
    ("name", "n_tasks"), [("retention", 1), ("sharing", 12), ("feature_store", 3), ("embeddings", 2)]
)
def test_a_scenario_runs_on_generated_rows(
    name: str, n_tasks: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = measured(name, tmp_path, "--generated", "1500", "--fractions", "0.4")
    assert len(found) == n_tasks
    printed = capsys.readouterr().out
    for task in found:
        assert task["rows"] == [round(0.4 * task["n_train_rows"])]
        text = printed[printed.index(task["task"]) :]
        header = next(line for line in text.splitlines() if line.startswith("|"))
        assert [cell.strip() for cell in header.strip("|").split("|")] == ["share", "rows", *task["lines"]]
        assert f"trained on {task['n_ptk_rows']:,} rows" in text
        without = re.search(r"^\| +0\.4 \|[^|]*\| +([\d.]+) ±", text, re.MULTILINE)
        assert without is not None
        assert float(without[1]) == pytest.approx(task["losses"][0][0][0] / task["best"], abs=5e-4)
    if name == "sharing":
        each_kind_of_ptk_has_a_panel_of_its_own(found)
        assert all(task["lines"][-1] == "PTKs of no trips" for task in found)


def each_kind_of_ptk_has_a_panel_of_its_own(found: list[dict[str, Any]]) -> None:
    for group in ("green cabs", "fares", "bike durations"):
        panels = [task for task in found if task["group"] == group]
        assert [task["task"] for task in panels] == [
            f"{group}, by {ptks}" for ptks in ("statistics", "trees", "both")
        ]
        assert len({tuple(task["losses"][0][0]) for task in panels}) == 1
        assert len({tuple(task["losses"][1][0]) for task in panels}) == 3
        assert [("Statistics" in task["ptk"], "Tree" in task["ptk"]) for task in panels] == [
            (True, False), (False, True), (True, True),
        ]  # fmt: skip


def test_the_profiles_cover_all_six_families(tmp_path: Path) -> None:
    name, out = "profiles", ["--out", str(tmp_path)]
    assert import_module(name).main(["--generated", "1200", *QUICK, "--fractions", "0.3", "1", *out]) == 0
    found = json.loads((tmp_path / "profiles.json").read_text())
    assert {p["family"] for p in found} == {
        "counts", "trees", "embeddings", "covariance", "statistics", "clusters",
    }  # fmt: skip
    assert all(np.array(p["losses"]).shape == (1, 2, 1) for p in found)
    assert "embeddings" in (tmp_path / "profiles.svg").read_text()


def test_counts_of_a_long_past_help_a_task_with_few_rows() -> None:
    clicks, curves, losses, retention = (
        import_module(n) for n in ("_common.clicks", "_common.curves", "_common.losses", "retention")
    )
    log = clicks.generate(40_000)
    task = retention.task_of(log, log.categories)
    (few,) = curves.nested_rows(len(task.train), (240,), seed=0)
    train, clicked = task.train.iloc[few], task.test[task.label].to_numpy()
    without = task.model(()).fit(train, train[task.label].to_numpy())
    featurize = task.train_ptk(1.0)
    score = LogisticRegression().fit(featurize(train)[["score"]], train[task.label])
    own, counted = (
        losses.log_loss(clicked, model.predict_proba(rows)[:, 1]).mean()
        for model, rows in ((without, task.test), (score, featurize(task.test)[["score"]]))
    )
    # 240 rows of its own against 24,000 counted. In 40 runs .9158 with a standard deviation of .0011: the noise of
    # some thousand cells is summed, so that .95 is more than 30 deviations away.
    assert counted < 0.95 * own


def test_a_scenario_without_rows_says_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        import_module("sharing").main([])
    assert "--generated" in capsys.readouterr().err


def test_shares_are_nested_and_the_same_for_a_seed() -> None:
    curves = import_module("_common.curves")
    first, second = (curves.nested_rows(1000, (100, 300, 1000), seed=3) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
    assert set(first[0]) < set(first[1]) < set(first[2]) == set(range(1000))
    assert list(first[0]) != list(curves.nested_rows(1000, (100,), seed=4)[0])
    assert curves.shares_of(1000, (0.01, 0.1, 1.0)) == (100, 1000)
    with pytest.raises(SystemExit):
        curves.shares_of(1000, (0.01,))


def test_rows_of_ptk_task_and_test_are_apart_and_in_the_order_of_time() -> None:
    trips, sharing, store = (import_module(n) for n in ("_common.trips", "sharing", "feature_store"))
    zones = trips.Zones.generated()
    yellow = trips.generate(1500, zones, 150, 1, "2016-01-01")
    past, own, later = store.by_month(yellow)
    assert len(past) + len(own) + len(later) == len(yellow)
    assert past["time"].max() < own["time"].min() <= own["time"].max() < later["time"].min()
    fares = trips.generate(1500, zones, 31, 3, "2016-01-01")
    task, *others = sharing.fare_tasks(yellow, fares)
    assert task.train["time"].max() < task.test["time"].min()
    assert task.n_ptk_rows < (yellow["time"] < task.test["time"].min()).sum() + 1
    for again in (*others, *sharing.fare_tasks(yellow, fares)):
        pd.testing.assert_frame_equal(task.train, again.train)
        pd.testing.assert_frame_equal(task.test, again.test)
        assert task.n_ptk_rows == again.n_ptk_rows
    assert not set(task.train.index) & set(task.test.index)


def test_stations_of_earlier_rides_are_known_from_rides_before_the_task() -> None:
    trips, sharing = import_module("_common.trips"), import_module("sharing")
    yellow = trips.generate(1500, trips.Zones.generated(), 150, 1, "2016-01-01")
    rides = trips.generate_bikes(1500, 150, 4, "2017-11-01")
    cabs, earlier = sharing.bike_destination_tasks(yellow, rides)
    pd.testing.assert_frame_equal(cabs.train, earlier.train)
    pd.testing.assert_frame_equal(cabs.test, earlier.test)
    assert cabs.n_ptk_rows == len(yellow)
    assert earlier.n_ptk_rows == (rides["time"] < earlier.train["time"].min().normalize()).sum()
    assert earlier.train["time"].max() < earlier.test["time"].min()


def test_whoever_chooses_what_a_task_is_to_be_sees_no_test_row() -> None:
    curves = import_module("_common.curves")
    rows = pd.DataFrame({"time": [3, 1, 2, 4, 8, 5, 7, 6]})
    task = curves.Task("a", "b", "c", 0, rows.iloc[:4], rows.iloc[4:], "time", None, None, None, order="time")
    chosen = task.without_test_rows()
    assert (list(chosen.train["time"]), list(chosen.test["time"])) == ([1, 2, 3], [4])


def test_a_duration_starts_from_what_is_expected_when_that_is_all_there_is() -> None:
    models = import_module("_common.models")
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"hour": rng.integers(0, 3, 400), "miles": rng.normal(size=400)})
    rows["expected_by_time"] = 5 * rng.normal(size=400) ** 3
    y = rows["expected_by_time"] + 0.1 * rows["hour"] + rng.normal(0, 0.01, 400)
    fitted = models.Blend(["hour"], ["miles"], ["expected_by_time"]).fit(rows[:200], y[:200])
    assert fitted.form_ == "start"
    assert np.sqrt(np.mean((fitted.predict(rows[200:]) - y[200:]) ** 2)) < 0.02
    own = models.Blend(["hour"], ["miles"]).fit(rows[:200], y[:200])
    assert (own.form_, np.mean((own.predict(rows[200:]) - y[200:]) ** 2) > 1) == ("columns", True)


def test_unknown_numbers_count_as_the_mean_and_new_categories_as_none() -> None:
    models = import_module("_common.models")
    rows = pd.DataFrame({"hour": [1, 5], "age": [20.0, 40.0]})
    encode = models.Encoder(rows, ["hour"], ["age"])
    np.testing.assert_array_equal(encode(rows), [[1, 0, -1], [0, 1, 1]])
    np.testing.assert_array_equal(encode(pd.DataFrame({"hour": [7], "age": [np.nan]})), [[0, 0, 0]])


def test_the_candidate_of_least_loss_on_held_out_rows_is_chosen() -> None:
    models, losses = import_module("_common.models"), import_module("_common.losses")
    rows = pd.DataFrame({"x": np.arange(100.0)})
    candidates = {"line": LinearRegression(), "mean": DummyRegressor()}
    fitted = models.Chosen(candidates, losses.squared_error).fit(rows, 2 * rows["x"])
    assert fitted.chosen_ == "line"
    np.testing.assert_allclose(fitted.predict(rows), 2 * rows["x"], atol=1e-9)


def test_log_probabilities_of_a_ptk_enter_the_score_of_their_station() -> None:
    destinations, losses = import_module("_common.destinations"), import_module("_common.losses")
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(5, 0.3), 1200)
    y = (rng.random(1200)[:, None] > np.cumsum(p, axis=1)[:, :4]).sum(axis=1)
    names = [f"to_{i}" for i in range(5)]
    rows = pd.DataFrame(0.4 * np.log(np.maximum(p, 1e-4)), columns=names)  # too timid: its weight is 1 / 0.4
    rows = rows.assign(hour=rng.integers(0, 3, 1200), age=rng.normal(size=1200))
    loss = {}
    for features in ((), names):
        model = destinations.DestinationModel(["hour"], ["age"], 5, features).fit(rows[:900], y[:900])
        probabilities = model.predict_proba(rows[900:])
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
        loss[bool(features)] = losses.log_loss_of_many(y[900:], probabilities).mean()
    assert loss[True] < losses.log_loss_of_many(y[900:], p[900:]).mean() + 0.05 < loss[False] - 0.3
    np.testing.assert_allclose(losses.log_loss_of_many(np.array([1.0]), np.array([[0.75, 0.25]])), np.log(4))


def test_a_page_gets_the_measured_tables_and_keeps_the_rest(tmp_path: Path) -> None:
    measured("retention", tmp_path / "results", "--generated", "1500", "--fractions", "0.5")
    page = tmp_path / "page.md"
    place = "<!-- table: {} -->\nold\n<!-- end of table -->\n"
    page.write_text("words\n" + place.format("retention: generated clicks") + place.format("other") + "end\n")
    assert import_module("tables").main([str(tmp_path / "results"), str(page)]) == 0
    text = page.read_text()
    assert re.search(r"\| share \| rows \|.*\n.*\n\| +0\.5 \| +150 \| +[+-]\d", text)
    assert text.startswith("words\n<!-- table: retention: generated clicks -->\n**Retention: generated")
    assert text.endswith(place.format("other") + "end\n")
    assert (tmp_path / "figures" / "retention.svg").exists()


def test_the_page_shows_every_scenario_and_all_six_families(repository: Path) -> None:
    page = (repository / "docs" / "usefulness.md").read_text()
    names = re.findall(r"<!-- table: (.+?) -->\n(?=\*\*).*?\n\n\| ", page)
    assert len(names) == len(set(names)) == page.count("<!-- end of table -->")
    assert {"counts", "trees", "embeddings", "covariance", "statistics", "clusters"} < set(names)
    for figure in re.findall(r"\]\((figures/.+?)\)", page):
        assert (repository / "docs" / figure).exists(), figure


def test_new_users_of_the_embedding_tasks_are_in_no_training_row() -> None:
    embeddings, ratings = import_module("embeddings"), import_module("_common.ratings")
    for task in embeddings.tasks(*ratings.generate(1500)):
        assert not set(task.train["user_id"]) & set(task.test["user_id"])


def test_a_choice_has_an_item_its_user_did_not_rate() -> None:
    ratings = import_module("_common.ratings")
    rated = ratings.generate(1500)[0]
    rows = ratings.choices(rated, seed=0)
    pairs = set(zip(rated["user_id"], rated["item_id"], strict=True))
    drawn = rows[rows["chosen"] == 0]
    assert len(drawn) > len(rated) // 4
    assert not pairs & set(zip(drawn["user_id"], drawn["item_id"], strict=True))


def test_gains_are_relative_to_no_ptk_and_losses_to_the_best_non_private_run() -> None:
    curves = import_module("_common.curves")
    rows = np.array([[[2.0, 4.0]], [[1.0, 3.0]], [[1.5, 3.5]]])  # lines, shares, test rows
    found = curves.Curves(None, tuple(LINES), (100,), rows.mean(axis=-1)[..., None], rows, {}, best=2.0)
    np.testing.assert_allclose(found.normalised[:, 0, 0], [1.5, 1.0, 1.25])
    assert found.gain("NP PTK", 0) == pytest.approx((100 / 3, 0.0))


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("retention", {"avazu": "avazu_10k"}),
        (
            "sharing",
            {
                "yellow": "nyc_yellow_taxi_2016",
                "zones": "nyc_taxi_zones",
                "fares": "nyc_taxi_fares_latlon_jan2016",
            },
        ),
        ("feature_store", {"yellow": "nyc_yellow_taxi_2016", "zones": "nyc_taxi_zones"}),
        ("embeddings", {"books": "douban_book_ratings", "music": "douban_music_ratings"}),
    ],
)
def test_a_scenario_reads_the_public_originals(
    name: str, files: dict[str, str], real_data: Path, tmp_path: Path
) -> None:
    paths = {option: real_data / f"{file}.parquet" for option, file in files.items()}
    for path in paths.values():
        if not path.exists():
            pytest.skip(f"there is no {path}")
    options = [word for option, path in paths.items() for word in (f"--{option}", str(path))]
    found = measured(name, tmp_path, *options, "--fractions", "0.1")
    assert all(task["n_ptk_rows"] > 4_000 for task in found)
    assert all(task["rows"] == [round(0.1 * task["n_train_rows"])] for task in found)
