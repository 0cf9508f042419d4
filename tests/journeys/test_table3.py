"""The paper's Table 3 as a script: profiles, allocations and trainings of the 13 PTKs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ptkstore.domain.accounting.accountants import Accountant, admits, caps_of

pytestmark = pytest.mark.long

MENU = ((0.02, 300), (0.05, 200), (0.2, 50))
"""13 times .05 fits an epsilon of 1, whatever the accountant."""


@pytest.fixture(scope="module", autouse=True)
def scenarios(repository: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(repository / "examples" / "scenarios"))
        yield


@pytest.fixture
def known_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every PTK is known to need few rows: what a profile finds in some rows is left to chance, this is not."""
    profiled = import_module("_common.profiled")

    class Known(profiled.Profiles):  # type: ignore[name-defined]
        def menu(self, ptk: Any, level: str, target: float | None = None) -> Any:
            return MENU

    monkeypatch.setattr(profiled, "profiles", lambda ptks, rows: Known({}, {}))
    monkeypatch.setattr(import_module("_common.team"), "BOUND_ROUNDS", 5)
    monkeypatch.setattr(import_module("_common.models"), "FEW_ROWS", 0)


def cabs(n_rows: int) -> pd.DataFrame:
    trips, thirteen = import_module("_common.trips"), import_module("_common.thirteen")
    found: pd.DataFrame = thirteen.with_keys(
        trips.generate(n_rows, trips.Zones.generated(), 60, 1, "2016-01-01")
    )
    return found


def wishes(menus: Sequence[Sequence[tuple[float, int]]]) -> list[Any]:
    """So many PTKs in the order of the 13, again and again."""
    allocated, thirteen = import_module("_common.allocated"), import_module("_common.thirteen")
    ptks = thirteen.ptks()
    return [allocated.Wish(f"ptk {i}", ptks[i % len(ptks)], tuple(menu)) for i, menu in enumerate(menus)]


def test_the_thirteen_are_nine_statistics_two_clusterings_and_two_pcas() -> None:
    thirteen = import_module("_common.thirteen")
    ptks = thirteen.ptks()
    assert [ptk.kind for ptk in ptks] == [thirteen.STATISTICS] * 9 + [thirteen.CLUSTERS] * 2 + [
        thirteen.PCA
    ] * 2
    assert len({ptk.name for ptk in ptks}) == 13
    assert all(0 < ptk.targets["tight"] < ptk.targets["loose"] < 0.5 for ptk in ptks)


def test_all_profiles_of_a_stream_cost_less_than_its_profile_set_has() -> None:
    profiled, thirteen = import_module("_common.profiled"), import_module("_common.thirteen")
    ptks = thirteen.ptks()
    assert profiled.cost(ptks) == pytest.approx(9 * 0.015 + 2 * 0.4 + 2 * 0.02 + 0.01)
    assert profiled.cost(ptks) < 1
    assert profiled.drawn(ptks) == pytest.approx(
        profiled.cost(ptks) + 2 * 0.4
    )  # for a second level of targets
    for ptk in ptks:
        if ptk.kind == thirteen.CLUSTERS:
            for level in thirteen.LEVELS:
                assert profiled.profiler(ptk, level).declared_loss().epsilon <= profiled.LOSSES[ptk.kind]


@pytest.mark.parametrize("accountant", list(Accountant))
def test_grants_fit_the_filter_of_every_partition(accountant: Accountant) -> None:
    allocated = import_module("_common.allocated")
    base = [200 + 37 * i % 400 for i in range(26)]
    asked = wishes([[(e, round(b / e)) for e in (0.01, 0.03, 0.1, 0.3)] for b in base])
    found = allocated.allocation(asked, accountant, partitions=3, n_max=10**6, bound_rounds=20)
    caps = caps_of(accountant, allocated.CAPACITY)
    sums: dict[int, Any] = {}
    deltas: dict[int, int] = {}
    most: dict[int, int] = {}
    for wish, allotment in zip(asked, found.plan.allotments, strict=True):
        (epsilon,) = (e for e, n in wish.menu if n == allotment.n_rows)
        spec = allocated.canonical_json(wish.ptk.estimator.to_spec())
        loss, charge = allocated._charged(spec, epsilon, accountant)
        assert allotment.loss.epsilon_nano == loss.epsilon_nano
        k = allotment.partition
        sums[k] = np.add(sums.get(k, 0), charge.amounts)
        deltas[k] = deltas.get(k, 0) + charge.delta_atto
        most[k] = max(most.get(k, 0), allotment.n_rows)
    assert all(admits(caps, list(sums[k]), deltas[k]) for k in sums)
    assert found.rows == sum(most.values()) == sum(found.plan.caps)
    assert found.bound <= found.rows <= found.first_rows


