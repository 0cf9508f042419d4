"""Measures the service on real servers: `make bench-service`, or this script with names of parts, as `ptklib.py`."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)  # this file's directory would hide the package of the same name

from benchmarks.measuring import verdict  # noqa: E402
from benchmarks.parts import chosen, measure  # noqa: E402

REPORT = ROOT / "benchmarks" / "out" / "service.json"
PARTS = ("lookups", "subscribers", "featurizer", "windows", "trainings", "fairness", "http", "starts")


def main(wanted: list[str]) -> int:
    found = measure("service", chosen(wanted, PARTS), REPORT)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"\nload of the machine {load} on {os.cpu_count()} processors")
    return verdict(found, REPORT.relative_to(ROOT))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
