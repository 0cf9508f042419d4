"""The page of the benchmarks, made from the rows in benchmarks/recorded.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from infra.docs.reference.marks import table

RECORDED = Path(__file__).resolve().parents[3] / "benchmarks" / "recorded.json"
INTRODUCTION = """\
# Benchmarks

Each row was measured on {machine}, ours and the peer in the same run. Run them on your machine: {commands}. Each prints its rows, writes them to `benchmarks/out/`
and fails where a goal is missed. Peers get environments of their own. The last column is the day when the row was recorded.

<!-- made from benchmarks/recorded.json by `make reference`: change that file, not this page -->
"""


def page() -> str:
    """Return the page."""
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    sections = recorded["sections"]
    commands = ", ".join(_command(topic) for one in sections for topic in one["topics"])
    return "\n".join(
        [INTRODUCTION.format(machine=recorded["machine"], commands=commands), *map(_section, sections)]
    )


def _section(section: dict[str, Any]) -> str:
    by = "Measured by " + " and ".join(map(_command, section["topics"])) + "."
    parts = [f"## {section['heading']}", f"{by} {section['introduction']}".strip(), ""]
    if section["rows"]:
        columns = ("what", "ours", "peer", "note", "recorded")
        rows = [[row[column] for column in columns] for row in section["rows"]]
        parts += [table(["what", "ours", "peer", "", "recorded"], rows), ""]
    return "\n".join(parts)


def _command(topic: str) -> str:
    return f"`make bench-{topic}`"
