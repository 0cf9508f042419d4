"""Plots of the docs: what they show is within them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from infra.docs.appearance import DRAWN
from tests.faults.machine import ROOT

SVG = "{http://www.w3.org/2000/svg}"
FIGURES = [
    path for path in sorted((ROOT / "docs" / "figures").glob("*.svg")) if DRAWN not in path.read_text()
]


def test_there_are_figures() -> None:
    assert len(FIGURES) > 5


@pytest.mark.parametrize("figure", FIGURES, ids=lambda path: path.stem)
def test_no_legend_is_wider_than_its_figure(figure: Path) -> None:
    drawn = ET.parse(figure).getroot()
    _, _, width, height = map(float, drawn.attrib["viewBox"].split())
    frames = [
        path.attrib.get("d", "")
        for group in drawn.iter(f"{SVG}g")
        if group.attrib.get("id", "").startswith("legend")
        for path in group.findall(f"{SVG}g/{SVG}path")
    ]
    assert frames
    for frame in frames:
        assert frame, "drawn outside, and so not at all"
        numbers = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", frame)]
        assert all(0 <= x <= width for x in numbers[::2]), (min(numbers[::2]), max(numbers[::2]), width)
        assert all(0 <= y <= height for y in numbers[1::2])
