"""Register a PTK, or say why it cannot be served."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptkstore.application.charging import release_unopened
from ptkstore.application.estimators import spec_of
from ptkstore.application.evaluation_plans import check_evaluations
from ptkstore.application.evolve_stream import check_columns_are_stored
from ptkstore.application.planning import plan_window
from ptkstore.application.profile_plans import hindrance
from ptkstore.application.refusing import why_not
from ptkstore.application.team_code import admit_team_code, check_assurance, keep_bundle, uploaded_bundle
from ptkstore.domain.allocation import Infeasible
from ptkstore.domain.jobs import Job, JobKind, JobState, Outcome, cursor, job_id
from ptkstore.domain.names import ptk_id_of
from ptkstore.domain.ptks import PtkSpec, columns_of, windows_between
from ptkstore.domain.snapshots import canonical_json
from ptkstore.domain.streams import Policy, Stream
from ptkstore.errors import PtkRejected
from ptkstore.ports.catalog import Begin, Notice, UnitOfWork
from ptkstore.ports.features import FeatureStore
from ptkstore.ports.team_code import Bundles, Sandbox
from ptkstore.ports.world import Clock

_QUEUED = (JobKind.TRAIN, JobKind.PROFILE, JobKind.DRIFT, JobKind.EVALUATE)  # what is withdrawn with a PTK


def register_ptk(
    *,
    team: str,
    name: str,
    stream: str,
    estimator: Mapping[str, Any],
    target: float,
    train_frequency: str,
    config: Mapping[str, Any] | None = None,
    description: str = "",
    begin: Begin,
    clock: Clock,
    features: FeatureStore,
    bundles: Bundles,
    sandbox: Sandbox,
) -> str:
    """Register a PTK and return its id; those registered before it are not disturbed.

    Who repeats a registration, because its answer was lost, gets the same answer.

    Raises
    ------
    InvalidRequest
        A name, epsilon, domain, column or frequency is not right.
    PtkRejected
        The stream's policy has no room beside the registered PTKs, or wants more assurance; team code failed a check.
    NoSandbox
        It is team code, and cannot be run apart on this machine.
    NameTaken
        The id was used before, for something else.
    OutcomeUnknown
        It is registered, and whether its code is kept is not known.
    """
    ptk_id = ptk_id_of(team, name)
    bundle = admit_team_code(ptk_id, estimator, stream, begin=begin, bundles=bundles, sandbox=sandbox)
    with begin() as uow:
        owner = uow.streams.lock(stream)
        spec = spec_of(
            ptk_id=ptk_id,
            stream=stream,
            schema=owner.schema,
            policy=owner.policy,
            estimator=estimator,
            target=target,
            every=windows_between(owner.policy, train_frequency),
            config=config or {},
            description=description,
        )
        features.check_names(ptk_id, columns_of(spec))
        check_columns_are_stored(uow, spec, owner)
        spec = uow.ptks.informed(spec)
        others = uow.ptks.find(stream=stream)
        if not any(_is_same(spec, other) for other in others):
            _add(uow, spec, others, owner, clock)
            uow.commit()
    keep_bundle(ptk_id, bundle, bundles)
    return ptk_id


def _is_same(spec: PtkSpec, other: PtkSpec) -> bool:
    """Whether they have one id and all that a team says of them is equal; the rest follows from that."""
    return spec.ptk_id == other.ptk_id and _said(spec) == _said(other)


def _said(spec: PtkSpec) -> str:
    return canonical_json([spec.estimator, spec.target, spec.every, spec.config, spec.description])


def _add(uow: UnitOfWork, spec: PtkSpec, others: tuple[PtkSpec, ...], owner: Stream, clock: Clock) -> None:
    if all(
        other.ptk_id != spec.ptk_id for other in others
    ):  # else its name is taken, and no room is asked for
        _check_policy(uow, spec, others, owner, clock)
    uow.ptks.add(spec)
    _tell_of_profile(uow, spec, owner.policy, clock)
    for kind in (JobKind.PLACE, JobKind.FLIP):
        uow.jobs.add(cursor(kind, owner.name, spec.ptk_id, clock.now()))
    if uow.versions.latest(spec.ptk_id) is not None:  # taken over from the lake by a recovery
        uow.jobs.wake(job_id(JobKind.PLACE, spec.ptk_id), clock.now())


def update_ptk(
    ptk_id: str,
    *,
    estimator: Mapping[str, Any] | None = None,
    target: float | None = None,
    config: Mapping[str, Any] | None = None,
    description: str | None = None,
    begin: Begin,
    clock: Clock,
    features: FeatureStore,
    bundles: Bundles,
    sandbox: Sandbox,
) -> PtkSpec:
    """Change a PTK from the next window on; reserved trainings keep their reservation.

    What it is trained on may change as well: the first training on other blocks starts without the state of before.

    Raises
    ------
    InvalidRequest
        What it would become is not right.
    PtkRejected
        There is no room for it beside the others. It stays as it was.
    """
    with begin() as uow:
        known = uow.ptks.get(ptk_id)
    if estimator is None:
        bundle = None
    elif estimator == known.estimator:
        bundle = uploaded_bundle(
            ptk_id, estimator, bundles
        )  # by now it may have been changed, and its code be gone
    else:
        bundle = admit_team_code(
            ptk_id, estimator, known.stream, begin=begin, bundles=bundles, sandbox=sandbox
        )
    with begin() as uow:
        known = uow.ptks.get(ptk_id)
        owner = uow.streams.lock(known.stream)
        known = uow.ptks.get(ptk_id)
        spec = spec_of(
            ptk_id=ptk_id,
            stream=known.stream,
            schema=owner.schema,
            policy=owner.policy,
            estimator=known.estimator if estimator is None else estimator,
            target=known.target if target is None else target,
            every=known.every,
            config=known.config if config is None else config,
            description=known.description if description is None else description,
        )
        features.check_names(ptk_id, columns_of(spec))
        check_columns_are_stored(uow, spec, owner)
        others = tuple(p for p in uow.ptks.find(stream=known.stream) if p.ptk_id != ptk_id)
        spec = uow.ptks.informed(spec)
        _check_policy(uow, spec, others, owner, clock)
        uow.ptks.replace(spec)
        _tell_of_profile(uow, spec, owner.policy, clock)
        uow.commit()
    keep_bundle(ptk_id, bundle, bundles)
    return spec


def deregister_ptk(ptk_id: str, *, begin: Begin, clock: Clock) -> None:
    """Stop training a PTK and have its views taken away; unopened reservations are released, versions stay."""
    with begin() as uow:
        stream = uow.ptks.get(ptk_id).stream
    with begin() as uow:
        uow.streams.lock(stream)
        spec = uow.ptks.lock(ptk_id)
        if spec is None:
            return
        uow.ptks.remove(ptk_id)
        for job in uow.jobs.find(ptk_id=ptk_id):
            _withdraw(uow, uow.jobs.lock(job.id))
        uow.jobs.wake(job_id(JobKind.FLIP, ptk_id), clock.now())
        uow.notify_owner(Notice(clock.now(), spec.team, ptk_id, "deregistered"))
        uow.commit()


def _withdraw(uow: UnitOfWork, job: Job) -> None:
    if job.kind in _QUEUED and job.state is JobState.READY:
        release_unopened(uow, job.reservation)
        uow.jobs.save(job.ended(Outcome.WITHDRAWN))


def _tell_of_profile(uow: UnitOfWork, spec: PtkSpec, policy: Policy, clock: Clock) -> None:
    """Leave word where a PTK can never be profiled by samples: it stays with what it declares, on all rows."""
    if spec.profile is None or spec.menu:
        return
    code = hindrance(spec.estimator, spec.profile, policy)
    if code is not None:
        uow.notify_owner(Notice(clock.now(), spec.team, f"{spec.ptk_id} profile", code))


def _check_policy(
    uow: UnitOfWork, spec: PtkSpec, others: tuple[PtkSpec, ...], owner: Stream, clock: Clock
) -> None:
    """Raise `PtkRejected` if there is no room; then nobody else has less, and the stream's owner is told, once."""
    try:
        _check_room(spec, others, owner.policy)
    except PtkRejected:
        notice = Notice(clock.now(), owner.team, f"{owner.name} {spec.ptk_id}", PtkRejected.code)
        if not any((n.subject, n.code) == (notice.subject, notice.code) for n in uow.notices(owner.team)):
            uow.notify_owner(notice)
            uow.commit()
        raise


def _check_room(spec: PtkSpec, others: tuple[PtkSpec, ...], policy: Policy) -> None:
    check_assurance(spec.ptk_id, spec.estimator, policy)
    check_evaluations((*others, spec), policy)
    plan = plan_window((*others, spec), policy)
    if isinstance(plan, Infeasible):
        raise PtkRejected(why_not(spec, others, policy, plan))
