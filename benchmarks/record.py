"""Puts what a benchmark wrote into the recorded rows, of which docs/benchmarks.md is made: `make bench-NAME RECORD=1`.

`python -m benchmarks.record TOPIC` replaces the recorded rows of a topic by those of `benchmarks/out/TOPIC.json` with
the same ids. `python -m benchmarks.record TOPIC ID ...` records these rows alone; an id that is new goes to the end of
the topic's section.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measuring import OUT, Row

RECORDED = OUT.with_name("recorded.json")
DIGITS = 4
"""Significant digits that are kept: the next ones differ from run to run."""


def record(
    recorded: dict[str, Any], topic: str, written: Sequence[Row], wanted: Sequence[str] = ()
) -> list[str]:
    """Put written rows into the sections; return the ids that were recorded.

    Parameters
    ----------
    recorded
        What `recorded.json` contains. It is changed.
    written
        Rows of `benchmarks/out/<topic>.json`.
    wanted
        Ids of the rows to record, those already recorded when none is named.

    Raises
    ------
    LookupError
        If no section has the topic, or a wanted row was not written.
    """
    section = next((one for one in recorded["sections"] if topic in one["topics"]), None)
    if section is None:
        raise LookupError(f"no section of the recorded rows has the topic {topic}")
    fresh = {row["id"]: _rounded(row) for row in written}
    if absent := sorted(set(wanted) - set(fresh)):
        raise LookupError(f"{topic} wrote no row {', '.join(absent)}; it wrote {', '.join(fresh) or 'none'}")
    known = [row["id"] for row in section["rows"]]
    chosen = [id for id in wanted or known if id in fresh]
    section["rows"] = [fresh[row["id"]] if row["id"] in chosen else row for row in section["rows"]]
    section["rows"] += [fresh[id] for id in chosen if id not in known]
    return chosen


def _rounded(row: Row) -> Row:
    return {
        key: float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value for key, value in row.items()
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Record what a benchmark wrote.")
    parser.add_argument("topic")
    parser.add_argument("ids", nargs="*", help="rows to record; those already recorded when none is named")
    parser.add_argument("--written", type=Path, help="default: benchmarks/out/TOPIC.json")
    parser.add_argument("--into", type=Path, default=RECORDED, help="default: benchmarks/recorded.json")
    asked = parser.parse_args(arguments)
    written = asked.written or OUT / f"{asked.topic}.json"
    if not written.exists():
        print(f"{written} is not there: run make bench-{asked.topic} first", file=sys.stderr)
        return 2
    recorded = json.loads(asked.into.read_text(encoding="utf-8"))
    try:
        done = record(recorded, asked.topic, json.loads(written.read_text(encoding="utf-8")), asked.ids)
    except LookupError as error:
        print(error.args[0], file=sys.stderr)
        return 2
    asked.into.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"recorded {', '.join(done) or 'nothing'}; make reference makes docs/benchmarks.md of it")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
