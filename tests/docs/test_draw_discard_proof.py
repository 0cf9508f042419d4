"""Figures of the paper that the proof quotes as expectations follow from the paper's formulas."""

from __future__ import annotations

from math import log, sqrt
from pathlib import Path

EPSILON = log(32)


def row(page: str, begins: str) -> list[str]:
    (line,) = (line for line in page.splitlines() if line.startswith(f"| {begins}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_expectations_are_those_of_lemmas_1_to_3(repository: Path) -> None:
    page = (repository / "docs/proofs/draw_discard.md").read_text()
    ks = [int(cell.removeprefix("k = ")) for cell in row(page, "the paper's expectation")[2:]]
    assert row(page, "epsilon against adversary II,")[2:] == [
        f"{(k - 1) / (2 * k) * EPSILON:.2f}" for k in ks
    ]
    assert row(page, "share of reports that stay")[2:] == [f"{1 / k:.0%}".replace("%", " %") for k in ks]
    updates = [int(cell.replace(",", "")) for cell in row(page, "later updates of the instance")[1:]]
    assert row(page, "epsilon against adversary III,")[1:] == [
        f"{3 * EPSILON / sqrt(t):.2f}" for t in updates
    ]
    assert "**no guarantee**" in page
