"""What devices learn without sending a row: the experiments of "Draw and Discard", and what the paper leaves out.

- *instances*: their variance, and how long a report stays in them (Theorem 1); it reads no rows;
- *known*: a model whose true weights are known (Figure 5), and what an epsilon of each weight and of the whole report
  cost there;
- *spam*: poisoned reports, with the server's tests and without them;
- *vanishing*: the same model where devices draw and never put, or put late;
- *needed*: how many reports models of 9 to 33 weights need, beside what `ptk plan` says; it reads no rows;
- *sides*: the same clicks, with hashed columns, from devices and from a central store;
- *digits*: number of instances, batches on the server, epsilon, other schemes and a smaller learning rate (the paper's
  Figures 2 to 4);
- *large*: what an epsilon of each weight and of the whole report cost a model of 7,850 weights.

Each trial is kept in a file of ``--out`` when it ends; begun again, the script goes on from there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from _common import arguments, clicks
from _common.devices import figures, genealogies, levels, tasks
from _common.devices import spam as poisons
from _common.devices.needed import Cases, measure_needed
from _common.parts import measure, on_one_core

from ptklib.exceptions import UnmatchedWarning

PASSES = (0.2, 0.5, 1, 2, 5, 10, 20)


def instances(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure Theorem 1."""
    yield from genealogies.measure_chances(
        genealogies.QUICK if asked.generated else genealogies.FULL, asked.out
    )


def known(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure Figure 5, and what a loss of each weight and of the report cost."""
    task, seeds = tasks.known_weights(asked.generated or 50_000), asked.seeds or 20
    reports = [task.n_devices * n for n in (0.2, 1, 2, 4)]
    yield from levels.measure_known(task, tasks.TRUTH, round(reports[-1]), seeds, asked.out)
    some = levels.levels((0.005, 0.02, 0.05), (32, 8))
    yield from levels.measure_levels(task, some, list(map(round, reports)), seeds, asked.out)


def spam(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure what poisoned reports do to a model whose true weights are known."""
    task, seeds = tasks.known_weights(asked.generated or 50_000), asked.seeds or 5
    shares = (0.01, 0.1, 0.3)
    yield from poisons.measure_spam(task, tasks.TRUTH, shares, task.n_devices, seeds, asked.out)


def vanishing(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure devices that draw and never put."""
    task, seeds = tasks.known_weights(asked.generated or 20_000), asked.seeds or 10
    reports = [task.n_devices * n for n in (5, 10, 20)]
    yield from levels.measure_vanishing(task, reports, seeds, asked.out)


def digits(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure Figures 2 to 4."""
    yield from figures.measure_digits(_digits(asked), PASSES, asked.seeds or 5, asked.out)


def large(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure what a loss of each weight and of the report cost a model with many weights."""
    task, some = _digits(asked), levels.levels((0.001, 0.003), k=20)
    reports = [task.n_devices * n for n in (1, 2, 4, 8)]
    yield from levels.measure_levels(task, some, reports, asked.seeds or 5, asked.out)


def _digits(asked: argparse.Namespace) -> tasks.DeviceTask:
    return tasks.generated_digits(asked.generated) if asked.generated else tasks.digits(asked.digits)


def needed(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure how many reports models need."""
    cases: Cases = [(tasks.even_values(8, asked.generated or 5_000), [(5, 32)])]
    if asked.generated is None:
        some = {8: [(5, 32), (5, 8), (20, 32)], 16: [(5, 32), (5, 8)], 32: [(5, 32)]}
        cases = [(tasks.even_values(n, 5_000), levels) for n, levels in some.items()]
        cases = [*cases, (tasks.known_weights(5_000), [(5, 32)])]
    yield from measure_needed(cases, asked.seeds or 5, asked.out)


def sides(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure devices against a central model."""
    log = clicks.generate(asked.generated) if asked.generated else clicks.load(asked.clicks)
    some = levels.levels((0.005, 0.02, 0.05), (32, 8))
    yield from levels.measure_sides(tasks.ad_clicks(log), some, (0.1, 0.3, 1.0), asked.seeds or 20, asked.out)


PARTS: Mapping[str, Callable[[argparse.Namespace], Iterator[dict[str, Any]]]] = {
    "instances": instances,
    "known": known,
    "spam": spam,
    "vanishing": vanishing,
    "needed": needed,
    "digits": digits,
    "large": large,
    "sides": sides,
}
FILES = {"digits": ("digits",), "large": ("digits",), "sides": ("clicks",)}
PATHS = {
    "digits": "MNIST: 784 bytes of pixels and a label for each image",
    "clicks": "click log of Criteo attribution, Criteo display or Avazu",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the parts that are asked for; print tables, save plots and numbers, and renew a page."""
    asked = _asked(argv)
    with on_one_core(UnmatchedWarning):  # the central model with few rows
        measure("draw_discard", {name: partial(part, asked) for name, part in PARTS.items()}, asked)
    return 0


def _asked(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.of_parts(__doc__, PATHS, PARTS)
    parser.add_argument("--seeds", type=int)
    asked = parser.parse_args(argv)
    needed = {name for part in asked.parts for name in FILES.get(part, ())}
    arguments.check(parser, asked, PATHS, needed=needed, least_seeds=2)
    return asked


if __name__ == "__main__":
    sys.exit(main())
