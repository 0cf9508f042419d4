"""The command line all scenarios share."""

from __future__ import annotations

import argparse
from pathlib import Path

EPSILONS = (1.0, 0.1, 0.01)
FRACTIONS = (0.01, 0.03, 0.1, 0.3, 1.0)


def parser(description: str | None, paths: dict[str, str]) -> argparse.ArgumentParser:
    """Make a parser with one option per data set; `paths` says what each file is."""
    found = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, help_text in paths.items():
        found.add_argument(f"--{name}", type=Path, metavar="FILE", help=help_text)
    found.add_argument(
        "--generated",
        type=int,
        metavar="ROWS",
        help="no files: this many rows of a seeded generator, to try the script; says nothing about the world",
    )
    found.add_argument(
        "--without-test-rows",
        action="store_true",
        help="judge on the last quarter of the task's training rows: for choosing what a task is to be",
    )
    found.add_argument("--seeds", type=int, default=10, help="runs per line (default 10)")
    found.add_argument(
        "--fractions", type=float, nargs="+", default=FRACTIONS, help="shares of the task's training rows"
    )
    found.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS)
    found.add_argument(
        "--out", type=Path, default=Path("scenario-results"), help="folder of plot and numbers"
    )
    return found


def checked(
    found: argparse.ArgumentParser, argv: list[str] | None, paths: dict[str, str]
) -> argparse.Namespace:
    """Parse, and refuse a call that would measure nothing."""
    asked = found.parse_args(argv)
    given = [name for name in paths if getattr(asked, name) is not None]
    if not given and asked.generated is None:
        found.error("name at least one file, or --generated ROWS to try the script without data")
    if given and asked.generated is not None:
        found.error("--generated goes without files")
    if asked.generated is not None and asked.generated < 1000:
        found.error("--generated needs at least 1000 rows")
    if asked.seeds < 1 or not all(0 < fraction <= 1 for fraction in asked.fractions):
        found.error("--seeds must be at least 1, and --fractions within (0, 1]")
    return asked
