"""Measures the service: `make bench-service`. Lookups, writes and publications on a real redis-server."""

import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)  # this file's directory would hide the package of the same name

from benchmarks import service_featurizer, service_http, service_lookups, service_subscribers, service_windows  # noqa: E402
from benchmarks.measuring import table, verdict  # noqa: E402

REPORT = ROOT / "benchmarks" / "out" / "service.json"
PARTS = (service_lookups, service_subscribers, service_featurizer, service_windows, service_http)


def main() -> int:
    found = [row for part in PARTS for row in part.rows()]
    print(table(found))
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"\nload of the machine {load} on {os.cpu_count()} processors")
    return verdict(found, REPORT.relative_to(ROOT))


if __name__ == "__main__":
    raise SystemExit(main())
