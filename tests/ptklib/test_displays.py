"""What notebooks show of estimators, states, profiles and forecasts: released values, escaped, with their noise."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn import config_context

from ptklib import CountFeaturizer, HistoricalStatistics, ReleasedState
from ptklib.base import DPEstimator
from ptklib.displays import BarDisplay, BudgetDisplay
from ptklib.displays.markup import section, table
from ptklib.exceptions import InvalidParameterError, UnmatchedWarning
from ptklib.profiling import error_forecast, formula_profile
from tests.support.families import EXAMPLES, Example, label_of, rows

HOSTILE = '$\\frac{$<img src=x onerror="alert(1)">&'


@pytest.fixture(autouse=True)
def _closed_figures() -> Iterator[None]:
    with matplotlib.rc_context({"backend": "agg"}):
        yield
        from matplotlib import pyplot

        pyplot.close("all")


def fitted(example: Example) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnmatchedWarning)
        return example.estimator.__sklearn_clone__().fit(rows(), label_of(example, rows()))


class Tags(HTMLParser):
    """The tags and the texts of some HTML; `open` is what was not closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_html_of_a_fit_is_a_function_of_the_released_state(example: Example) -> None:
    estimator = fitted(example)

    html = estimator._repr_mimebundle_()["text/html"]
    shown = estimator._released_html()

    assert html.endswith(shown)
    assert estimator._repr_html_().endswith(shown)
    assert shown == DPEstimator.from_state(estimator.to_state())._released_html()
    assert f'<td class="ptk-number">{estimator.privacy_spent_.epsilon:.6g}</td>' in shown
    read = Tags(shown)
    assert read.open == []
    assert read.seen == {
        "style", "section", "strong", "table", "caption", "thead", "tbody", "tr", "th", "td", "details", "summary",
    }  # fmt: skip
    assert "Released" in read.texts


def test_an_estimator_that_is_not_fitted_looks_as_scikit_learn_shows_it() -> None:
    estimator = EXAMPLES[0].estimator

    assert "ptk-shown" not in estimator._repr_html_()
    assert "ptk-shown" not in estimator._repr_mimebundle_()["text/html"]
    assert "sk-container" in estimator._repr_html_()


def test_where_scikit_learn_shows_text_there_is_no_html() -> None:
    estimator = fitted(EXAMPLES[0])

    with config_context(display="text"):
        assert not hasattr(estimator, "_repr_html_")
        assert set(estimator._repr_mimebundle_()) == {"text/plain"}


def test_hostile_values_of_a_domain_stay_text() -> None:
    counts = CountFeaturizer(
        ["zone"], "long", classes=(False, True), domains={"zone": [HOSTILE, "b"]}, epsilon=1.0
    )

    html = counts.fit(pd.DataFrame({"zone": [HOSTILE, "b"] * 50, "long": [True, False] * 50}))._repr_html_()

    assert "<img" not in html
    assert HOSTILE in "".join(Tags(counts._released_html()).texts)
    display = counts.plot()
    display.figure_.canvas.draw()  # a formula would fail here
    assert display.ax_.get_xticklabels()[0].get_text().startswith(r"\$\frac{\$<img")


def test_hostile_names_of_columns_and_families_stay_text() -> None:
    hostile = 'x"><script>alert(1)</script>'
    state = ReleasedState(
        {"t": pa.table({"k": [1], hostile: [2.0]})},
        {
            "format_version": 1,
            "family": "HistoricalStatistics",
            "params": {},
            "tables": {"t": {"keys": ["k"], "columns": [["k", "int64"], [hostile, "float64"]]}},
            "loss": {
                "epsilon": 1.0,
                "delta": 0.0,
                "event": {"name": "DiscreteLaplace", "scale": 1.0, "l1_sensitivity": 1},
            },
            "n_releases": 1,
            "noise_std": {"t": {hostile: 1.5}},
            "noise_variance": {},
            "defaults": {},
        },
        is_read=True,
    )

    assert "<script" not in state._repr_html_()
    assert hostile in Tags(state._repr_html_()).texts
    assert "<script" not in section(hostile, table(hostile, [hostile], [[hostile]]))


