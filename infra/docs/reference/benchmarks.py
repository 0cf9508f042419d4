"""The page of the benchmarks, made from the rows in benchmarks/recorded.json."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from infra.docs.reference.marks import table

RECORDED = Path(__file__).resolve().parents[3] / "benchmarks" / "recorded.json"
INTRODUCTION = """\
# Benchmarks

How fast and how good the library and the service are, beside their peers. Ours and the peer were measured in the same run.

A goal bounds the number that is *judged*: ours, or a ratio that the row names. Run the benchmarks on your machine: {commands}. Each prints its rows,
writes them to `benchmarks/out/`, and fails if a goal is missed. `RECORD=1` puts the rows that this page has into `benchmarks/recorded.json`. Peers get environments of their own.

Beside a day is the commit that was measured; `+` after it says that files had changed since.

<!-- made from benchmarks/recorded.json by `make reference`: change that file, not this page -->
"""
HEADS = ("measurement", "ours", "peer", "judged, and its goal", "measured")


def page() -> str:
    """Return the page."""
    sections = json.loads(RECORDED.read_text(encoding="utf-8"))["sections"]
    commands = ", ".join(_command(topic) for one in sections for topic in one["topics"])
    return "\n".join([INTRODUCTION.format(commands=commands), *map(_section, sections)])


def _section(section: Mapping[str, Any]) -> str:
    by = "Measured by " + " and ".join(map(_command, section["topics"])) + "."
    parts = [f"## {section['heading']}", f"{by} {section['introduction']}".strip(), ""]
    if section["rows"]:
        parts[1] += f" Machine: {'; '.join(machines(section['rows']))}."
        parts += [table(list(HEADS), [_cells(row) for row in section["rows"]]), ""]
    return "\n".join(parts)


def machines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the machines that rows were measured on; "two cores" adds nothing to one that says more."""
    named = dict.fromkeys(row["machine"].replace("two cores", "2 cores") for row in rows)
    return [one for one in named if not any(other.startswith(f"{one},") for other in named)]


def _cells(row: Mapping[str, Any]) -> list[str]:
    peer = "" if row["theirs"] is None else f"{number(row['theirs'])} ({row['against']})"
    goal = f"{'at most' if row['direction'] == 'min' else 'at least'} {number(row['goal'])}"
    judged = f"{number(row['judged'])}; {goal}"
    return [
        f"{row['measure']} ({row['unit']})",
        number(row["ours"]),
        peer,
        judged if row["met"] else f"{judged}: missed",
        row["day"] if row["commit"] is None else f"{row['day']}, `{row['commit']}`",
    ]


def number(value: float) -> str:
    """Return a number to four digits, and large ones as people write them."""
    if 1000 <= abs(value) < 1e12:
        return f"{round(value):,}"
    return f"{value:.4g}"


def _command(topic: str) -> str:
    return f"`make bench-{topic}`"
