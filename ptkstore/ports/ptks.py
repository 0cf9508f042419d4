"""PTKs of the catalog, their profiles, their versions and what is estimated of these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from ptkstore.domain.evaluations import Evaluation
from ptkstore.domain.ptks.accept_deadlines import AcceptDeadline
from ptkstore.domain.ptks.profiles import ProfileRecord
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.streams.windows import WindowId
from ptkstore.domain.validations import Validation
from ptkstore.domain.versions.versions import Lineage, Version


class PtksView(Protocol):
    """Registered PTKs, each with what its profile says today, for reading."""

    def check_free(self, ptk_id: str, stream: str) -> None:
        """Raise `NameTaken` if the id is registered, or was deregistered on another stream."""

    def get(self, ptk_id: str) -> PtkSpec:
        """Read a PTK, for who may know: `Deregistered` if it no longer is one, `UnknownName` if it never was."""

    def find(self, *, stream: str | None = None, team: str | None = None) -> tuple[PtkSpec, ...]:
        """Find registered PTKs, by id."""

    def tested_on(self, stream: str) -> tuple[PtkSpec, ...]:
        """Find registered PTKs of other streams whose verdicts this one pays for, by id."""

    def labelled_stream(self, ptk_id: str) -> str | None:
        """Return the other stream that pays, or paid before, for verdicts on a PTK; None if none ever did."""

    def stream_of(self, ptk_id: str) -> str:
        """Return the stream of a PTK, also of one that was deregistered; `UnknownName` if the id was never used."""

    def first_window(self, ptk_id: str) -> int:
        """Return the window below which none was or is ever read for a PTK; 0 where that is not known."""

    def ids_on(self, stream: str) -> tuple[str, ...]:
        """Name all PTKs that a stream ever had, in order.

        Also those that were deregistered, and those of which a recovery knows versions alone.
        """

    def by_age(self, stream: str) -> tuple[str, ...]:
        """Name the registered PTKs of a stream, the one that was registered last at the end."""

    def informed(self, spec: PtkSpec) -> PtkSpec:
        """Return the PTK with what the profile it asks for says today, whoever that was made for."""


class Ptks(PtksView, Protocol):
    """Registered PTKs, each with what its profile says today."""

    def add(self, spec: PtkSpec, first_window: int = 0, at: datetime | None = None) -> None:
        """Register, or register again on the stream it was deregistered from; `NameTaken` as `check_free` raises it.

        No window below `first_window` was or is ever read for it. That is kept of the first registration. `at` is the
        time of this one, which `by_age` goes by.
        """

    def replace(self, spec: PtkSpec) -> None:
        """Overwrite a registered PTK."""

    def wait(self, ptk_id: str, waiting: AcceptDeadline | None) -> None:
        """Write since when a PTK waits for an accepted version, or why no longer; None if its versions need no verdict.

        The caller has the lock of the PTK or of its stream.
        """

    def remove(self, ptk_id: str) -> None:
        """Deregister; published versions stay."""

    def lock(self, ptk_id: str) -> PtkSpec | None:
        """Serialise elections of one PTK; None once it was deregistered."""


class ProfilesView(Protocol):
    """Profiles by samples, for reading."""

    def of(self, keys: Iterable[str]) -> Mapping[str, tuple[ProfileRecord, ...]]:
        """Return all profiles under each key, by number."""

    def of_job(self, job_id: str) -> ProfileRecord | None:
        """Return the profile whose last job this is."""


class Profiles(ProfilesView, Protocol):
    """Profiles by samples; writers hold the stream's lock."""

    def add(self, record: ProfileRecord) -> None:
        """Begin a profile; a stale writer gets `LateWriter`."""

    def save(self, record: ProfileRecord) -> None:
        """Write what became of a profile."""


class VersionsView(Protocol):
    """Elected states, for reading."""

    def get(self, ptk_id: str, number: int) -> Version:
        """Read a version; `UnknownName` if there is none."""

    def latest(self, ptk_id: str) -> Version | None:
        """Return the version of the highest number."""

    def last_rollback(self, ptk_id: str) -> int | None:
        """Return the number of the newest version that a rollback made; None if there is none."""

    def of(
        self, ptk_id: str, *, after: int = 0, until: int | None = None, limit: int | None = None
    ) -> tuple[Version, ...]:
        """Return the versions above `after` and up to `until`, by number; all by default, or so many."""

    def of_jobs(self, job_ids: Iterable[str]) -> Mapping[str, tuple[int, datetime]]:
        """Return number and time of election of what these jobs made, for those that made a version."""

    def elected_since(self, at: datetime) -> tuple[tuple[str, int, datetime], ...]:
        """Return PTK, number and time of election of all versions since then, the oldest first."""

    def newest_times(self) -> Mapping[str, datetime]:
        """Return the time of election of the newest version in the lake, for each PTK that has one."""

    def on_windows(self, stream: str, lo: int, hi: int) -> tuple[tuple[int, int, int], ...]:
        """Count versions in the lake that were trained on any of the windows `lo` to `hi - 1`.

        By the oldest and the newest window that their runs read: oldest, newest, how many.
        """

    def lineage(self, ptk_id: str, since: WindowId) -> tuple[Lineage, ...]:
        """Trace versions trained on this window or a later one of its stream, or that repeat such a one, by number."""

    def all(self) -> Iterator[Version]:
        """Return the versions of all PTKs, one by one, while the transaction lasts."""

    def draft_ids(self, windows: Sequence[WindowId] | None = None) -> frozenset[str]:
        """Name the drafts that were elected: of runs on these windows, or all."""


class Versions(VersionsView, Protocol):
    """Elected states."""

    def add(self, version: Version) -> None:
        """Record a version; `LateWriter` for a second one of a job, and for a number used before."""


class ValidationsView(Protocol):
    """Released verdicts, for reading."""

    def of(self, ptk_id: str, *, newest: int | None = None) -> tuple[Validation, ...]:
        """Return all verdicts of a PTK, or so many of the newest, in the order in which they were kept."""

    def of_ptks(self, ptk_ids: Iterable[str]) -> Mapping[str, tuple[Validation, ...]]:
        """Return all verdicts of some PTKs, each in the order in which they were kept."""


class Validations(ValidationsView, Protocol):
    """Released verdicts, one for each trained state that asked for one."""

    def add(self, validation: Validation) -> None:
        """Keep a verdict; a second one of the same job gets `LateWriter`."""


class EvaluationsView(Protocol):
    """Released estimates, for reading."""

    def of(self, ptk_id: str, *, after: int = 0) -> tuple[Evaluation, ...]:
        """Return all estimates of a PTK, or those after a version, by version."""


class Evaluations(EvaluationsView, Protocol):
    """Released estimates, one for each version at most."""

    def add(self, evaluation: Evaluation) -> None:
        """Keep an estimate; a second one of the same version gets `LateWriter`."""
