"""Writes the drawings of the docs anew: `make pictures`, or `python -m infra.docs.pictures --out DIR`."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from infra.docs.pictures import architecture, concepts, devices
from infra.docs.pictures.drawing import Drawing

DOCS = Path(__file__).resolve().parents[3] / "docs"
PICTURES: dict[str, Callable[[], Drawing]] = {
    **{f"concepts/figures/{name}.svg": drawing for name, drawing in concepts.DRAWINGS.items()},
    "figures/architecture.svg": architecture.rooms,
    "reference/figures/devices.svg": devices.protocol,
}
"""Each drawing by its place below docs/."""


def main(argv: list[str] | None = None) -> int:
    """Write all drawings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=DOCS, help="folder that has the places of docs/")
    folder = parser.parse_args(argv).out
    for place, drawing in PICTURES.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(drawing().svg(path.stem), encoding="utf-8")
    sys.stdout.write(f"pictures: {len(PICTURES)} below {folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