def test_the_table_names_the_noise_of_each_column() -> None:
    speeds = HistoricalStatistics(
        domains={"hour": range(4)}, bounds={"speed": (0, 60)}, statistics=("mean", "quantiles"), epsilon=1.0
    ).fit(rows())
    noise = speeds.noise_std_["statistics"]

    texts = Tags(speeds._released_html()).texts

    assert texts[texts.index("hour") + 1] == "none, it is a key"
    assert texts[texts.index("count") + 1] == f"{noise['count']:.6g}"
    assert texts[texts.index("speed_bin_0 … speed_bin_31 (32)") + 1] == f"{noise['speed_bin_0']:.6g}"
    assert texts[texts.index("speed_mean") + 1] == "no closed form"


def test_colours_are_those_of_the_theme() -> None:
    html = fitted(EXAMPLES[0])._released_html()

    colours = re.findall(r"(?:color|background)\s*:\s*([^;}]+)", html)

    assert set(colours) == {"inherit", "transparent"}
    assert re.findall(r"#[0-9a-fA-F]{3,6}\b|url\(|https?:", html) == []


# plots


@pytest.mark.parametrize(("delta", "kind"), [(0.0, "laplace"), (1e-6, "gaussian")])
def test_intervals_contain_the_true_value_95_times_of_100(delta: float, kind: str) -> None:
    n = 4000
    data = pd.DataFrame({"key": np.repeat(np.arange(n), 5), "value": 30.0})
    values = {f"value_{i}": 30.0 for i in range(1 if kind == "laplace" else 12)}
    counts = HistoricalStatistics(
        ["key"],
        list(values),
        domains={"key": range(n)},
        bounds=(0, 60),
        statistics=("sum",),
        epsilon=0.2,
        delta=delta,
    ).fit(data.assign(**values))
    assert (kind == "gaussian") == (counts.privacy_spent_.delta > 0)

    drawn = counts.plot(column="value_0_sum", rows=n)

    hits = np.abs(np.asarray(drawn.values) - 150.0) <= np.asarray(drawn.reach)
    assert 0.935 < hits.mean() < 0.965  # four standard deviations of a binomial are 0.014


def test_a_plot_is_a_display_of_released_values() -> None:
    speeds = fitted(EXAMPLES[0])

    display = speeds.plot()

    assert isinstance(display, BarDisplay)
    assert display.figure_ is display.ax_.figure
    assert list(display.labels) == ["0", "1", "2", "3"]
    assert list(display.values) == speeds.tables_["statistics"].column("count").to_pylist()
    other = speeds.to_state().plot(ax=display.ax_)
    assert other.ax_ is display.ax_
    assert list(other.reach or ()) == list(display.reach or ())


@pytest.mark.parametrize(("n", "named"), [(6, 6), (24, 24), (60, 60), (300, 60)])
def test_names_of_many_values_do_not_overlap(n: int, named: int) -> None:
    labels = [f"zone {number}, morning rush" for number in range(n)]
    title = (
        "statistics: count, first 60 of 300 rows, with 95 % of the noise and of what else there is to be said"
    )
    display = BarDisplay(labels, [1.0] * n, [0.5] * n, "count", title).plot()

    canvas = display.figure_.canvas
    canvas.draw()
    boxes = [one.get_window_extent(canvas.get_renderer()) for one in display.ax_.get_xticklabels()]
    assert named <= len(boxes) <= max(named, 75)
    assert not any(left.overlaps(right) for left, right in pairwise(boxes))
    drawn = display.ax_.title.get_window_extent(canvas.get_renderer())
    assert drawn.x0 >= 0
    assert drawn.x1 <= display.figure_.bbox.x1


def test_a_column_without_a_closed_form_has_no_intervals() -> None:
    display = fitted(EXAMPLES[0]).plot(column="speed_mean")

    assert display.reach is None
    assert display.ax_.get_title() == "statistics: speed_mean, noise without closed form"


