"""Measures the library against its peers: `make bench-ptklib`, or this script with names of parts.

Every file `benchmarks/ptklib_<part>.py` has a function `rows()` that returns rows made by `measuring.measured`. One
part is run alone with `python benchmarks/ptklib.py <part> ...`; its rows then replace the part's in the report.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)  # this file's directory would hide the package of the same name

from benchmarks.measuring import verdict  # noqa: E402
from benchmarks.parts import chosen, measure  # noqa: E402

REPORT = ROOT / "benchmarks" / "out" / "ptklib.json"
PARTS = sorted(path.stem.removeprefix("ptklib_") for path in (ROOT / "benchmarks").glob("ptklib_*.py"))


def main(wanted: list[str]) -> int:
    found = measure("ptklib", chosen(wanted, PARTS), REPORT)
    return verdict(found, REPORT.relative_to(ROOT))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
