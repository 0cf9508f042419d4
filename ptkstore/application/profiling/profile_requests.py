"""Requests of a stream's PTKs to a window's profile set: profiles, then drift tests, as far as it can pay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ptklib.exceptions import PtklibError
from ptkstore.application.ledger.charging import Price, reserve
from ptkstore.application.planning.profile_plans import attempt_of, drift_price, fits_alone
from ptkstore.domain.jobs import Job, JobKind, JobState, job_id, paid_run
from ptkstore.domain.ledger.journal import BudgetRequest
from ptkstore.domain.ledger.rules import Denied
from ptkstore.domain.notices import Notice
from ptkstore.domain.ptks.profiles import ProfileAsk, ProfileRecord, Step, next_step
from ptkstore.domain.ptks.ptks import PtkSpec, same_model
from ptkstore.domain.streams.blocks import PROFILE, BlockSet, part_blocks
from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import WindowId
from ptkstore.ports.catalog import CatalogView, UnitOfWork


def request_profiles(uow: UnitOfWork, stream: Stream, window: WindowId, now: datetime) -> None:
    """Reserve what is asked of this window on its profile blocks, and queue the jobs; the caller locks the stream.

    PTKs with the same config, target and epsilons ask once. The window that is asked, and the question, follow from
    the policy and from released answers alone. A request that does not fit waits for the next window, and its owner
    gets a notice. So does the owner of a model that today's library refuses: no other request waits for it.
    """
    by_key: dict[str, list[PtkSpec]] = {}
    for spec in uow.ptks.find(stream=stream.name):
        if spec.profile is not None and not spec.has_given_up:
            by_key.setdefault(spec.profile.key, []).append(spec)
    records = uow.profiles.of(by_key)
    requests = [
        _Request(uow, stream.policy, window, now, specs, records[key][-1] if records[key] else None)
        for key, specs in by_key.items()
    ]
    steps = [(request, request.step()) for request in requests]
    for request, step in sorted(steps, key=lambda one: one[1] is Step.TEST):
        try:
            request.take(step)
        except PtklibError:  # raised before anything is reserved
            notify_owners(uow, request.specs, "profile-refused", now, window.index)


def notify_owners(
    uow: UnitOfWork,
    specs: Sequence[PtkSpec],
    code: str,
    now: datetime,
    window: int | None = None,
    run: JobKind = JobKind.PROFILE,
) -> None:
    """Leave word for the owners of all PTKs that share a profile: about the profile, or about a run on a window.

    Parameters
    ----------
    window, run : optional
        Given where it is about a run.
    """
    for spec in specs:
        uow.notify_owner(Notice(now, spec.team, code, ptk_id=spec.ptk_id, window_index=window, run=run))


def sharing(uow: CatalogView, stream: str, key: str) -> tuple[PtkSpec, ...]:
    """Return the registered PTKs that ask for the profile of this key."""
    specs = uow.ptks.find(stream=stream)
    return tuple(spec for spec in specs if spec.profile is not None and spec.profile.key == key)


@dataclass(frozen=True, slots=True)
class _Request:
    """The request of PTKs that share a profile to a window; `newest` is the newest profile under its key."""

    uow: UnitOfWork
    policy: Policy
    window: WindowId
    now: datetime
    specs: Sequence[PtkSpec]
    newest: ProfileRecord | None

    def step(self) -> Step:
        live = (JobState.READY, JobState.OPENED)
        running = self.newest is not None and self.uow.jobs.get(self.newest.job_id).state in live
        return next_step(self.newest, list(map(_ask, self.specs)), self.window.index, running=running)

    def take(self, step: Step) -> None:
        if step is Step.START:
            self._profile(None)
        elif step is Step.GO_ON:
            self._profile(self.newest)
        elif step is Step.GIVE_UP and self.newest is not None:
            self._give_up(self.newest)
        elif step is Step.TEST and self.newest is not None:
            self._test(self.newest)

    def _profile(self, goes_on: ProfileRecord | None) -> None:
        spec, uow = self.specs[0], self.uow
        attempt = attempt_of(spec.estimator, _ask(spec), goes_on, self.policy)
        if attempt is None or not fits_alone(attempt, _ask(spec), self.policy):
            if goes_on is not None:  # of a new one its owner was told when it was registered
                self._give_up(goes_on)
            return
        job = self._reserved(spec, JobKind.PROFILE, attempt.price)
        if job is None:
            notify_owners(uow, self.specs, "profile-budget-denied", self.now, self.window.index)
        elif goes_on is not None:
            uow.profiles.save(replace(goes_on, job_id=job.id))
        else:
            number = 1 if self.newest is None else self.newest.number + 1
            key = _ask(spec).key
            uow.profiles.add(ProfileRecord(key, number, self.window.stream, self.window.index, job.id))

    def _give_up(self, record: ProfileRecord) -> None:
        self.uow.profiles.save(record.given_up())
        notify_owners(self.uow, self.specs, "profile-needs-more", self.now)

    def _test(self, profile: ProfileRecord) -> None:
        """One test, of the first state there is that was trained as the profile said; without one there is none."""
        for spec in self.specs:
            price = drift_price(spec.estimator, _ask(spec), self.policy)
            number = 0 if price is None else self._placed(spec, profile)
            if price is not None and number:
                job = self._reserved(spec, JobKind.DRIFT, price, version=number)
                if job is not None:
                    self.uow.profiles.save(replace(profile, job_id=job.id))
                return

    def _placed(self, spec: PtkSpec, profile: ProfileRecord) -> int:
        """The newest version in the lake, 0 if it was not trained on as many rows as the profile asks for."""
        number = self.uow.jobs.get(job_id(JobKind.PLACE, spec.ptk_id)).position
        if not number:
            return 0
        content: Mapping[str, Any] = self.uow.versions.get(spec.ptk_id, number).content
        enough = [n for epsilon, n in profile.menu if epsilon <= content["guarantee"]["epsilon"]]
        as_released = bool(enough) and content["planned"]["n"] >= min(enough) * self.policy.max_rows_per_unit
        return number if as_released and same_model(content["config"], spec.estimator) else 0

    def _reserved(self, spec: PtkSpec, kind: JobKind, price: Price, version: int = 0) -> Job | None:
        """The queued job, its loss reserved on the profile blocks of the window; None if these have no room."""
        job, ask = paid_run(kind, spec.ptk_id, self.window, self.now, version=version), _ask(spec)
        blocks = BlockSet.of(part_blocks(PROFILE, self.window, self.policy, range(*ask.groups)))
        request = BudgetRequest.of_run(job, self.policy, blocks, price.loss, price.charge)
        if isinstance(reserve(self.uow, request, price.event), Denied):
            return None
        self.uow.jobs.add(job)
        return job


def _ask(spec: PtkSpec) -> ProfileAsk:
    assert spec.profile is not None
    return spec.profile
