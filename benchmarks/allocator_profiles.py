"""Menus of the taxi team's 13 PTKs, profiled on real trips: `python benchmarks/allocator_profiles.py GREEN ZONES`.

Writes benchmarks/allocator_profiles.json: for each PTK and level of its target (epsilon, rows) to choose from. They are
formulas of facts and profiles that were released with differential privacy, epsilon 1.785 for both levels (see
docs/table3.md): no row of the data, nor a number that was not released, is in the file.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROFILES = ROOT / "benchmarks" / "allocator_profiles.json"


def main(green: str, zones: str) -> int:
    sys.path[0] = str(ROOT / "examples" / "scenarios")
    from _common import trips
    from _common.team import Team
    from _common.thirteen import LEVELS, with_keys
    from feature_store import by_month

    past, _, _ = by_month(trips.load(Path(green), trips.Zones.load(Path(zones))))
    team = Team.of("green cabs", with_keys(past).reset_index(drop=True))
    menus = {
        ptk.name: {level: [list(pair) for pair in team.found.menu(ptk, level)] for level in LEVELS}
        for ptk in team.ptks
    }
    lines = (
        f"{json.dumps(name)}: {json.dumps(menu, sort_keys=True)}" for name, menu in sorted(menus.items())
    )
    PROFILES.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"written to {PROFILES.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
