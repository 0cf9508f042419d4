"""Find the published versions that a window's rows went into."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice

from ptkstore.domain.snapshots import Provenance
from ptkstore.domain.windows import WindowId
from ptkstore.ports.catalog import Begin, UnitOfWork

Key = tuple[str, int]
"""A PTK and the number of one of its versions."""


@dataclass(frozen=True, slots=True)
class Descendant:
    """A published version that a window's rows went into.

    `made_from` are the versions whose states went into it directly, as `<ptk_id> v<number>`. `newest` says that its PTK
    has no later version in the lake: it is what consumers read.
    """

    ptk_id: str
    version: int
    window_end: str
    release_decision: str
    made_from: tuple[str, ...]
    newest: bool


def trace_window(
    stream: str, window: int, *, after: Key | None = None, limit: int | None = None, begin: Begin
) -> tuple[Descendant, ...]:
    """The versions in the lake, of all PTKs that the stream ever had, that were trained on a window or made from such.

    By PTK and number, up to `limit` of those that come after `after`. Their manifests say all of it: it is known to
    whoever may read states of the stream. What failed, is under way or is not in the lake yet is not told.

    Raises
    ------
    UnknownName
        No such stream, or it has closed no such window.
    """
    with begin() as uow:
        uow.streams.get(stream)
        uow.windows.get(WindowId(stream, window))
        return tuple(islice(_descendants(uow, stream, window, after or ("", 0)), limit))


def _descendants(uow: UnitOfWork, stream: str, window: int, after: Key) -> Iterator[Descendant]:
    placed = uow.jobs.placed()
    ptk_ids = uow.ptks.ids_on(stream)
    search = _Search(uow, ptk_ids, window)
    for ptk_id in ptk_ids:
        if ptk_id < after[0]:
            continue
        newest = placed.get(ptk_id, 0)
        for number, one in search.candidates(ptk_id).items():
            if after < (ptk_id, number) and number <= newest and search.reaches((ptk_id, number)):
                yield Descendant(
                    ptk_id,
                    number,
                    one.window_end,
                    one.release_decision,
                    tuple(f"{origin} v{of}" for origin, of in one.made_from),
                    number == newest,
                )


class _Search:
    """Follows versions back until one was trained on the window.

    A state holds no window that is later than its newest one: versions of earlier windows are not read, and PTKs only
    once something asks for them.
    """

    def __init__(self, uow: UnitOfWork, ptk_ids: Collection[str], window: int) -> None:
        self._uow, self._ptk_ids, self._window = uow, frozenset(ptk_ids), window
        self._candidates: dict[str, dict[int, Provenance]] = {}
        self._reaches: dict[Key, bool] = {}

    def candidates(self, ptk_id: str) -> dict[int, Provenance]:
        """The versions of a PTK of the stream that may hold the window, by number."""
        if ptk_id not in self._candidates:
            known = ptk_id in self._ptk_ids  # windows of another stream have other numbers
            found = self._uow.versions.provenance(ptk_id, self._window) if known else ()
            self._candidates[ptk_id] = {one.number: one for one in found}
        return self._candidates[ptk_id]

    def reaches(self, key: Key) -> bool:
        """Whether a version was trained on the window, or made from one that was."""
        path, entered = [key], set[Key]()
        while path:
            ptk_id, number = path[-1]
            version = self.candidates(ptk_id).get(number)
            if version is None or version.window_index == self._window:
                self._reaches[path.pop()] = version is not None
                continue
            unknown = [one for one in version.made_from if not (one in self._reaches or one in entered)]
            if unknown:
                entered.add(path[-1])
                path.extend(unknown)
            else:
                self._reaches[path.pop()] = any(self._reaches.get(one, False) for one in version.made_from)
        return self._reaches[key]
