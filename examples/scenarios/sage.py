"""Sage's evaluation (SOSP'19, section 5) with this project's parts: Table 2 and Figures 5 to 8.

The pool of rows is the population: training and test rows are drawn from it with replacement, so that the expected loss
of each model is the mean over the pool, and known. The parts:

- *violations* and *needs*: pipelines retry until a validator accepts. How often does an accepted model miss its target
  (Table 2), and how many rows did it take (Figure 6)?
- *quality*: expected loss against rows and epsilon (Figure 5);
- *descents*: the same three for logistic regression and networks by gradient descent;
- *blocks*: noise drawn once over many blocks, or once for each (Figure 7);
- *releases*: how long PTKs wait under different policies, in the simulator (Figure 8).

`--quick` measures little of everything, in a minute: it tries the script and says nothing about the world.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _common import arguments, clicks, plots, populations, release_times, sage_tables, trips, violations
from _common import blocks as in_blocks
from _common.descents import Descent
from _common.parts import measure, on_one_core
from _common.pipelines import CellMeans, ClassMeans, LeastSquares, MeanValues, Pipeline
from sklearn.exceptions import ConvergenceWarning

from ptklib.exceptions import UnmatchedWarning

PATHS = {
    "trips": "cab trips of TLC with zones or coordinates",
    "zones": "table of taxi zones: zone_id, centroid_longitude, centroid_latitude",
    "clicks": "click log of Criteo attribution, Criteo display or Avazu",
    "houses": "Beijing house sales",
    "digits": "MNIST: 784 bytes of pixels and a label for each image",
}
ETA = 0.05
UNITS = {"loss": "mean squared error", "accuracy": "accuracy"}


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    seeds: int
    first_look: int
    doublings: int
    n_targets: int
    repeats: int
    tries: int
    tested: Sequence[int]
    trained: Sequence[int]
    blocks: in_blocks.Blocks
    rates: Sequence[float]


FULL = Sizes(
    seeds=20,
    first_look=10_000,
    doublings=6,
    n_targets=20,
    repeats=8,
    tries=200,
    tested=(1_000, 10_000),
    trained=(1_000, 4_000, 16_000, 64_000, 256_000),
    blocks=in_blocks.Blocks(
        20_000,
        (20_000, 100_000, 500_000),
        (100_000, 500_000, 1_000_000),
        tuple(20_000 * 2**k for k in range(11)),
        20,
    ),
    rates=(0.1, 0.3, 0.5, 0.7, 1.0, 1.3, 1.6),
)
QUICK = Sizes(
    seeds=2,
    first_look=10_000,
    doublings=2,
    n_targets=3,
    repeats=2,
    tries=20,
    tested=(500,),
    trained=(1_000, 4_000),
    blocks=in_blocks.Blocks(2_000, (2_000, 4_000), (4_000, 8_000), (8_000, 32_000), 2),
    rates=(0.1,),
)
EPSILONS = (None, 1.0, 0.25, 0.05)
DESCENT_EPSILONS = (None, 1.0, 0.25)
HIDDEN = (32, 16)
RATIOS = (
    ("conserve", "streaming"),
    ("conserve", "query"),
    ("conserve", "aggressive"),
    ("guided", "conserve"),
    ("DPack", "guided"),
)
BLOCK_EPSILONS = (1.0, 0.1)
EXCESS = (1.05, 1.1, 1.2, 1.35, 1.5, 2.0)


@dataclass(frozen=True)
class Loaded:
    """The pipelines whose data there are; `linear` is the one of Figure 7, `descended` the linear one by descent."""

    linear: LeastSquares
    validated: Sequence[Pipeline]
    others: Sequence[Pipeline]
    descended: Descent
    descents: Sequence[Descent]


def load(asked: argparse.Namespace) -> Loaded:
    """Return the pipelines of the files that were named, or of generated rows."""
    if asked.generated is not None:
        rows, log = populations.generated_trips(asked.generated), clicks.generate(asked.generated)
    else:
        rows, log = trips.load(asked.trips, trips.Zones.load(asked.zones)), clicks.load(asked.clicks)
    cabs, ads = populations.of_trips(rows), populations.of_clicks(log)
    linear = LeastSquares(cabs, "taxi durations, linear regression")
    speeds = populations.speeds(rows)
    others: list[Pipeline] = [CellMeans(cabs, "taxi durations, means of 2,688 cells")]
    if asked.houses is not None:
        others.append(LeastSquares(populations.load_houses(asked.houses), "house prices, linear regression"))
    if asked.digits is not None:
        others.append(ClassMeans(populations.load_digits(asked.digits), "digits, class means", "accuracy"))
    others += [
        MeanValues(cabs, f"taxi speeds by {key}", "error in miles an hour", key, speeds, populations.SPEEDS)
        for key in ("hour", "weekday", "week")
    ]
    descents = (
        Descent(cabs, "taxi durations, neural network", hidden=HIDDEN),
        Descent(ads, "ad clicks, logistic regression", "accuracy"),
        Descent(ads, "ad clicks, neural network", "accuracy", HIDDEN),
    )
    return Loaded(
        linear,
        (linear, LeastSquares(ads, "ad clicks, linear classifier", "accuracy")),
        others,
        Descent(cabs, "taxi durations, linear regression by descent"),
        descents,
    )


def plan_of(pipeline: Pipeline, sizes: Sizes) -> violations.Plan:
    """Return looks and targets: from nearly the best there is to a naive answer, evenly on a log scale."""
    everything = np.arange(len(pipeline.population))
    best = float(pipeline.losses(everything, None).mean())
    first = [violations.Look(sizes.first_look, epsilon) for epsilon in (0.125, 0.25, 0.5)]
    later = [violations.Look(sizes.first_look * 2**k, 1.0) for k in range(sizes.doublings + 1)]
    targets = np.geomspace(1.01 * best, pipeline.naive(), sizes.n_targets).tolist()
    return violations.Plan((*first, *later), targets, sizes.repeats, (0.01, ETA), sizes.seeds)


def validate(loaded: Loaded, sizes: Sizes, out: Path) -> Iterator[dict[str, Any]]:
    """Measure Table 2 and Figure 6."""
    yield from _accepted(loaded.validated, sizes, "target violations", out / "sage_needs.svg")
    missed = {}
    for pipeline in loaded.validated:
        missed[pipeline.name] = violations.just_missed(
            pipeline, sizes.first_look * 4, sizes.tested, (0.1, 1.0), plan_of(pipeline, sizes), sizes.tries
        )
    yield sage_tables.just_missed(missed)


def quality(loaded: Loaded, sizes: Sizes, out: Path) -> Iterator[dict[str, Any]]:
    """Measure Figure 5."""
    yield from _quality((*loaded.validated, *loaded.others), sizes, EPSILONS, out / "sage_quality.svg")


def descents(loaded: Loaded, sizes: Sizes, out: Path) -> Iterator[dict[str, Any]]:
    """Measure Figure 5, Table 2 and Figure 6 for models by gradient descent."""
    measured = (loaded.descended, *loaded.descents)
    yield from _quality(measured, sizes, DESCENT_EPSILONS, out / "sage_descents_quality.svg")
    name = "target violations, gradient descent"
    yield from _accepted(loaded.descents, sizes, name, out / "sage_descents_needs.svg")


def _accepted(pipelines: Sequence[Pipeline], sizes: Sizes, name: str, path: Path) -> Iterator[dict[str, Any]]:
    """Yield the table of violations, and that of the rows to ACCEPT for each pipeline; draw the latter."""
    plans = [plan_of(pipeline, sizes) for pipeline in pipelines]
    found = [violations.measure(pipeline, plan) for pipeline, plan in zip(pipelines, plans, strict=True)]
    names = [pipeline.name for pipeline in pipelines]
    yield sage_tables.violations(name, dict(zip(names, found, strict=True)), plans)
    panels = []
    for pipeline, plan, accepted in zip(pipelines, plans, found, strict=True):
        table, panel = sage_tables.needs(pipeline, plan, accepted, ETA)
        yield table
        panels.append(panel)
    plots.save_panels(panels, path)


def _quality(
    pipelines: Sequence[Pipeline], sizes: Sizes, epsilons: Sequence[float | None], path: Path
) -> Iterator[dict[str, Any]]:
    """Yield the table of each pipeline's quality, and draw them."""
    panels = []
    for pipeline in pipelines:
        losses = np.empty((len(sizes.trained), len(epsilons), sizes.seeds))
        for seed in range(sizes.seeds):
            rng = np.random.default_rng(seed)
            rows = rng.integers(0, len(pipeline.population), max(sizes.trained))
            for i, n_rows in enumerate(sizes.trained):
                found = pipeline.losses_at(rows[:n_rows], epsilons)
                losses[i, :, seed] = [one.mean() for one in found]
        unit = UNITS.get(pipeline.metric, pipeline.metric)
        table, panel = sage_tables.quality(pipeline, sizes.trained, epsilons, losses, unit)
        yield table
        panels.append(panel)
    plots.save_panels(panels, path)


