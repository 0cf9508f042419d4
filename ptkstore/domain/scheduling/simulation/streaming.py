"""Streaming composition: each row is given to one look of one PTK, and then gone (Sage SOSP'19, section 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ptkstore.domain.scheduling.simulation.replay import Outcome, Released, Setting
from ptkstore.domain.scheduling.simulation.workload import Arrival

_NEARLY = 1e-6  # rows are divided as real numbers


@dataclass(slots=True)
class _Collecting:
    """A PTK, the size of the look that it collects rows for, and how many of them are missing."""

    arrival: Arrival
    size: float
    missing: float
    looks: int = 0


def stream_through(arrivals: Sequence[Arrival], setting: Setting, *, looks_fail: bool = True) -> Outcome:
    """Divide the rows of each window evenly among those who wait, and release a PTK once a look has enough of them.

    A row is used by one look of one PTK, with the epsilon of a whole block, and then gone. A PTK begins with the rows
    of one window, as the other strategies do. On RETRY it collects twice as many new ones.

    Parameters
    ----------
    looks_fail : bool
        False: a PTK knows what it needs, and its first look has just that. So well can no streaming do that has
        to find out, and it is a bound for those that go on learning from one look to the next.
    """
    outcome = Outcome()
    epsilon = setting.losses[1].epsilon
    todo = sorted(arrivals, key=lambda one: (one.time, one.ptk_id))
    waiting: list[_Collecting] = []
    for window in range(setting.windows):
        while todo and todo[0].time <= window + 1:
            arrival = todo.pop(0)
            size = float(setting.rows_per_window) if looks_fail else arrival.need.rows(epsilon)
            waiting.append(_Collecting(arrival, size, size))
        outcome.left[window] = 0 if waiting else setting.capacity.epsilon_nano
        outcome.decisions += len(waiting)
        rows = float(setting.rows_per_window)
        while waiting and rows > _NEARLY:
            each = min(min(one.missing for one in waiting), rows / len(waiting))
            rows -= each * len(waiting)
            for one in waiting:
                one.missing -= each
            waiting = [one for one in waiting if not _released(one, epsilon, window + 1.0, outcome)]
    outcome.releases += [Released(one.arrival.ptk_id, one.arrival.time, None, one.looks) for one in waiting]
    outcome.releases += [Released(one.ptk_id, one.time, None, 0) for one in todo]
    return outcome


def _released(one: _Collecting, epsilon: float, time: float, outcome: Outcome) -> bool:
    """Take the look that a PTK has rows for; whether it was accepted."""
    if one.missing > _NEARLY:
        return False
    one.looks += 1
    if one.size >= one.arrival.need.rows(epsilon):
        outcome.releases.append(Released(one.arrival.ptk_id, one.arrival.time, time, one.looks))
        return True
    one.size *= 2
    one.missing = one.size
    return False
