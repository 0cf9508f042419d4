"""Replays of a few PTKs whose fate can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ptkstore.domain.accounting.accountants import Accountant, caps_of
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.scheduling.adaptive import Adaptive, Mode
from ptkstore.domain.scheduling.competing import Competing
from ptkstore.domain.scheduling.model import Waiting
from ptkstore.domain.scheduling.orders import by_arrival, by_efficiency
from ptkstore.domain.scheduling.simulation.replay import Outcome, Setting, replay
from ptkstore.domain.scheduling.simulation.simulator import (
    SimulatedPtk,
    SimulatedStream,
    StrategyState,
    simulate,
)
from ptkstore.domain.scheduling.simulation.streaming import stream_through
from ptkstore.domain.scheduling.simulation.workload import Arrival, Need, Workload

ROWS = 100
SETTING = Setting(8, ROWS, Loss(10**9), (Loss(10**8), Loss(10**9)), 8)  # epsilon .1 to 1, blocks of 1


def arrival(name: str, time: float, need: Need, *menu: tuple[float, int]) -> Arrival:
    return Arrival(name, time, need, menu)


def times(outcome: Outcome) -> dict[str, tuple[float | None, int]]:
    return {one.ptk_id: (one.time, one.looks) for one in outcome.releases}


def left(outcome: Outcome) -> list[float]:
    return [round(outcome.left[window] / 1e9, 9) for window in sorted(outcome.left)]


def test_conserve_doubles_the_loss_and_then_the_windows():
    # 300 rows are needed at any loss. Window 0 pays for .1, .2, .4; window 1 for .8; window 2 for 1, the most there is.
    # Two windows with 1 are there at the close of window 4, and four more at that of window 8.
    setting = replace(SETTING, windows=9, retention=9)
    outcome = replay([arrival("a", 0.5, Need(300.0))], Adaptive(ROWS), setting)
    assert times(outcome) == {"a": (9.0, 7)}
    assert left(outcome) == [0.3, 0.2, *[0.0] * 7]


def test_a_ptk_is_released_when_the_rows_at_its_epsilon_suffice():
    # 100 rows do at .4: the looks have .1, .2 and .4, at the close of window 0
    outcome = replay([arrival("a", 0.25, Need(0.0, 40.0))], Adaptive(ROWS), SETTING)
    assert times(outcome) == {"a": (1.0, 3)}
    assert left(outcome) == [0.3, *[1.0] * 7]
    assert outcome.waits(0, 1, 8) == [0.75]
    assert outcome.released_share(0, 1) == 1.0


def test_shares_of_those_who_wait_are_handed_on_when_one_is_released():
    # each has .5 of window 0. a needs .1 there. b takes .1 and .2, and .4 of what is now 1 - .1 - .3 = .6.
    asking = [arrival("a", 0.1, Need(0.0, 10.0)), arrival("b", 0.2, Need(0.0, 40.0))]
    outcome = replay(asking, Adaptive(ROWS), SETTING)
    assert times(outcome) == {"a": (1.0, 1), "b": (1.0, 3)}
    assert left(outcome)[0] == 0.2


def test_who_had_nothing_to_ask_asks_again_when_another_one_is_released():
    # b waits for .6, and its share is .5 until a is released at .2: then it has 1 - .3
    asking = [arrival("a", 0.1, Need(0.0, 20.0)), arrival("b", 0.2, Need(0.0, 60.0), (0.6, 100))]
    outcome = replay(asking, Adaptive(ROWS, Mode.GUIDED), SETTING)
    assert times(outcome) == {"a": (1.0, 2), "b": (1.0, 1)}


def test_a_ptk_that_may_have_no_more_leaves_its_shares_to_others():
    # half a window is too little for b. a takes .1, the most it may have, and then .9 is left
    least = SETTING.charge_of("", SETTING.losses[0])
    ptks = [
        SimulatedPtk(
            Waiting(name, at, (1, 1), (Loss(loss), Loss(loss))), 0.5, lambda look: look.ptk_id == "b"
        )
        for at, (name, loss) in enumerate({"a": 10**8, "b": 6 * 10**8}.items())
    ]
    for mode in Mode:
        stream = SimulatedStream(8, 8, (SETTING.whole,), least, SETTING.charge_of)
        outcome = simulate(ptks, StrategyState(Adaptive(ROWS, mode), stream), stream)
        assert times(outcome) == {"a": (None, 1), "b": (1.0, 1)}


def test_guided_goes_straight_to_its_menu():
    outcome = replay([arrival("a", 0.0, Need(0.0, 40.0), (0.4, 100))], Adaptive(ROWS, Mode.GUIDED), SETTING)
    assert times(outcome) == {"a": (1.0, 1)}
    assert left(outcome)[0] == 0.6


def test_aggressive_takes_the_whole_block():
    outcome = replay([arrival("a", 0.0, Need(0.0, 40.0))], Adaptive(ROWS, Mode.AGGRESSIVE), SETTING)
    assert times(outcome) == {"a": (1.0, 1)}
    assert left(outcome) == [0.0, *[1.0] * 7]


def test_who_needs_many_windows_waits_for_them():
    # 300 rows without privacy, at any loss: the menu asks for .1 on three windows
    outcome = replay([arrival("a", 0.0, Need(300.0), (0.1, 300))], Adaptive(ROWS, Mode.GUIDED), SETTING)
    assert times(outcome) == {"a": (3.0, 1)}
    assert left(outcome) == [0.9] * 3 + [1.0] * 5


def test_a_draw_of_noise_for_each_block_needs_more_of_them():
    # at .1: 100 rows need 10 / .1 = 100; on four blocks 100 sqrt(4) = 200 of 400
    need = Need(0.0, 20.0)
    once = replay([arrival("a", 0.0, need, (0.1, 200))], Adaptive(ROWS, Mode.GUIDED), SETTING)
    apart = replay(
        [arrival("a", 0.0, need, (0.1, 200))], Adaptive(ROWS, Mode.GUIDED), SETTING, draw_per_block=True
    )
    assert times(once) == {"a": (2.0, 1)}
    # two blocks: 200 rows, 283 needed; RETRY with .2: 141 needed
    assert times(apart) == {"a": (2.0, 2)}


def test_windows_expire_and_are_counted():
    short = replace(SETTING, retention=2)
    outcome = replay([arrival("a", 0.0, Need(300.0), (0.1, 300))], Adaptive(ROWS, Mode.GUIDED), short)
    # the menu asks for three windows and two are kept: it doubles from .1 on one window, and is never released
    assert times(outcome)["a"][0] is None
    assert sorted(outcome.left) == list(range(8))
    assert outcome.released_share(0, 1) == 0.0
    assert outcome.waits(0, 1, 8) == [8.0]


def test_who_arrives_too_late_or_never_is_told_of():
    outcome = replay([arrival("a", 9.0, Need(1.0))], Adaptive(ROWS), SETTING)
    assert times(outcome) == {"a": (None, 0)}
    assert outcome.released_share(0, 8) == 1.0
    assert outcome.waits(0, 8, 8) == []


def test_an_order_decides_who_is_released_first():
    # a asks for .7 of four windows, b to e for .5 of one each. At the close of window 3 all are there. If b to e go
    # first, two of them share window 3 and two share window 2, so a waits for windows 4 and 5.
    wide = arrival("a", 2.5, Need(400.0), (0.7, 400))
    narrow = [arrival(name, 3.5, Need(100.0), (0.5, 100)) for name in "bcde"]
    first, packed = (
        replay([wide, *narrow], Competing(ROWS, Mode.GUIDED, order, SETTING.whole), SETTING)
        for order in (by_arrival, by_efficiency)
    )
    assert times(first)["a"] == (4.0, 1)
    assert times(packed) == {"a": (6.0, 1), **dict.fromkeys("bcde", (4.0, 1))}


def test_under_renyi_a_block_is_counted_at_one_order():
    capacity = Loss.capacity(1, 1e-6)
    least = Loss.charge(0.01, 0)
    setting = Setting(2, ROWS, capacity, (least, Loss.charge(1)), 2, Accountant.RENYI)
    outcome = replay([arrival("a", 0.0, Need(50.0))], Adaptive(ROWS), setting)
    caps = caps_of(Accountant.RENYI, capacity).amounts
    charge = setting.charge_of("a", least).amounts
    place = setting.whole.coordinate
    assert outcome.left[0] == caps[place] - charge[place]
    assert Accountant.RENYI.coordinates[place] == "32"


@pytest.mark.parametrize("mode", Mode)
def test_a_replay_ends_with_every_ptk_and_every_block_once(mode: Mode):
    setting = Setting(60, 16_000, Loss(10**9), (Loss(10**7), Loss(10**9)), 40)
    arrivals = Workload(2.0).arrivals(60, 5)
    outcome = replay(arrivals, Adaptive(16_000, mode), setting)
    assert sorted(one.ptk_id for one in outcome.releases) == [one.ptk_id for one in arrivals]
    assert sorted(outcome.left) == list(range(60))
    assert all(0 <= nano <= 10**9 for nano in outcome.left.values())
    assert outcome == replay(arrivals[::-1], Adaptive(16_000, mode), setting)


def test_more_ptks_than_a_block_can_serve_do_not_bring_the_stream_to_a_standstill():
    # twelve wait and each look costs at least .1: shares of a twelfth would pay for none
    asking = [arrival(f"p{i:02}", 0.0, Need(0.0, 10.0)) for i in range(12)]
    outcome = replay(asking, Adaptive(ROWS), SETTING)
    assert [times(outcome)[one.ptk_id] for one in asking] == [(1.0, 1)] * 10 + [(2.0, 1)] * 2


# streaming


def test_streaming_divides_the_rows_of_a_window_and_uses_each_once():
    # 100 rows an hour. a needs 30 of its first look of 100, b 150 at epsilon 1
    asking = [arrival("a", 0.0, Need(30.0)), arrival("b", 0.0, Need(150.0))]
    outcome = stream_through(asking, SETTING)
    # both have 50, 100 after window 1; a is released; b begins anew with 200: windows 2 and 3
    assert times(outcome) == {"a": (2.0, 1), "b": (4.0, 2)}
    assert left(outcome) == [0.0] * 4 + [1.0] * 4


def test_streaming_that_knows_the_needs_is_never_later():
    asking = [arrival("a", 0.0, Need(30.0)), arrival("b", 0.0, Need(100.0, 50.0))]
    known = stream_through(asking, SETTING, looks_fail=False)
    # 30 each, then 40 for b alone; 80 of its 150 are missing
    assert times(known) == {"a": (1.0, 1), "b": (2.0, 1)}
    for seed in range(5):
        arrivals = Workload(0.05, least_rows=20, most_rows=2000).arrivals(8, seed)
        bound, real = (times(stream_through(arrivals, SETTING, looks_fail=fail)) for fail in (False, True))
        assert all((bound[name][0] or 9) <= (real[name][0] or 9) for name in bound)
