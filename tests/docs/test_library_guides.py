"""What the guides of the library show runs as it is written, on rows like those they name."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ptklib import ReleasedState


def blocks(repository: Path, page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (repository / "docs" / "guide" / page).read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    n, random = 2_000, np.random.default_rng(1)
    trips = {
        "fare": random.uniform(0, 100, n),
        "distance": random.uniform(0, 30, n),
        "minutes": random.uniform(0, 60, n),
        "hour": random.integers(0, 24, n),
        "passengers": random.integers(0, 6, n),
        "trip_distance": random.uniform(0, 30, n),
        "weekday": random.integers(0, 7, n),
        "pickup_zone_id": random.integers(1, 266, n),
        "zone": random.integers(1, 266, n),
        "long": random.random(n) > 0.5,
        "pickup_longitude": random.uniform(-74.05, -73.75, n),
        "pickup_latitude": random.uniform(40.6, 40.9, n),
    }
    requests = {
        "hour": random.integers(0, 24, n),
        "user_agent": [f"agent {i}" for i in random.integers(0, 50, n)],
        "site": [f"site {i}" for i in random.integers(0, 5, n)],
    }
    ratings = pd.DataFrame(
        {"user_id": random.integers(1, 944, n), "movie_id": random.integers(1, 1683, n)}
    ).drop_duplicates()
    return {
        "trips": pd.DataFrame(trips),
        "requests": pd.DataFrame(requests),
        "impressions": pd.DataFrame({**requests, "click": random.integers(0, 2, n)}),
        "ratings": ratings,
        "own_rows": ratings.head(50),
        "rows": ratings.head(50),
    }


@pytest.mark.parametrize(
    "page",
    [
        "clustering",
        "counts",
        "covariance",
        "draw_discard",
        "embeddings",
        "linear",
        "sgd",
        "statistics",
        "trees",
    ],
)
def test_the_example_of_a_family_runs_and_its_state_is_saved_and_loaded(
    repository: Path,
    page: str,
    tables: dict[str, pd.DataFrame],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    shown: dict[str, Any] = {**tables, "ReleasedState": ReleasedState}
    exec(blocks(repository, f"{page}.md")[0], shown)  # noqa: S102
    text = (repository / "docs" / "guide" / f"{page}.md").read_text()
    (save,) = re.findall(r"`(\w+\.to_state\(\)\.save\(.*?\))`", text)
    (load,) = re.findall(r"`(\w+\.from_state\(ReleasedState\.load\(.*?\)\))`", text)
    eval(save, shown)  # noqa: S307
    loaded = eval(load, shown)  # noqa: S307
    assert loaded.tables_ == shown[save.partition(".")[0]].tables_


def test_the_example_of_validation_runs(repository: Path, tables: dict[str, pd.DataFrame]) -> None:
    n = len(tables["trips"])
    shown: dict[str, Any] = {**tables, "hashes": np.random.default_rng(2).integers(0, 2**64, n, np.uint64)}
    exec("\n".join(blocks(repository, "validation.md")), shown)  # noqa: S102
    assert shown["verdict"].decision == "accept"
    assert shown["reject"].decision == "reject"


def test_the_numbers_beside_profiles_that_are_public_are_those_that_come_out(repository: Path) -> None:
    sampled, _, formula, *_ = blocks(repository, "profiling.md")
    shown: dict[str, Any] = {}
    exec(sampled[: sampled.index("profile = profiler.run")], shown)  # noqa: S102
    assert f"population_needed()    # {shown['profiler'].population_needed()} " in sampled
    exec(formula[: formula.index("formula_profile(speeds")], shown)  # noqa: S102
    lines = formula.splitlines()
    promised = [(line, after.removeprefix("# ")) for line, after in pairwise(lines) if after.startswith("# ")]
    assert len(promised) == 2
    for call, answer in promised:
        points = eval(call, shown)  # noqa: S307
        assert [(epsilon, found.n) for epsilon, found in points] == [
            (float(epsilon), int(n)) for epsilon, n in re.findall(r"\(([\d.]+), Found\((\d+)\)\)", answer)
        ]


def test_the_example_of_the_librarys_page_runs(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    examples = re.findall(r"```python\n(.*?)```", (repository / "ptklib/README.md").read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec("\n".join(examples), {})  # noqa: S102
    assert (tmp_path / "speeds" / "state.json").exists()
    assert capsys.readouterr().out.startswith("0.5\n")
