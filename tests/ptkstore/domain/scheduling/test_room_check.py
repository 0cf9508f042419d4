"""A registration is refused only when no number of kept windows could serve it."""

from __future__ import annotations

import pytest

from ptkstore.domain.accounting.accountants import Accountant, Charge
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.scheduling.block_rooms import whole_block
from ptkstore.domain.scheduling.model import MenuEntry, Waiting
from ptkstore.domain.scheduling.room_check import why_never

ROWS = 100
WHOLE = whole_block(Accountant.BASIC, Loss(1000, 5), [])


def basic(ptk_id: str, loss: Loss) -> Charge:
    return Charge.basic(loss)


def ptk(windows: tuple[int, int], low: int, high: int, *menu: tuple[int, int], delta: int = 0) -> Waiting:
    ways = tuple(MenuEntry(Loss(nano, delta), rows) for nano, rows in menu)
    return Waiting("t.a", 0, windows, (Loss(low, delta), Loss(high, delta)), ways)


@pytest.mark.parametrize(
    "one",
    [
        ptk((1, 1), 1000, 1000),
        ptk((30, 99), 1, 2000),
        ptk((1, 30), 1, 2000, (5, 10**9), (1000, 3000)),
        ptk((1, 99), 1, 2000, (1000, 3000)),
        ptk((1, 99), 1, 2000, delta=5),
    ],
)
def test_what_enough_windows_would_serve_is_admitted(one: Waiting):
    assert why_never(one, WHOLE, 30, ROWS, basic) is None


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (ptk((31, 40), 1, 1000), "t.a needs 31 windows at once, and 30 are kept"),
        (ptk((1, 9), 1001, 2000), "t.a needs at least epsilon 0.000001001, delta 0, which does not fit"),
        (ptk((1, 9), 1, 9, delta=6), "which does not fit an empty block"),
        (ptk((1, 9), 1, 2000, (1001, 1), (1500, 1)), "with no loss that it may be given"),
        (ptk((1, 9), 1, 400, (500, 1)), "with no loss that it may be given"),
        (
            ptk((1, 99), 1, 2000, (500, 9000), (1000, 3001), (1001, 1)),
            "the target of t.a needs 3001 rows at the largest loss, and the 30 windows",
        ),
        (
            ptk((1, 9), 1, 2000, (1000, 901)),
            "and the 9 windows that it may read at once are expected to have 900. "
            "By the stream's rows_per_window, each has 100 for training",
        ),
    ],
)
def test_what_would_wait_forever_is_refused_with_the_reason(one: Waiting, reason: str):
    told = why_never(one, WHOLE, 30, ROWS, basic)
    assert told is not None
    assert reason in told
