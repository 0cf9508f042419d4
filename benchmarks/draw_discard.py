"""Measures Draw and Discard: `make bench-draw_discard`, or this script with names of parts, as `ptklib.py`."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)  # this file's directory would hide the package of the same name

from benchmarks.measuring import verdict  # noqa: E402
from benchmarks.parts import chosen, measure  # noqa: E402

REPORT = ROOT / "benchmarks" / "out" / "draw_discard.json"
PARTS = ("simulation", "service")


def main(wanted: list[str]) -> int:
    found = measure("draw_discard", chosen(wanted, PARTS), REPORT)
    return verdict(found, REPORT.relative_to(ROOT))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
