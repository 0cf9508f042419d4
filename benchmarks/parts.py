"""Measures the parts of a topic one after another, and keeps what each has measured."""

import json
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from benchmarks.measuring import Row, stamped, table


def chosen(wanted: Sequence[str], parts: Sequence[str]) -> Sequence[str]:
    """Return the wanted parts, all when none is named; the program ends when there is no such part."""
    if unknown := sorted(set(wanted) - set(parts)):
        print(f"no such part: {', '.join(unknown)}; parts are {', '.join(parts)}", file=sys.stderr)
        raise SystemExit(2)
    return wanted or parts


def measure(topic: str, parts: Sequence[str], report: Path) -> list[Row]:
    """Return what `rows()` of each `benchmarks/<topic>_<part>.py` returns, printed and written as soon as it is there.

    A part that fails takes no other with it: it is raised when all have been measured.
    """
    found: list[Row] = []
    failed: list[Exception] = []
    for part in parts:
        print(f"\n{part}", flush=True)
        try:
            rows: list[Row] = import_module(f"benchmarks.{topic}_{part}").rows()
        except Exception as error:  # noqa: BLE001 - whatever it is, the other parts have their own numbers
            print(f"failed: {error!r}", flush=True)
            failed.append(error)
            continue
        print(table(rows), flush=True)
        _write(rows, report)
        found += rows
    if failed:
        raise ExceptionGroup("parts that failed", failed)
    return found


def _write(rows: list[Row], report: Path) -> None:
    """Put the rows in the place of those with their names."""
    # Read as late as possible: parts may be run side by side.
    known: list[Row] = json.loads(report.read_text()) if report.exists() else []
    mine = {row["id"] for row in rows}
    merged = [row for row in known if row["id"] not in mine] + stamped(rows)
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(json.dumps(merged, indent=1, sort_keys=True) + "\n")
