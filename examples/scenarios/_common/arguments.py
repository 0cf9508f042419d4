"""The command lines of scenarios: which rows they read, and where results go."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path

EPSILONS = (1.0, 0.1, 0.01)
FRACTIONS = (0.01, 0.03, 0.1, 0.3, 1.0)


def of_files(description: str | None, paths: Mapping[str, str]) -> argparse.ArgumentParser:
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
        "--out", type=Path, default=Path("scenario-results"), help="folder of plots and numbers"
    )
    return found


def of_parts(
    description: str | None, paths: Mapping[str, str], parts: Iterable[str]
) -> argparse.ArgumentParser:
    """Make the parser of a scenario whose parts may be measured alone, and whose tables a page shows."""
    found, names = of_files(description, paths), list(parts)
    found.add_argument("--parts", nargs="+", choices=names, default=names)
    found.add_argument("--page", type=Path, help="Markdown page to renew with all results of the folder")
    return found


def parser(description: str | None, paths: Mapping[str, str]) -> argparse.ArgumentParser:
    """Make the parser of a scenario that measures tasks of its own."""
    found = of_files(description, paths)
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
    return found


def checked(
    found: argparse.ArgumentParser, argv: list[str] | None, paths: Mapping[str, str]
) -> argparse.Namespace:
    """Parse, and refuse a call that would measure nothing."""
    asked = found.parse_args(argv)
    check(found, asked, paths)
    if not all(0 < fraction <= 1 for fraction in asked.fractions):
        found.error("--fractions must be within (0, 1]")
    return asked


def check(
    found: argparse.ArgumentParser,
    asked: argparse.Namespace,
    paths: Mapping[str, str],
    *,
    needed: Iterable[str] | None = None,
    least_seeds: int = 1,
) -> None:
    """Refuse a call that names too few files, files and a generator, or too few seeds.

    Parameters
    ----------
    needed : iterable of str, optional
        Names of `paths` without which nothing is measured; by default it takes one of them, whichever.
    """
    given = {name for name in paths if getattr(asked, name) is not None}
    wanted = "at least one file" if needed is None else ", ".join(f"--{name}" for name in sorted(needed))
    if asked.generated is None and not (given if needed is None else given >= set(needed)):
        found.error(f"name {wanted}, or --generated ROWS to try the script without data")
    if asked.generated is not None and given:
        found.error("--generated goes without files")
    if asked.generated is not None and asked.generated < 1000:
        found.error("--generated needs at least 1000 rows")
    if asked.seeds is not None and asked.seeds < least_seeds:
        found.error(f"--seeds must be at least {least_seeds}")
