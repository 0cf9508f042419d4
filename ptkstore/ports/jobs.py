"""The job table as use cases see it: claims, leases and fences, and whose job comes next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from ptkstore.domain.jobs import Job, JobKind, JobState
from ptkstore.domain.streams.windows import WindowId


@dataclass(frozen=True, slots=True)
class UnfinishedJob:
    """A job that is ready or has opened rows, and when its newest window closed, where that is on record."""

    kind: JobKind
    stream: str
    window: int | None
    ptk_id: str | None
    lease_until: datetime | None
    closed_at: datetime | None


class JobsView(Protocol):
    """Jobs and cursors, for reading."""

    def get(self, job_id: str) -> Job:
        """Read a job; `UnknownName` if there is none."""

    def kinds(self, job_ids: Iterable[str]) -> Mapping[str, JobKind]:
        """Return the kind of each of these that exists."""

    def due(
        self,
        now: datetime,
        limit: int,
        *,
        deliveries: bool = True,
        slots: int | None = None,
        small: int | None = None,
    ) -> tuple[str, ...]:
        """Name jobs that could be claimed now, fairest first.

        Teams share the workers. The first job of a team without a slot comes before all jobs of those that have some.
        Of teams with as many slots, that one comes first whose last turn was longest ago. Jobs of no PTK go by their
        stream.

        Parameters
        ----------
        now, limit, deliveries
            Name so many; those that deliver too.
        slots : int or None
            Leave jobs of team code out while they hold all but one of these.
        small : int or None
            Name only trainings of library PTKs that plan for at most so many rows.
        """

    def busy(self, now: datetime, until: datetime) -> bool:
        """Tell whether a job is being worked on by anybody, or could be claimed by `until`."""

    def find(
        self, *, stream: str | None = None, ptk_id: str | None = None, state: JobState | None = None
    ) -> tuple[Job, ...]:
        """Find jobs, for reading."""

    def unfinished_jobs(
        self, kinds: Iterable[JobKind], streams: Iterable[str] | None, limit: int
    ) -> tuple[UnfinishedJob, ...]:
        """Return so many unfinished jobs of these kinds: first those with a lease, then by stream and window.

        Parameters
        ----------
        streams : iterable of str or None
            None means all.
        """

    def refused_drafts(self, stream: str | None = None) -> frozenset[str]:
        """Name the drafts whose validation has ended without a version: of one stream, or of all."""

    def needless_partials(self, window: WindowId) -> tuple[Job, ...]:
        """Return the partials with this newest window that have ended and whose training has ended, for reading."""

    def prepared(self, stream: str, lo: int, hi: int) -> frozenset[int]:
        """Tell which of the windows `lo` to `hi - 1` have, or had, a job that prepares them."""

    def unfinished(self, stream: str, kinds: Iterable[JobKind], lo: int, hi: int) -> frozenset[int]:
        """Tell which of the windows `lo` to `hi - 1` have a job of these kinds that has not ended."""

    def many(self, job_ids: Iterable[str]) -> Mapping[str, Job]:
        """Return each of these that exists, by its id, for reading."""

    def trainings_since(self, starts: Mapping[str, int]) -> tuple[Job, ...]:
        """Return the trainings of some PTKs, each from a newest window on, for reading."""

    def trainings(
        self,
        ptk_id: str,
        *,
        start: int = 0,
        look: int = 1,
        limit: int | None = None,
        newest: bool = False,
    ) -> tuple[Job, ...]:
        """Return a PTK's trainings by newest window and look, or from the newest down, for reading.

        Parameters
        ----------
        start, look : int
            The first window, and of that window the first look.
        """

    def comparisons(self, stream: str) -> tuple[Job, ...]:
        """Return the comparisons on windows of a stream that are kept, for reading."""

    def refused_average(self, ptk_id: str) -> int | None:
        """Return the newest window of which a PTK's average was refused; None if there is none."""

    def placed(self) -> Mapping[str, int]:
        """Return the newest version of each PTK that is in the lake; 0 where none is."""


class Jobs(JobsView, Protocol):
    """Jobs and cursors; every write below carries the fence of its claim."""

    def add(self, *jobs: Job) -> None:
        """Create jobs; one that exists does not change."""

    def lock(self, job_id: str) -> Job:
        """Read a job that nobody else writes until the transaction ends."""

    def claim(self, job_id: str, now: datetime, lease: timedelta) -> Job | None:
        """Take a job that is due, unleased and not waiting for another; raises its fence and attempt. Else None.

        Claims that somebody died with count, but for deliveries: what kills workers has to be given up one day, and
        what killed a relay tells nothing of the endpoint.
        """

    def claim_fairest(self, now: datetime, lease: timedelta, slots: int) -> Job | None:
        """Take the first of the jobs that are due in the order of `due`, deliveries aside; None if there is none.

        `slots` is how many jobs all workers run at once. With two or more, team code never takes the last of them.
        """

    def held(self, job: Job) -> Job:
        """Lock the job and return it; `LeaseLost` if somebody claimed it after `job` was read."""

    def extend(self, job: Job, now: datetime, lease: timedelta) -> None:
        """Keep the lease; `LeaseLost` as above, and when the job was given back meanwhile."""

    def save(self, job: Job) -> None:
        """Write state, outcome, position, failures, due time and attempt of a held job and drop its lease."""

    def mark_opened(self, job: Job) -> None:
        """Record that rows are being opened, and count attempts from here; the lease stays."""

    def begin_again(self, job: Job, due_at: datetime) -> None:
        """Make a locked job that has ended ready, as if it had never been tried; how it ended still counts."""

    def wake(self, job_id: str, due_at: datetime) -> None:
        """Make an idle cursor ready; a ready one does not change."""

    def of_window(self, window: WindowId, kind: JobKind) -> tuple[Job, ...]:
        """Lock and return all jobs of one kind for a window."""

    def remove_ended(self, before: WindowId) -> None:
        """Remove what has ended of expired windows before this one and nobody reads again; it still counts as ended.

        Trainings, profiles, drift tests and evaluations stay: they answer who asks twice, and owners read them.
        """
