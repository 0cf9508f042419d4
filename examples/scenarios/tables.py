"""Put measured tables and figures into a page: ``python examples/scenarios/tables.py RESULTS docs/usefulness.md``.

RESULTS is a folder the scenarios wrote to (``--out``). In the page, what stands between ``<!-- table: NAME -->`` and
``<!-- end of table -->`` becomes the table of the task or profile NAME; plots of RESULTS go into the page's folder
``figures``. So no number of a table is typed by hand.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
from _common.report import gains, lines_of_table

_PLACE = re.compile(r"(<!-- table: (?P<name>[^>]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def of_task(task: dict[str, Any]) -> str:
    """Return the gains over No PTK by share and line, under a line that says what was measured."""
    sizes = (
        f"rows: {task['n_ptk_rows']:,} for {task['ptk']}; {task['n_train_rows']:,} own; "
        f"{task['n_test_rows']:,} to test"
    )
    name = task["task"][0].upper() + task["task"][1:]
    return "\n".join([f"**{name}** ({task['loss']}; {sizes})", "", *gains(task)])


def of_profile(profile: dict[str, Any]) -> str:
    """Return the mean loss by size and epsilon."""
    losses = np.array(profile["losses"])
    mean, spread = losses.mean(axis=-1), losses.std(axis=-1)
    rows = [
        [f"{size:,}"] + [f"{mean[i, j]:.4g} ± {spread[i, j]:.2g}" for i in range(len(profile["epsilons"]))]
        for j, size in enumerate(profile["sizes"])
    ]
    text = [
        f"**{profile['family'].capitalize()}**: {profile['loss']}; without noise, all rows: {profile['exact']:.4g}",
        "",
        *lines_of_table([profile["counted"], *(f"ε = {e:g}" for e in profile["epsilons"])], rows),
    ]
    return "\n".join(text)


def of_table(table: dict[str, Any]) -> str:
    """Return a table that was saved as text, under its name and what is said of it."""
    name = table["table"][0].upper() + table["table"][1:]
    return "\n".join([f"**{name}** ({table['said']})", "", *lines_of_table(table["header"], table["rows"])])


def tables_of(folder: Path) -> dict[str, str]:
    """Return the table of each task and profile saved in `folder`, by name."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        for measured in json.loads(path.read_text()):
            if "table" in measured:
                found[measured["table"]] = of_table(measured)
            elif "family" in measured:
                found[measured["family"]] = of_profile(measured)
            else:
                found[measured["task"]] = of_task(measured)
    return found


def renewed(page: str, tables: dict[str, str]) -> str:
    """Return the page with the tables there are; places of others stay as they are."""

    def table(place: re.Match[str]) -> str:
        if place["name"] not in tables:
            return place[0]
        return f"{place[1]}{tables[place['name']]}\n{place[3]}"

    return _PLACE.sub(table, page)


def main(argv: list[str] | None = None) -> int:
    """Renew a page; say which of the measured tables it has no place for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, help="folder of JSON and SVG files the scenarios wrote")
    parser.add_argument("page", type=Path, help="Markdown page to renew")
    asked = parser.parse_args(argv)
    tables = tables_of(asked.results)
    if not tables:
        parser.error(f"there are no results in {asked.results}")
    page = asked.page.read_text()
    asked.page.write_text(renewed(page, tables))
    figures = asked.page.parent / "figures"
    figures.mkdir(exist_ok=True)
    for plot in sorted(asked.results.glob("*.svg")):
        shutil.copy(plot, figures / plot.name)
    places = {place["name"] for place in _PLACE.finditer(page)}
    print(f"renewed: {', '.join(sorted(places & set(tables))) or 'nothing'}")
    if without := sorted(set(tables) - places):
        print(f"no place in the page: {', '.join(without)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
