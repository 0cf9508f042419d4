"""PTKs as their teams want them to be."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ptkstore.domain.ptks.ptks import PTK_ARGUMENTS
from ptkstore.domain.ptks.wanted import WantedPtk, changed
from ptkstore.errors import InvalidRequest
from tests.support.builders import stream_named

POLICY = stream_named().policy
ESTIMATOR = {"family": "HistoricalStatistics", "params": {"epsilon": 0.1}}
NEEDED = {"estimator": ESTIMATOR, "target": 0.1}


def test_what_is_left_out_has_its_default() -> None:
    said = WantedPtk("speed", NEEDED).said(POLICY)
    assert said == {
        "estimator": ESTIMATOR,
        "target": 0.1,
        "every": 1,
        "config": {},
        "description": "",
        "windows": (1, 1),
        "tags": (),
    }
    assert WantedPtk("speed", NEEDED).estimator is ESTIMATOR


def test_a_frequency_becomes_windows_of_the_stream() -> None:
    wanted = WantedPtk("speed", {**NEEDED, "train_frequency": "3d", "windows": (1, 2)})
    assert (wanted.said(POLICY)["every"], wanted.said(POLICY)["windows"]) == (3, (1, 2))
    assert POLICY.window == timedelta(days=1)
    with pytest.raises(InvalidRequest, match="multiple of the window length 1d"):
        WantedPtk("speed", {**NEEDED, "train_frequency": "36h"}).said(POLICY)


def test_what_has_no_default_is_needed() -> None:
    with pytest.raises(TypeError, match="needs its estimator"):
        WantedPtk("speed", {name: value for name, value in NEEDED.items() if name != "estimator"})


@pytest.mark.parametrize("unknown", ["tau", "every", "loss", "waiting"])
def test_what_nobody_can_say_of_a_ptk_is_refused(unknown: str) -> None:
    with pytest.raises(TypeError, match=f"has no {unknown}"):
        WantedPtk("speed", {**NEEDED, unknown: 1})


def test_a_change_names_fields_and_leaves_out_what_stays() -> None:
    assert changed({"target": 0.2, "description": None, "config": {}}) == {"target": 0.2, "config": {}}
    assert changed({}) == {}


def test_what_is_fixed_or_unknown_cannot_be_changed() -> None:
    assert PTK_ARGUMENTS["train_frequency"].fixed
    for unknown in ("train_frequency", "tau"):
        with pytest.raises(TypeError, match=f"no {unknown} to change"):
            changed({unknown: None})
