"""An audit of clustering: both methods lose no more than they declare, and half-noised twins are caught."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from ptklib import Clustering
from ptklib.arrays import Floats
from ptklib.clustering import grid, lloyd
from tests.statistical.tools import empirical_epsilon
from tests.support.audits import halved_noise, ratio

pytestmark = pytest.mark.long

CENTRES = 1024


def grid_scores(row_in_each_cell: bool, draws: int = 150) -> Floats:
    """Return one score per coarse cell and draw; each is its own run of the mechanism with or without a row."""
    model = Clustering(["a", "b"], bounds=(0, 1), epsilon=1.0, method="grid")
    coarse = grid.centres_of(2, 0) + 1e-3
    rows = coarse if row_in_each_cell else coarse[:0]
    exact = grid.nested(model.partial_statistics(rows).arrays["cells"], 2)
    plan, events = model._plan().only(exact), model.declared_loss().event.to_json()["events"][:-1]
    codes = []
    for n in grid.LEVELS[2]:
        axes = (coarse * n).astype(int)
        codes.append(axes[:, 0] * n + axes[:, 1])
    scores = []
    for _ in range(draws):
        noisy = plan.draw(exact)
        levels = zip(codes, events, strict=True)
        scores.append(sum(ratio(noisy[f"level_{i}"][cell], e) for i, (cell, e) in enumerate(levels)))
    return np.concatenate(scores)


def offset_scores(row_in_each_cell: bool, draws: int = 60) -> tuple[Floats, float]:
    """Return one score per centre and draw of the offsets, and the epsilon declared for them."""
    model = Clustering(["a"], CENTRES, bounds=(0, 1), epsilon=10.0, method="grid")
    # One row at the end of each finest cell, which has a centre of its own.
    rows = (np.arange(CENTRES)[:, None] + 1) / CENTRES - 1e-9
    exact = model.partial_statistics(rows if row_in_each_cell else rows[:0]).arrays
    occupied = np.flatnonzero(exact["cells"])
    sums = grid.offsets_of(occupied, occupied, exact[grid.OFFSETS], CENTRES, 1)
    plan, event = model._plan().only([grid.OFFSETS]), model.declared_loss().event.to_json()["events"][-1]
    drawn = [plan.draw({grid.OFFSETS: sums})[grid.OFFSETS] for _ in range(draws)]
    return np.concatenate([ratio(noisy, event) for noisy in drawn]), event["l1_sensitivity"] / event["scale"]


def lloyd_scores(row_at_each_centre: bool, runs: int = 30) -> tuple[Floats, float]:
    """Return one score per centre and run of one round, and the epsilon declared for a round."""
    widths = np.asarray([2**16], dtype=np.int64)
    plan = lloyd.plan_rounds(widths, CENTRES, 10.0, 0)
    events: Mapping[str, Any] = {
        c.name.removeprefix("round_0_"): e
        for c, e in zip(plan.components, plan.loss.event.to_json()["events"], strict=True)
        if c.name.startswith("round_0_")
    }
    centres = (np.arange(CENTRES, dtype=np.int64)[:, None] - CENTRES // 2) * 100
    rows = centres + 40 if row_at_each_centre else centres[:0]
    rounds, scores = lloyd._Rounds(rows, widths, CENTRES, plan), []
    for _ in range(runs):
        got = rounds.measure(0, centres, 10.0)  # 40 is beyond the radius: all three move as far as they may
        sums, squares = got.sums[:, 0] / 10 * lloyd.OFFSET, got.squares / 100 * lloyd.OFFSET
        scores.append(
            ratio(got.counts, events["count"])
            + ratio(sums, events["sums"])
            + ratio(squares, events["squares"])
        )
    declared = sum(e["l1_sensitivity"] / e["scale"] for e in events.values())
    return np.concatenate(scores), declared


def test_the_grid_loses_no_more_than_it_declares() -> None:
    assert 0.1 < empirical_epsilon(grid_scores(True), grid_scores(False)) <= 1.0


def test_a_half_noised_grid_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    halved_noise(monkeypatch)
    assert empirical_epsilon(grid_scores(True), grid_scores(False)) > 1.0


def test_the_offsets_of_the_grid_lose_no_more_than_they_declare() -> None:
    (there, declared), (none, _) = offset_scores(True), offset_scores(False)
    assert declared / 3 < empirical_epsilon(there, none) <= declared


def test_half_noised_offsets_of_the_grid_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    halved_noise(monkeypatch)
    (there, declared), (none, _) = offset_scores(True), offset_scores(False)
    assert empirical_epsilon(there, none) > declared


def test_a_round_of_lloyd_loses_no_more_than_it_declares() -> None:
    (near, declared), (none, _) = lloyd_scores(True), lloyd_scores(False)
    assert declared / 3 < empirical_epsilon(near, none) <= declared


def test_a_half_noised_round_of_lloyd_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    halved_noise(monkeypatch)
    (near, declared), (none, _) = lloyd_scores(True), lloyd_scores(False)
    assert empirical_epsilon(near, none) > declared