def test_values_with_noise_of_their_own_have_intervals_of_their_own() -> None:
    counts = CountFeaturizer(
        ["hour"], "long", classes=(False, True), select={"hour": "int64"}, epsilon=4.0, delta=1e-4
    )
    first = counts.fit(rows(4000)).to_state()
    more = rows(4000).assign(hour=lambda table: table["hour"] + 2)
    twice = counts.fit(more, previous_state=first)

    display = twice.plot()

    own = twice.tables_["hour"].column("noise_std").to_pylist()
    assert len(set(own)) == 2
    assert display.reach == pytest.approx([2.12 * std for std in own])


def test_what_is_not_there_is_named() -> None:
    speeds = fitted(EXAMPLES[0])

    with pytest.raises(InvalidParameterError, match="no table 'nothing': there are 'statistics'"):
        speeds.plot("nothing")
    with pytest.raises(InvalidParameterError, match="no column of numbers in table 'statistics' 'hour'"):
        speeds.plot(column="hour")


def test_without_matplotlib_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    speeds = fitted(EXAMPLES[0])
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    with pytest.raises(ModuleNotFoundError, match=re.escape("pip install 'ptklib[plots]'")):
        speeds.plot()


@pytest.mark.long
def test_nothing_but_a_plot_loads_matplotlib() -> None:
    code = (
        "import sys, numpy as np, pandas as pd\n"
        "from ptklib import HistoricalStatistics\n"
        "from ptklib.profiling import error_forecast\n"
        "e = HistoricalStatistics('k', domains={'k': [0, 1]}, statistics='count', epsilon=1)\n"
        "e.fit(pd.DataFrame({'k': [0, 1] * 50}))._repr_html_()\n"
        "f = error_forecast(e, rows=[100])\n"
        "assert 'matplotlib' not in sys.modules\n"
        "f.plot()\n"
        "assert 'matplotlib' in sys.modules\n"
    )

    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_forecast_falls_with_rows_and_epsilon_and_reads_nothing() -> None:
    counts = HistoricalStatistics("hour", domains={"hour": range(24)}, statistics="count", epsilon=1.0)

    forecast = error_forecast(counts, rows=[1_000, 10_000], epsilons=[0.1, 1.0])

    (few_low, few_high), (many_low, many_high) = forecast.errors
    assert few_low > few_high > many_high
    assert few_low > many_low > many_high
    display = forecast.plot()
    assert [line.get_label() for line in display.ax_.get_lines()] == ["1,000 rows", "10,000 rows"]
    assert list(display.ax_.get_lines()[0].get_ydata()) == list(forecast.errors[0])
    assert "epsilon 0.1" in forecast._repr_html_()


def test_a_forecast_needs_a_formula_and_rows() -> None:
    counts = HistoricalStatistics("hour", domains={"hour": range(24)}, statistics="count", epsilon=1.0)

    with pytest.raises(InvalidParameterError, match="at least one number of rows"):
        error_forecast(counts, rows=[])
    with pytest.raises(InvalidParameterError, match="have no formula"):
        error_forecast(counts.set_params(values=["v"], bounds={"v": (0, 1)}, statistics="std"), rows=[10])


def test_a_profile_draws_the_samples_needed_and_leaves_gaps() -> None:
    counts = HistoricalStatistics("hour", domains={"hour": range(24)}, statistics="count", epsilon=1.0)
    profile = formula_profile(counts, target=0.05, epsilons=[0.01, 1.0], rows=5_000)

    (line,) = profile.plot().ax_.get_lines()

    gap, found = line.get_ydata()
    assert np.isnan(gap)
    assert found == profile.n_at(1.0)


def test_a_budget_is_drawn_below_its_capacity() -> None:
    display = BudgetDisplay(["0", "1"], [0.5, 0.25], [0.0, 0.5], [1.0, 1.0]).plot()

    assert [bar.get_height() for bar in display.ax_.patches] == [0.5, 0.25, 0.0, 0.5]
    assert {text.get_text() for text in display.ax_.get_legend().get_texts()} == {
        "spent",
        "reserved",
        "capacity",
    }
