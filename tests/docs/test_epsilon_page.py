"""The page "What does epsilon buy": its formulas are the library's, and hold for simulated releases."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from itertools import product
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Page, sync_playwright

from ptklib import HistoricalStatistics
from tests.services.chromium import executable
from tests.support.node import node
from tests.support.plugins.lacking import needs

GRID = list(product((100, 1_000, 55_000, 10**8), (1, 24, 90), (0.01, 0.3, 1.0, 10.0), (1, 7)))
"""Rows, keys, epsilon, rows of a unit; a key has at least one row."""


@pytest.fixture(scope="module")
def library(repository: Path) -> ModuleType:
    spec = spec_from_file_location("epsilon_page", repository / "docs" / "epsilon.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown(script: Path, given: list[tuple[float, ...]]) -> dict[str, list[float]]:
    """What the page's formulas answer, in Node."""
    called = (
        f"require({json.dumps(str(script))}); const given = {json.dumps(given)};"
        "const all = Object.entries(globalThis.epsilonFormulas);"
        "const found = all.map(([name, formula]) => [name, given.map((one) => formula(...one))]);"
        "process.stdout.write(JSON.stringify(Object.fromEntries(found)));"
    )
    ended = subprocess.run([node(), "-e", called], capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, list[float]] = json.loads(ended.stdout)
    return found


def test_the_page_computes_what_the_library_computes(repository: Path, library: ModuleType) -> None:
    found = shown(repository / "docs" / "assets" / "epsilon.js", [tuple(one) for one in GRID])
    assert set(found) == set(library.FORMULAS)
    for name, formula in library.FORMULAS.items():
        assert found[name] == pytest.approx([formula(*one) for one in GRID], rel=1e-9), name


def test_its_table_is_the_one_that_the_formulas_make(repository: Path, library: ModuleType) -> None:
    page = (repository / "docs" / "epsilon.md").read_text()
    assert "\n" + "\n".join(library.table()) + "\n" in page


def test_it_asks_nothing_of_another_machine(repository: Path) -> None:
    page = (repository / "docs" / "epsilon.md").read_text()
    script = (repository / "docs" / "assets" / "epsilon.js").read_text()
    addresses = set(re.findall(r"\w+://[^\s\"']+", page + script))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of the format, not a place
    assert not re.search(r"\b(fetch|XMLHttpRequest|import|WebSocket|sendBeacon)\b\s*\(", script)


def _rows(keys: int, each: int, seed: int) -> pd.DataFrame:
    """Values at either bound, as the formulas assume."""
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {"key": np.repeat(np.arange(keys), each), "x": random.integers(0, 2, keys * each) * 1.0}
    )


@pytest.mark.parametrize(("keys", "each", "epsilon"), [(200, 300, 0.1), (200, 300, 1.0), (400, 500, 0.05)])
def test_counts_and_means_are_off_by_what_it_says(
    library: ModuleType, keys: int, each: int, epsilon: float
) -> None:
    n, domains = keys * each, {"key": range(keys)}
    counted = HistoricalStatistics(domains=domains, statistics="count", epsilon=epsilon).fit(
        _rows(keys, each, 1)
    )
    noise = counted.tables_["statistics"]["count"].to_numpy() - each
    promised = library.count_error(n, keys, epsilon)
    assert np.sqrt(np.mean(noise**2)) / each == pytest.approx(promised, rel=0.35)
    means = []
    for seed in range(4):
        fitted = HistoricalStatistics(domains=domains, bounds={"x": (0, 1)}, epsilon=epsilon)
        table = fitted.fit(_rows(keys, each, seed)).tables_["statistics"]
        ratio = table["x_sum"].to_numpy() / np.maximum(
            table["count"].to_numpy(), 1.0
        )  # not drawn to the others
        means.append(np.abs(np.clip(ratio, 0, 1) - 0.5).mean())
    assert (
        0.3 * library.mean_error(n, keys, epsilon)
        < np.mean(means)
        < 1.1 * library.mean_error(n, keys, epsilon)
    )


@pytest.mark.parametrize(("keys", "each", "epsilon"), [(200, 300, 0.3), (200, 300, 2.0), (100, 2_000, 0.05)])
def test_medians_are_off_by_what_it_says(library: ModuleType, keys: int, each: int, epsilon: float) -> None:
    """Uniform values, whose bins are exact: what the noisy bins say of the share of rows below the middle."""
    misses = []
    for seed in range(4):
        rows = _rows(keys, each, seed)
        rows["x"] = np.random.default_rng(seed).random(len(rows))
        fitted = HistoricalStatistics(
            domains={"key": range(keys)},
            bounds={"x": (0, 1)},
            statistics=("count", "quantiles"),
            epsilon=epsilon,
        ).fit(rows)
        table = fitted.tables_["statistics"]
        bins = np.column_stack([table[f"x_bin_{i}"].to_numpy() for i in range(32)])
        misses.append(np.abs(bins[:, :16].sum(axis=1) / np.maximum(bins.sum(axis=1), 1.0) - 0.5).mean())
    promised = library.median_error(keys * each, keys, epsilon)
    assert 0.5 * promised < np.mean(misses) < 1.25 * promised


@pytest.fixture
def page(repository: Path, tmp_path: Path) -> Iterator[Page]:
    """The page's raw part in a browser, opened from a file as by somebody without a network."""
    text = (repository / "docs" / "epsilon.md").read_text()
    raw = re.search(r"<div id=\"epsilon-sliders\".*</script>", text, re.DOTALL)
    assert raw is not None
    (tmp_path / "assets").mkdir()
    script = (repository / "docs" / "assets" / "epsilon.js").read_bytes()
    (tmp_path / "assets" / "epsilon.js").write_bytes(script)
    (tmp_path / "epsilon.html").write_text(f"<!doctype html><meta charset=utf-8><title>e</title>{raw[0]}")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable(), args=["--no-sandbox"])
        opened = browser.new_page(offline=True)
        wrong: list[str] = []
        opened.on("console", lambda said: wrong.append(said.text))
        opened.on("pageerror", lambda error: wrong.append(str(error)))
        opened.goto((tmp_path / "epsilon.html").as_uri())
        yield opened
        browser.close()
    assert wrong == []


@pytest.mark.real
@pytest.mark.skipif(executable() is None, reason=needs("chromium", "apt-get install chromium"))
def test_its_sliders_move_the_numbers(page: Page, library: ModuleType) -> None:
    for name, value in {"rows": "4", "keys": "1", "epsilon": "-1", "unit": "1"}.items():
        page.locator(f"input[name={name}]").fill(value)
    for name, formula in library.FORMULAS.items():
        said = page.locator(f"[data-error={name}]").inner_text().removesuffix(" %")
        assert float(said) / 100 == pytest.approx(formula(10_000, 10, 0.1, 10), rel=0.06), name
    assert page.locator("#epsilon-plot polyline").count() == 3
    label = page.locator("#epsilon-plot").get_attribute("aria-label") or ""
    assert label.startswith("Expected error at epsilon 0.1: count ")
