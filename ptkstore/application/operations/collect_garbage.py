"""Find and delete files that nobody can reach any more: what writers left that died before they had said so.

The files that may be removed, once they are older than a declared age:

- in the lake, a file of a version's folder that has no manifest and that the catalog never elected, and a file that
  the folder's manifest does not name;
- in the lake, a bundle of team code that no registered PTK, no version and no training under way needs;
- in the raw zone, rows of a batch that was never committed, and files of a window that has expired.

Everything else stays: each version with a manifest, whether the catalog knows it or not (a recovery adopts it), and
each elected version. Anything that this module does not understand is reported and not touched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from ptkstore.application.operations import bundle_garbage
from ptkstore.domain.streams.windows import WindowId, WindowState
from ptkstore.domain.versions.versions import PROBE, PTKS
from ptkstore.errors import CorruptObject, InvalidRequest
from ptkstore.ports.catalog import Read
from ptkstore.ports.objects import Lake, RawZone
from ptkstore.ports.team_code import Bundles

LEAST_AGE = timedelta(hours=1)
"""Longer than any ingest or placing takes: what is younger may be on its way."""
USUAL_AGE = timedelta(days=7)

_CODE = "code-not-needed"
_VERSION = re.compile(rf"{PTKS}/([^/]+)/v(\d{{8}})/([^/]+)")
_BATCH = re.compile(r"([^/]+)/(\d+)/batches/([^/]+)\.parquet")
_OF_WINDOW = re.compile(r"([^/]+)/(\d+)/.+")


@dataclass(frozen=True, slots=True)
class Garbage:
    """A file that could go, or (with `kept`) one that nobody knows and that stays; `place` is `lake` or `raw`."""

    place: str
    path: str
    reason: str
    kept: bool = False


def find_garbage(older_than: timedelta, *, begin: Read, lake: Lake, raw: RawZone) -> tuple[Garbage, ...]:
    """Return what `collect_garbage` would delete, and what it does not understand."""
    if older_than < LEAST_AGE:
        raise InvalidRequest("files younger than an hour may be on their way: choose one hour or more")
    least = older_than.total_seconds()
    # The files first and the catalog then: whatever was elected or committed in between counts as reached.
    ages = lake.ages()
    lake_files = [path for path, age in ages.items() if age >= least]
    raw_files = [path for path, age in raw.ages().items() if age >= least]
    code = (Garbage("lake", path, _CODE) for path in bundle_garbage.unneeded(ages, least, begin, lake))
    return (*_of_lake(lake_files, begin, lake), *code, *_of_raw(raw_files, begin))


def collect_garbage(
    older_than: timedelta, *, begin: Read, lake: Lake, raw: RawZone, bundles: Bundles
) -> tuple[Garbage, ...]:
    """Delete what nobody can reach; what was found, and what stays. Repeatable.

    Parameters
    ----------
    older_than : timedelta
        At least `LEAST_AGE`.
    """
    garbage = find_garbage(older_than, begin=begin, lake=lake, raw=raw)
    code = [one.path for one in garbage if one.reason == _CODE]
    if code:
        bundle_garbage.remove(code, older_than.total_seconds(), begin, lake, bundles)
    for one in garbage:
        if one.kept or one.reason == _CODE:
            continue
        if one.place == "lake":
            # Again, right before: a placing of this version may have begun since.
            if any(again.path == one.path and not again.kept for again in _of_lake([one.path], begin, lake)):
                lake.remove(one.path)
        else:
            raw.remove(one.path)
    return garbage


def _of_lake(paths: Sequence[str], begin: Read, lake: Lake) -> Iterator[Garbage]:
    folders: dict[tuple[str, int], list[tuple[str, str]]] = {}
    for path in paths:
        match = _VERSION.fullmatch(path)
        if path == PROBE or bundle_garbage.is_of_bundles(path):
            continue
        if match is None:
            yield Garbage("lake", path, "unknown-file", kept=True)
        else:
            folders.setdefault((match[1], int(match[2])), []).append((path, match[3]))
    for (ptk_id, number), files in sorted(folders.items()):
        with begin() as uow:
            elected = any(version.number == number for version in uow.versions.of(ptk_id))
        try:
            named = lake.listed(ptk_id, number)
        except (CorruptObject, InvalidRequest):
            yield from (Garbage("lake", path, "unknown-file", kept=True) for path, _ in files)
            continue
        for path, name in files:
            if named is not None and name not in named:
                yield Garbage("lake", path, "not-in-manifest")
            elif named is None and not elected:
                yield Garbage("lake", path, "never-elected")


def _of_raw(paths: Sequence[str], begin: Read) -> Iterator[Garbage]:
    with begin() as uow:
        stream_names = {stream.name for stream in uow.streams.all()}
    tokens: dict[WindowId, frozenset[str]] = {}
    expired: dict[str, frozenset[int]] = {}
    for path in paths:
        match = _OF_WINDOW.fullmatch(path)
        if match is None or match[1] not in stream_names:
            yield Garbage("raw", path, "unknown-file", kept=True)
            continue
        window = WindowId(match[1], int(match[2]))
        if window.stream not in expired:
            with begin() as uow:
                gone = [w for w in uow.windows.of(window.stream) if w.state is WindowState.EXPIRED]
            expired[window.stream] = frozenset(w.id.index for w in gone)
        batch = _BATCH.fullmatch(path)
        if window.index in expired[window.stream]:
            yield Garbage("raw", path, "expired-window")
        elif batch is not None:
            if window not in tokens:
                with begin() as uow:
                    tokens[window] = frozenset(uow.streams.tokens_for(window))
            if batch[3] not in tokens[window]:
                yield Garbage("raw", path, "never-committed")
