"""Find the published versions that a window's rows went into."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from ptkstore.domain.accounting.assurances import UNKNOWN, Assured
from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.streams.windows import WindowId, start_of
from ptkstore.domain.versions.versions import Lineage
from ptkstore.errors import UnknownName
from ptkstore.ports.catalog import CatalogView, Read

Key = tuple[str, int]
"""A PTK and the number of one of its versions."""

_FIRST: Key = ("", 0)


@dataclass(frozen=True, slots=True)
class Descendant:
    """A published version that a window's rows went into.

    `made_from` are the versions whose states went into it directly, as `<ptk_id> v<number>`. `newest` says that its
    PTK has no later version in the lake. With the decision `unreadable`, its manifest cannot be read: nobody knows
    what went into it, and it is listed for that.
    """

    ptk_id: str
    version: int
    window_end: str
    release_decision: str
    made_from: tuple[str, ...]
    newest: bool
    assured: Assured = UNKNOWN


def trace_window(
    stream: str, window: int, *, after: Key | None = None, limit: int | None = None, begin: Read
) -> tuple[Descendant, ...]:
    """Find the versions in the lake, of all PTKs the stream ever had, trained on a window or made from such.

    By PTK and number, up to `limit` of those that come after `after`. Their manifests say all of it. The list has
    nothing that failed, is under way or is not in the lake yet. A restored catalog answers for windows that it has yet
    to close again, from the versions that it took over from the lake.

    Parameters
    ----------
    after : tuple of str and int, optional
        A PTK and a number: the last one that was read.

    Raises
    ------
    UnknownName
        No such stream, or it has closed no such window and no version is made from one.
    """
    with begin() as uow:
        policy = uow.streams.get(stream).policy
        traced = WindowId(stream, window)
        _check_exists(uow, traced, policy)
        return tuple(islice(_descendants(uow, traced, policy, after or _FIRST), limit))


def _check_exists(uow: CatalogView, traced: WindowId, policy: Policy) -> None:
    try:
        uow.windows.get(traced)
    except UnknownName:
        if next(_descendants(uow, traced, policy, _FIRST), None) is None:
            raise


def _descendants(uow: CatalogView, traced: WindowId, policy: Policy, after: Key) -> Iterator[Descendant]:
    placed = uow.jobs.placed()
    search = _Search(uow, traced)
    for ptk_id in uow.ptks.ids_on(traced.stream):
        if ptk_id < after[0]:
            continue
        newest = placed[ptk_id] if ptk_id in placed else _read_from_the_lake(uow, ptk_id)
        for number, one in search.candidates(ptk_id).items():
            if after < (ptk_id, number) and number <= newest and search.reaches((ptk_id, number)):
                yield Descendant(
                    ptk_id,
                    number,
                    one.window_end or start_of(policy, one.window_index + 1).isoformat(),
                    one.release_decision,
                    tuple(f"{origin} v{of}" for origin, of in one.made_from),
                    number == newest,
                    one.assured,
                )


def _read_from_the_lake(uow: CatalogView, ptk_id: str) -> int:
    """The newest version of a PTK without a cursor, yet to be registered again: a recovery read all of them."""
    latest = uow.versions.latest(ptk_id)
    return 0 if latest is None else latest.number


class _Search:
    """Follows versions back until one was trained on the window.

    A state contains no window that is later than its newest one. So versions of earlier windows are not read, and PTKs
    only once something asks for them.
    """

    def __init__(self, uow: CatalogView, traced: WindowId) -> None:
        self._uow, self._asked = uow, traced
        self._candidates: dict[str, dict[int, Lineage]] = {}
        self._reaches: dict[Key, bool] = {}

    def candidates(self, ptk_id: str) -> dict[int, Lineage]:
        """The versions of a PTK that may hold the window, by number."""
        if ptk_id not in self._candidates:
            versions = self._uow.versions.lineage(ptk_id, self._asked)
            self._candidates[ptk_id] = {one.number: one for one in versions}
        return self._candidates[ptk_id]

    def reaches(self, key: Key) -> bool:
        """Whether a version was trained on the window, or made from one that was; or may be, for all that is known."""
        path, entered = [key], set[Key]()
        while path:
            ptk_id, number = path[-1]
            version = self.candidates(ptk_id).get(number)
            if version is None or version.was_trained_on(self._asked.index) or not version.readable:
                self._reaches[path.pop()] = version is not None
                continue
            unknown = [one for one in version.made_from if not (one in self._reaches or one in entered)]
            if unknown:
                entered.add(path[-1])
                path.extend(unknown)
            else:
                self._reaches[path.pop()] = any(self._reaches.get(one, False) for one in version.made_from)
        return self._reaches[key]
