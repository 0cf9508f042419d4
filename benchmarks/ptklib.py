"""Measures the library against its peers: `make bench-ptklib`, or this script with names of parts.

Every file `benchmarks/ptklib_<part>.py` has a function `rows()` that returns rows made by `measuring.measured`. One
part is run alone with `python benchmarks/ptklib.py <part> ...`; its rows then replace the part's in the report.
"""

import json
import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)  # this file's directory would hide the package of the same name

from benchmarks.measuring import Row, table, verdict  # noqa: E402

REPORT = ROOT / "benchmarks" / "out" / "ptklib.json"
PARTS = sorted(path.stem.removeprefix("ptklib_") for path in (ROOT / "benchmarks").glob("ptklib_*.py"))


def main(wanted: list[str]) -> int:
    unknown = sorted(set(wanted) - set(PARTS))
    if unknown:
        print(f"no such part: {', '.join(unknown)}; parts are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    found: list[Row] = []
    for part in wanted or PARTS:
        print(f"\n{part}", flush=True)
        rows: list[Row] = import_module(f"benchmarks.ptklib_{part}").rows()
        print(table(rows), flush=True)
        # Read as late as possible: parts may be run side by side.
        known: list[Row] = json.loads(REPORT.read_text()) if REPORT.exists() else []
        mine = {row["id"] for row in rows}
        report = [row for row in known if row["id"] not in mine] + rows
        REPORT.parent.mkdir(parents=True, exist_ok=True)
        REPORT.write_text(json.dumps(report, indent=1, sort_keys=True) + "\n")
        found += rows
    return verdict(found, REPORT.relative_to(ROOT))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
