"""Bundles of team code that nothing needs any more: no registered PTK, no version, no training under way."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ptkstore.domain.bundles import BUNDLES, bundle_of, bundle_path
from ptkstore.domain.jobs import JobKind, JobState
from ptkstore.domain.names import team_of
from ptkstore.domain.snapshots import PTKS
from ptkstore.errors import CorruptObject, InvalidRequest, UnknownName
from ptkstore.ports.catalog import Begin
from ptkstore.ports.objects import Lake
from ptkstore.ports.team_code import Bundles

_BUNDLE = re.compile(rf"{BUNDLES}/([0-9a-f]{{64}})\.tar")
_CLAIM = re.compile(rf"{BUNDLES}/teams/([a-z0-9_]+)/([0-9a-f]{{64}})-([0-9]{{1,9}})")
_MANIFEST = re.compile(rf"{PTKS}/([^/]+)/v(\d{{8}})/manifest\.json")
_AT_ONCE = 32  # archives of up to a MiB in memory


def is_of_bundles(path: str) -> bool:
    """Whether a file of the lake is a bundle, or says whose one is."""
    return bool(_BUNDLE.fullmatch(path) or _CLAIM.fullmatch(path))


@dataclass(frozen=True, slots=True)
class _Stored:
    """A bundle's files and their ages, and the teams that it counts for."""

    paths: dict[str, float] = field(default_factory=dict)
    teams: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Needed:
    """Bundles that are needed, and teams of whose bundles nobody knows now which are."""

    bundles: frozenset[str]
    training: frozenset[str]

    def keeps(self, sha256: str, teams: set[str]) -> bool:
        return sha256 in self.bundles or bool(self.training and (not teams or self.training & teams))


def unneeded(ages: Mapping[str, float], least: float, begin: Begin, lake: Lake) -> Iterator[str]:
    """Files of bundles that nothing needs, all of whose files are older than `least` seconds.

    `ages` is of the whole lake. Of a lake with a manifest that cannot be read nothing is told: what it needs is open.
    """
    stored: dict[str, _Stored] = {}
    for path, age in ages.items():
        if match := _BUNDLE.fullmatch(path):
            stored.setdefault(match[1], _Stored()).paths[path] = age
        elif match := _CLAIM.fullmatch(path):
            one = stored.setdefault(match[2], _Stored())
            one.paths[path] = age
            one.teams.add(match[1])
    old = {sha256: one for sha256, one in stored.items() if min(one.paths.values()) >= least}
    if not old:
        return
    needed = _needed(ages, begin, lake)
    for sha256, one in sorted(old.items()):
        if needed is not None and not needed.keeps(sha256, one.teams):
            yield from sorted(one.paths)  # the archive before its claims


def remove(paths: Sequence[str], begin: Begin, lake: Lake, bundles: Bundles) -> None:
    """Delete files of unneeded bundles, and put back the archives that came to be needed meanwhile."""
    archives = [match[1] for match in map(_BUNDLE.fullmatch, paths) if match]
    for start in range(0, len(archives), _AT_ONCE):
        needed = _needed(lake.ages(), begin, lake)
        held = {
            sha256: _content(sha256, bundles)
            for sha256 in archives[start : start + _AT_ONCE]
            if needed is not None and sha256 not in needed.bundles
        }
        for sha256 in held:
            lake.remove(bundle_path(sha256))
        needed = _needed(lake.ages(), begin, lake)  # again: who registers a bundle looks after it then, too
        for sha256, content in held.items():
            if content is not None and (needed is None or sha256 in needed.bundles):
                bundles.put(content)
    left = lake.ages()
    for path in paths:
        claim = _CLAIM.fullmatch(path)
        if claim is not None and bundle_path(claim[2]) not in left:
            lake.remove(path)


def _content(sha256: str, bundles: Bundles) -> bytes | None:
    """A bundle; None for what is none any more."""
    try:
        return bundles.get(sha256)
    except (UnknownName, CorruptObject):
        return None


def _needed(paths: Iterable[str], begin: Begin, lake: Lake) -> _Needed | None:
    """Versions that only the lake knows count as well: a recovery takes them over. None if one cannot be read."""
    found: set[str | None] = set()
    with begin() as uow:
        found |= {bundle_of(spec.estimator) for spec in uow.ptks.find()}
        elected = set()
        for version in uow.versions.all():
            elected.add((version.ptk_id, version.number))
            found.add(bundle_of(version.content["config"]))
        # A training goes on with the code it was begun with, also where its PTK has other code by now, or is gone.
        training = {
            team_of(str(job.ptk_id))
            for job in uow.jobs.find(state=JobState.OPENED)
            if job.kind is JobKind.TRAIN
        }
    for match in filter(None, map(_MANIFEST.fullmatch, paths)):
        if (match[1], int(match[2])) not in elected:
            try:
                config = (lake.manifest(match[1], int(match[2])) or {}).get("config")
                found.add(bundle_of(config) if isinstance(config, Mapping) else None)
            except (CorruptObject, InvalidRequest):
                return None
    return _Needed(frozenset(one for one in found if one is not None), frozenset(training))
