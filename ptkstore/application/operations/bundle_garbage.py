"""Bundles of team code that nothing needs any more: no registered PTK, no version, no training or validation to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from ptkstore.domain.jobs import Job, JobKind, JobState
from ptkstore.domain.names import team_of
from ptkstore.domain.ptks.bundles import BUNDLES, bundle_of, bundle_path
from ptkstore.domain.versions.versions import PTKS
from ptkstore.errors import CorruptObject, InvalidRequest, UnknownName
from ptkstore.ports.catalog import Read
from ptkstore.ports.objects import Lake
from ptkstore.ports.team_code import Bundles

_BUNDLE = re.compile(rf"{BUNDLES}/([0-9a-f]{{64}})\.tar")
_CLAIM = re.compile(rf"{BUNDLES}/teams/([a-z0-9_]+)/([0-9a-f]{{64}})-([0-9]{{1,9}})")
_MANIFEST = re.compile(rf"{PTKS}/([^/]+)/v(\d{{8}})/manifest\.json")


def is_of_bundles(path: str) -> bool:
    """Tell whether a file of the lake is a bundle, or says whose one is."""
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


def unneeded(ages: Mapping[str, float], least: float, begin: Read, lake: Lake) -> Iterator[str]:
    """Yield the files of bundles that nothing needs, all of whose files are older than `least` seconds.

    `ages` is of the whole lake. If a manifest of the lake cannot be read, nothing is reported: its
    bundles are unknown then.
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
    needed = _Needs(ages, begin, lake).now()
    for sha256, one in sorted(old.items()):
        if needed is not None and not needed.keeps(sha256, one.teams):
            yield from sorted(one.paths)  # the archive before its claims


def remove(paths: Sequence[str], least: float, begin: Read, lake: Lake, bundles: Bundles) -> None:
    """Delete files of unneeded bundles that are older than `least` seconds, one by one after one more look at each.

    An archive that came to be needed while it went is put back, whatever happens but the end of this process; then
    the next `apply` of its team brings it.
    """
    needs = _Needs(lake.ages(), begin, lake)
    teams: dict[str, set[str]] = {}
    for match in filter(None, map(_CLAIM.fullmatch, paths)):
        teams.setdefault(match[2], set()).add(match[1])
    for match in filter(None, map(_BUNDLE.fullmatch, paths)):
        _remove(match[1], teams.get(match[1], set()), least, needs, lake, bundles)
    left = lake.ages()
    for path in paths:
        claim = _CLAIM.fullmatch(path)
        if claim is not None and bundle_path(claim[2]) not in left:
            lake.remove(path)


def _remove(sha256: str, teams: set[str], least: float, needs: _Needs, lake: Lake, bundles: Bundles) -> None:
    content: bytes | None = None
    with suppress(UnknownName, CorruptObject):
        content = bundles.get(sha256)
    if needs.keep(sha256, teams):
        return
    try:
        # After the look at what is needed: an upload comes before its registration.
        if bundles.age(sha256) < least:
            return
    except UnknownName:
        return
    put_back = True
    try:
        lake.remove(bundle_path(sha256))
    finally:
        try:
            put_back = needs.keep(sha256, teams)  # whoever registers it from now on looks after it then
        finally:
            if put_back and content is not None:
                bundles.put(content)


class _Needs:
    """The bundles that are needed, by a fresh look at the catalog each time.

    Versions that only the lake knows count as well: a recovery takes them over. They are read once; one that cannot be
    read keeps everything.
    """

    def __init__(self, paths: Iterable[str], begin: Read, lake: Lake) -> None:
        self._begin = begin
        self._of_versions: dict[tuple[str, int], str | None] = {}
        self._catalog()
        self._of_lake = self._lake_alone(paths, lake)

    def keep(self, sha256: str, teams: set[str]) -> bool:
        """Whether a bundle stays that counts for these teams."""
        needed = self.now()
        return needed is None or needed.keeps(sha256, teams)

    def now(self) -> _Needed | None:
        """The bundles that are needed now; None if that is open."""
        if self._of_lake is None:
            return None
        catalog = self._catalog()
        return _Needed(catalog.bundles | self._of_lake, catalog.training)

    def _catalog(self) -> _Needed:
        with self._begin() as uow:
            registered = {bundle_of(spec.estimator) for spec in uow.ptks.find()}
            for version in uow.versions.all():
                key = (version.ptk_id, version.number)
                if key not in self._of_versions:
                    self._of_versions[key] = bundle_of(version.content["config"])
            # Also where their PTK has other code by now, or is gone.
            jobs = [*uow.jobs.find(state=JobState.OPENED), *uow.jobs.find(state=JobState.READY)]
            training = {team_of(str(job.ptk_id)) for job in jobs if _keeps_its_code(job)}
        return _Needed(_without_none({*registered, *self._of_versions.values()}), frozenset(training))

    def _lake_alone(self, paths: Iterable[str], lake: Lake) -> frozenset[str] | None:
        published: set[str | None] = set()
        for match in filter(None, map(_MANIFEST.fullmatch, paths)):
            if (match[1], int(match[2])) not in self._of_versions:
                try:
                    config = (lake.manifest(match[1], int(match[2])) or {}).get("config")
                    published.add(bundle_of(config) if isinstance(config, Mapping) else None)
                except (CorruptObject, InvalidRequest):
                    return None
        return _without_none(published)


def _keeps_its_code(job: Job) -> bool:
    """Whether a job continues with code that its PTK may not have any more.

    A state that waits for its verdict is judged by the code that trained it.
    """
    return job.kind is JobKind.VALIDATE or (job.kind is JobKind.TRAIN and job.state is JobState.OPENED)


def _without_none(digests: Iterable[str | None]) -> frozenset[str]:
    return frozenset(one for one in digests if one is not None)
