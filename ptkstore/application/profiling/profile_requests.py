"""What the PTKs of a stream want of a window's profile set: profiles first, then drift tests, as far as it can pay."""

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
from ptkstore.domain.streams.blocks import profile_blocks
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import WindowId
from ptkstore.ports.catalog import CatalogView, UnitOfWork


@dataclass(frozen=True, slots=True)
class _Shared:
    """The PTKs that share a profile, and the newest one under its key."""

    specs: tuple[PtkSpec, ...]
    newest: ProfileRecord | None
    step: Step

    @property
    def payer(self) -> PtkSpec:
        return self.specs[0]


def request_profiles(uow: UnitOfWork, stream: Stream, window: WindowId, now: datetime) -> None:
    """Reserve what is asked of this window on its profile blocks, and queue the jobs; the caller locks the stream.

    PTKs with the same config, target and epsilons ask once. Which window is asked, and for what, follows from the
    policy and from released answers alone. What does not fit waits for the next window; who asks is told. So is
    whoever registered a model that today's library refuses: nobody else waits for it.
    """
    asking = _shared_profiles(uow, stream, window)
    tests = [one for one in asking if one.step is Step.TEST]
    for one in (*(one for one in asking if one.step is not Step.TEST), *tests):
        try:
            _request(uow, stream, window, one, now)
        except PtklibError:  # raised before anything is reserved
            notify_owners(uow, one.specs, "profile-refused", now, window.index)


def notify_owners(
    uow: UnitOfWork,
    specs: Sequence[PtkSpec],
    code: str,
    now: datetime,
    window: int | None = None,
    run: JobKind = JobKind.PROFILE,
) -> None:
    """Leave word for the owners of all PTKs that share a profile: about the profile, or about a run on a window."""
    for spec in specs:
        uow.notify_owner(Notice(now, spec.team, code, ptk_id=spec.ptk_id, window_index=window, run=run))


def sharing(uow: CatalogView, stream: str, key: str) -> tuple[PtkSpec, ...]:
    """Return the registered PTKs that ask for the profile of this key."""
    specs = uow.ptks.find(stream=stream)
    return tuple(spec for spec in specs if spec.profile is not None and spec.profile.key == key)


def _shared_profiles(uow: CatalogView, stream: Stream, window: WindowId) -> list[_Shared]:
    by_key: dict[str, list[PtkSpec]] = {}
    for spec in uow.ptks.find(stream=stream.name):
        if spec.profile is not None:
            by_key.setdefault(spec.profile.key, []).append(spec)
    records = uow.profiles.of(by_key)
    profiles = []
    for key, specs in by_key.items():
        newest = records[key][-1] if records[key] else None
        asks = [_ask(spec) for spec in specs]
        step = next_step(
            newest, asks, window.index, running=newest is not None and _is_live(uow, newest.job_id)
        )
        profiles.append(_Shared(tuple(specs), newest, step))
    return profiles


def _is_live(uow: CatalogView, last: str) -> bool:
    return uow.jobs.get(last).state in (JobState.READY, JobState.OPENED)


def _request(uow: UnitOfWork, stream: Stream, window: WindowId, asking: _Shared, now: datetime) -> None:
    if asking.step in (Step.START, Step.GO_ON):
        _request_profile(uow, stream, window, asking, now)
    elif asking.step is Step.GIVE_UP and asking.newest is not None:
        _give_up(uow, asking.newest, asking.specs, now)
    elif asking.step is Step.TEST and asking.newest is not None:
        _request_test(uow, stream, window, asking, asking.newest, now)


def _request_profile(
    uow: UnitOfWork, stream: Stream, window: WindowId, asking: _Shared, now: datetime
) -> None:
    spec, ask, newest = asking.payer, _ask(asking.payer), asking.newest
    goes_on = newest if asking.step is Step.GO_ON else None
    attempt = attempt_of(spec.estimator, ask, goes_on, stream.policy)
    if attempt is None or not fits_alone(attempt, ask, stream.policy):
        if goes_on is not None:  # of a new one its owner was told when it was registered
            _give_up(uow, goes_on, asking.specs, now)
        return
    job = _reserved(uow, stream, window, spec, JobKind.PROFILE, attempt.price, now)
    if job is None:
        notify_owners(uow, asking.specs, "profile-budget-denied", now, window.index)
    elif goes_on is not None:
        uow.profiles.save(replace(goes_on, job_id=job.id))
    else:
        number = 1 if newest is None else newest.number + 1
        uow.profiles.add(ProfileRecord(ask.key, number, stream.name, window.index, job.id))


def _give_up(uow: UnitOfWork, record: ProfileRecord, specs: Sequence[PtkSpec], now: datetime) -> None:
    uow.profiles.save(record.given_up())
    notify_owners(uow, specs, "profile-needs-more", now)


def _request_test(
    uow: UnitOfWork,
    stream: Stream,
    window: WindowId,
    asking: _Shared,
    profile: ProfileRecord,
    now: datetime,
) -> None:
    """One test, of the first state there is that was trained as the profile said; without one there is none."""
    for spec in asking.specs:
        price = drift_price(spec.estimator, _ask(spec), stream.policy)
        number = 0 if price is None else _placed(uow, spec, profile, stream.policy.max_rows_per_unit)
        if price is not None and number:
            job = _reserved(uow, stream, window, spec, JobKind.DRIFT, price, now, version=number)
            if job is not None:
                uow.profiles.save(replace(profile, job_id=job.id))
            return


def _placed(uow: CatalogView, spec: PtkSpec, profile: ProfileRecord, rows_per_unit: int) -> int:
    """The newest version in the lake, 0 if it was not trained on as many rows as the profile asks for."""
    number = uow.jobs.get(job_id(JobKind.PLACE, spec.ptk_id)).position
    if not number:
        return 0
    content: Mapping[str, Any] = uow.versions.get(spec.ptk_id, number).content
    enough = [n for epsilon, n in profile.menu if epsilon <= content["guarantee"]["epsilon"]]
    as_released = bool(enough) and content["planned"]["n"] >= min(enough) * rows_per_unit
    return number if as_released and same_model(content["config"], spec.estimator) else 0


def _reserved(
    uow: UnitOfWork,
    stream: Stream,
    window: WindowId,
    spec: PtkSpec,
    kind: JobKind,
    price: Price,
    now: datetime,
    *,
    version: int = 0,
) -> Job | None:
    """The queued job, its loss reserved on the profile blocks of the window; None if these have no room."""
    job, ask = paid_run(kind, spec.ptk_id, window, now, version=version), _ask(spec)
    blocks = profile_blocks(window, stream.policy, range(*ask.groups))
    request = BudgetRequest(stream.name, job.id, spec.ptk_id, blocks, price.loss, price.charge, ask.line)
    if isinstance(reserve(uow, request, price.event), Denied):
        return None
    uow.jobs.add(job)
    return job


def _ask(spec: PtkSpec) -> ProfileAsk:
    assert spec.profile is not None
    return spec.profile