def test_the_first_feasible_plan_is_that_of_the_least_k() -> None:
    allocated = import_module("_common.allocated")
    asked = wishes([[(0.6, 100)], [(0.6, 100)]])
    one = allocated.allocation(asked[:1], Accountant.BASIC, partitions=2, n_max=10**6)
    two = allocated.allocation(asked, Accountant.BASIC, partitions=2, n_max=10**6)
    assert (one.first.partitions_used, one.first_rows) == (1, 100)
    assert (two.first.partitions_used, two.first_rows) == (2, 200)
    dear = allocated.allocation(
        wishes([[(0.4, 1000), (0.9, 100)]] * 2), Accountant.BASIC, partitions=2, n_max=10**6
    )
    assert (dear.first.partitions_used, dear.first_rows, dear.rows) == (1, 1000, 200)
    none = allocated.allocation(asked, Accountant.BASIC, partitions=1, n_max=10**6)
    assert (none.rows, none.first_rows, none.allotments()) == (None, None, {})


def test_partitions_share_no_row_and_a_smaller_grant_lies_within_a_larger_one() -> None:
    allocated = import_module("_common.allocated")
    window = allocated.Window(cabs(20_000).reset_index(names="row"), 20_000)
    split = window.split()
    n_max = window.n_train
    found = allocated.allocation(
        wishes([[(0.6, 6000)], [(0.6, 4000)], [(0.2, 1000)]]), Accountant.BASIC, partitions=2, n_max=n_max
    )
    rows = [set(split.granted(allotment, found.plan.caps)["row"]) for allotment in found.plan.allotments]
    assert sorted(found.plan.caps) == [4000, 6000]
    assert not rows[0] & rows[1]
    assert rows[2] < rows[found.plan.allotments[2].partition]
    profile, _ = split.profile_set(["row"]).sample(split.profile_set(["row"]).hashes)
    assert not set(profile["row"]) & (rows[0] | rows[1])
    for n, seen in zip((6000, 4000, 1000, 6000), (*rows, profile), strict=True):
        # Binomial: 7 standard deviations, so false once in 10**11.
        share = n / 20_000
        assert abs(len(seen) - n) < 7 * np.sqrt(20_000 * share * (1 - share))


def test_the_loss_of_a_place_is_its_squared_distance_in_parts_of_the_reach() -> None:
    thirteen = import_module("_common.thirteen")
    near = thirteen.NearCentres(["pickup_x", "pickup_y"])
    rows = pd.DataFrame({"pickup_x": [-74.0, -74.0, -74.0], "pickup_y": [40.7, 40.7 + 1.5 / 69, 41.7]})
    losses = near.of([np.array([-74.0, -73.9]), np.array([40.7, 40.7])], rows)
    np.testing.assert_allclose(losses, [0.0, 0.25, 1.0], atol=1e-12)


