"""The order of service among PTKs that windows could all serve."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from ptkstore.domain.scheduling.model import Proposal
from ptkstore.domain.scheduling.queues import Awaited

One = TypeVar("One")
Found = TypeVar("Found")


def served_in_turn(
    asking: Iterable[One],
    next_look: Callable[[One], Found],
    take: Callable[[One, Proposal], None],
    in_order: Callable[[Sequence[tuple[One, Proposal]]], Iterable[One]] | None = None,
    passed_over: Callable[[One], object] | None = None,
) -> Iterator[tuple[One, Found]]:
    """Yield each PTK that asks, with its training or with what it waits for.

    Parameters
    ----------
    asking : iterable
        The PTKs, as they arrived.
    next_look : callable
        Returns the training of a PTK that the unspent budget would serve, or something else.
    take : callable
        Subtracts a training from the unspent budget.
    in_order : callable, optional
        Sorts those who could be served before anything is taken. Each asks again in its turn, since others may have
        taken what it asked for. A PTK that has to be compared first asks again last, so that nothing is paid for a
        window that others have taken. By default the first to arrive is served first.
    passed_over : callable, optional
        Called with who could be served before others were, and then could not.
    """
    could: list[tuple[One, Proposal]] = []
    later: list[One] = []
    for one in asking:
        found = next_look(one)
        if in_order is not None and not isinstance(found, Awaited):
            if isinstance(found, Proposal):
                could.append((one, found))
            else:
                later.append(one)
            continue
        if isinstance(found, Proposal):
            take(one, found)
        yield one, found
    first = () if in_order is None else tuple(in_order(could))
    for turn, one in enumerate((*first, *later)):
        found = next_look(one)
        if isinstance(found, Proposal):
            take(one, found)
        elif turn < len(first) and passed_over is not None and isinstance(found, Awaited):
            passed_over(one)
        yield one, found