def blocks(loaded: Loaded, sizes: Sizes, out: Path) -> Iterator[dict[str, Any]]:
    """Measure Figure 7."""
    found = in_blocks.measure(loaded.linear, sizes.blocks, BLOCK_EPSILONS, EXCESS, ETA)
    table, panels = sage_tables.block_quality(
        {e: one.losses for e, one in found.items()}, sizes.blocks.trained
    )
    yield table
    table, more = sage_tables.block_needs({e: one.rows for e, one in found.items()}, EXCESS)
    yield table
    plots.save_panels(panels, out / "sage_blocks_quality.svg")
    plots.save_panels(more, out / "sage_blocks_needs.svg")


def releases(loaded: Loaded, sizes: Sizes, out: Path) -> Iterator[dict[str, Any]]:
    """Measure Figure 8; it reads no rows."""
    found = release_times.measure(sizes.rates, sizes.seeds)
    table, panel = sage_tables.releases(found)
    yield table
    yield sage_tables.release_ratios(found, RATIOS)
    plots.save_panels([panel], out / "sage_releases.svg")


PARTS: Mapping[str, Callable[[Loaded, Sizes, Path], Iterator[dict[str, Any]]]] = {
    "violations": validate,
    "quality": quality,
    "descents": descents,
    "blocks": blocks,
    "releases": releases,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the parts that are asked for; print tables, save plots and numbers, and renew a page."""
    asked = _asked(argv)
    sizes = QUICK if asked.quick else FULL
    if asked.seeds is not None:
        sizes = replace(
            sizes,
            seeds=asked.seeds,
            blocks=replace(sizes.blocks, seeds=asked.seeds),
        )
    with on_one_core(UnmatchedWarning, ConvergenceWarning):  # few rows, a small epsilon, few epochs
        loaded = load(asked)
        measure(
            "sage", {name: partial(part, loaded, sizes, asked.out) for name, part in PARTS.items()}, asked
        )
    return 0


def _asked(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.of_parts(__doc__, PATHS, PARTS)
    parser.add_argument("--seeds", type=int, help=f"default {FULL.seeds}")
    parser.add_argument("--quick", action="store_true", help="measure little of everything")
    asked = parser.parse_args(argv)
    arguments.check(parser, asked, PATHS, needed=("trips", "zones", "clicks"))
    return asked


if __name__ == "__main__":
    sys.exit(main())