def test_the_script_measures_a_team_and_its_tables_go_into_a_page(
    known_profiles: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--generated", "2000", "--seeds", "1", "--fractions", "1", "--counts", "1", "20"]
    assert import_module("table3").main([*options, "--out", str(tmp_path)]) == 0
    saved = json.loads((tmp_path / "table3.json").read_text())
    tables = {record["table"]: record for record in saved if "table" in record}
    (task,) = (record for record in saved if "task" in record)
    plans = [f"{level}, {accountant}" for level in ("loose", "tight") for accountant in ("basic", "renyi")]
    assert task["lines"] == ["No PTK", "NP PTK", "PTK 1", *plans, "PTKs of no trips"]
    assert set(tables) == {
        "generated cabs: profiles",
        *(f"generated cabs: {line}" for line in plans),
        "generated cabs: loss over the best",
        "generated cabs: rows by PTKs, basic",
        "generated cabs: rows by PTKs, renyi",
    }
    for line in plans:
        *granted, total = tables[f"generated cabs: {line}"]["rows"]
        assert len(granted) == 13
        most: dict[str, int] = {}
        for row in granted:
            assert (float(row[4]), int(row[3])) in MENU
            most[row[5]] = max(most.get(row[5], 0), int(row[3]))
            assert float(row[6]) >= 0
        assert int(total[3]) == sum(most.values())
        assert int(total[5]) == len(most)
    penalties = tables["generated cabs: loss over the best"]["rows"]
    assert [row[1] for row in penalties].count("best") == 1
    assert {"table3_generated.svg", "table3_generated_rows.svg"} <= {p.name for p in tmp_path.iterdir()}
    printed = capsys.readouterr().out
    page = tmp_path / "page.md"
    place = "<!-- table: generated cabs: loose, basic -->\nold\n<!-- end of table -->\n"
    page.write_text(place)
    assert import_module("tables").main([str(tmp_path), str(page)]) == 0
    text = page.read_text()
    assert "**Generated cabs: loose, basic** (first feasible K = 1" in text
    shown = [line for line in text.splitlines() if line.startswith("|")]
    assert len(shown) == 13 + 3
    assert all(line in printed for line in shown)


def test_the_service_grants_what_its_manifests_say(tmp_path: Path) -> None:
    allocated, served, thirteen = (import_module(f"_common.{n}") for n in ("allocated", "served", "thirteen"))
    by_hour, *_, axes = thirteen.ptks()
    ptks = [replace(by_hour, targets={"loose": 0.45}), axes]
    window = allocated.Window(cabs(3000), 3000)
    found = served.served(ptks, "loose", window, 2)
    statistic, declared = found[by_hour.name], found[axes.name]
    partition = int(0.4 * 3000)
    assert declared.n_rows in (partition, partition - 1)
    assert declared.epsilon == pytest.approx(served.DECLARED)
    assert 1 <= statistic.n_rows < partition
    assert 0.01 <= statistic.epsilon <= 1
    assert statistic.rate == pytest.approx(statistic.n_rows / 3000)
    assert {statistic.partition, declared.partition} <= {0, 1}
    assert all(one.following.offer.n_rows <= partition for one in (statistic, declared))
    features = allocated.featurizer(ptks, {name: one.fitted for name, one in found.items()})(window.rows)
    assert list(features.columns) == ["expected_by_hour", "dropoff_axis_0", "dropoff_axis_1"]
    assert np.isfinite(features.to_numpy()).all()
    refused = served.served([replace(by_hour, targets={"loose": 1e-6})], "loose", window, 2)
    assert "needs more than the" in refused


def test_the_public_originals_are_profiled_or_refused_by_public_numbers(real_data: Path) -> None:
    files = [real_data / f"{n}.parquet" for n in ("nyc_green_taxi", "nyc_yellow_taxi_2016", "nyc_taxi_zones")]
    for path in files:
        if not path.exists():
            pytest.skip(f"there is no {path}")
    trips, table3, thirteen = (import_module(n) for n in ("_common.trips", "table3", "_common.thirteen"))
    team_type, errors = import_module("_common.team").Team, import_module("ptklib.exceptions")
    zones = trips.Zones.load(files[2])
    green, yellow = (thirteen.with_keys(table3.by_month(trips.load(path, zones))[0]) for path in files[:2])
    team = team_type.of("green", green)
    assert team.window.n_public == 450_000
    for ptk in team.ptks:
        if (
            ptk.kind != thirteen.CLUSTERS
        ):  # a formula needs so many rows, more at a smaller epsilon and for less error
            loose, tight = (dict(team.found.menu(ptk, level)) for level in ("loose", "tight"))
            assert min(loose) == min(tight) == 0.01
            assert all(tight[e] > loose[e] for e in set(loose) & set(tight))
    with pytest.raises(errors.InvalidParameterError, match="too small"):
        team_type.of("yellow", yellow)


def test_the_page_shows_tables_and_plots_that_were_measured(repository: Path) -> None:
    page = (repository / "docs" / "table3.md").read_text()
    names = re.findall(r"<!-- table: (.+?) -->\n(?=\*\*).*?\n\n\| ", page)
    assert len(names) == len(set(names)) == page.count("<!-- end of table -->")
    for level in ("loose", "tight"):
        assert {f"green cabs: {level}, {accountant}" for accountant in ("basic", "renyi")} <= set(names)
    figures = re.findall(r"\]\((figures/.+?)\)", page)
    assert len(figures) == 2
    for figure in figures:
        assert (repository / "docs" / figure).exists(), figure
