"""The effects on the catalog of a PTK that comes, changes or goes; the caller has its stream's lock and commits."""

from __future__ import annotations

from collections.abc import Sequence

from ptklib.canonical_json import canonical_json
from ptklib.exceptions import PtklibError
from ptklib.spec import estimator_from_spec
from ptkstore.application.planning.device_ptks import check_report
from ptkstore.application.planning.evaluation_plans import check_evaluations
from ptkstore.application.planning.profile_plans import profiling_obstacle
from ptkstore.application.planning.refusals import why_not
from ptkstore.application.planning.window_plans import plan_with
from ptkstore.application.ptks.giving_up import withdraw
from ptkstore.application.ptks.team_code import check_assurance
from ptkstore.application.scheduling.newcomers import why_it_never_fits
from ptkstore.application.scheduling.waiting_ptks import begin_to_wait, wait_no_longer
from ptkstore.domain.allocation.model import Infeasible
from ptkstore.domain.jobs import WHILE_KEPT, JobKind, cursor, job_id
from ptkstore.domain.notices import Notice
from ptkstore.domain.ptks.accept_deadlines import AcceptDeadline
from ptkstore.domain.ptks.ptks import FOR_PEOPLE, PtkSpec, said_of
from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import expired_before
from ptkstore.domain.versions.versions import trained_on
from ptkstore.errors import Conflict, Deregistered, NameTaken, PtkRejected
from ptkstore.ports.catalog import CatalogView, UnitOfWork
from ptkstore.ports.runtime import Clock


def is_same(spec: PtkSpec, other: PtkSpec) -> bool:
    """Return whether they have one id and all that a team says of them is equal; the rest follows from that."""
    return spec.ptk_id == other.ptk_id and canonical_json(said_of(spec)) == canonical_json(said_of(other))


def check_room(
    spec: PtkSpec, others: Sequence[PtkSpec], policy: Policy, tested: Sequence[PtkSpec] = ()
) -> None:
    """Raise `PtkRejected` if the policy wants more assurance, or has no room for the PTK beside the others.

    Devices are asked for no more than the policy allows them to lose.

    Parameters
    ----------
    tested : sequence of PtkSpec
        PTKs of other streams whose verdicts the test blocks pay for.
    """
    if policy.on_devices:
        check_report(spec, policy)
        return
    check_assurance(spec.ptk_id, spec.estimator, policy)
    if policy.scheduler.lets_wait:
        check_evaluations((spec,), policy)
        if (reason := why_it_never_fits(spec, policy)) is not None:
            raise PtkRejected(reason)
        return
    check_evaluations((*others, *tested, spec), policy)
    plan = plan_with([spec], others, policy)
    if isinstance(plan, Infeasible):
        raise PtkRejected(why_not(spec, others, policy, plan))


def notify_of_refusal(uow: UnitOfWork, ptk_id: str, owner: Stream, clock: Clock) -> None:
    """Leave word for the stream's owner, once, that a PTK was refused; nothing else may be changed yet."""
    if not has_refusal_notice(uow, ptk_id, owner):
        uow.notify_owner(Notice(clock.now(), owner.team, PtkRejected.code, owner.name, ptk_id))
        uow.commit()


def has_refusal_notice(uow: CatalogView, ptk_id: str, owner: Stream) -> bool:
    """Return whether the stream's owner was told by now that a PTK was refused."""
    notices = uow.notices_about(owner.team, ptk_id, stream=owner.name)
    return any(one.code == PtkRejected.code for one in notices)


def check_is_free(uow: CatalogView, ptk_id: str, owner: Stream) -> None:
    """Raise `NameTaken` if the id is registered, or was used on another stream.

    A name that was deregistered, or whose versions a recovery took over, may be registered on its own stream again.
    """
    uow.ptks.check_free(ptk_id, owner.name)
    latest = uow.versions.latest(ptk_id)
    if latest is not None and (stream := trained_on(latest.content)) != owner.name:
        raise NameTaken(
            f"PTK {ptk_id!r} has versions of stream {stream!r} from before the catalog was restored: "
            f"register it there again, or choose another name"
        )


def add(uow: UnitOfWork, spec: PtkSpec, owner: Stream, clock: Clock, first_window: int) -> None:
    """Enter a PTK that was checked, with the jobs that publish it; `NameTaken` as `check_is_free` raises it.

    Parameters
    ----------
    first_window : int
        None below it was or will be read for a new name, as `never_read_below` says.
    """
    check_is_free(uow, spec.ptk_id, owner)
    uow.ptks.add(spec, first_window, clock.now())
    _notify_of_obstacle(uow, spec, owner.policy, clock)
    for kind in (JobKind.PLACE, JobKind.FLIP):
        uow.jobs.add(cursor(kind, owner.name, spec.ptk_id, clock.now()))  # those of before stay
    latest = uow.versions.latest(spec.ptk_id)
    placed = uow.jobs.get(job_id(JobKind.PLACE, spec.ptk_id)).position
    if latest is not None and latest.number > placed:  # taken over from the lake by a recovery
        uow.jobs.wake(job_id(JobKind.PLACE, spec.ptk_id), clock.now())
    if placed:  # it was deregistered: its newest version is served again
        uow.jobs.wake(job_id(JobKind.FLIP, spec.ptk_id), clock.now())
    wait_anew(uow, spec, owner, clock)


def replace(uow: UnitOfWork, spec: PtkSpec, owner: Stream, clock: Clock) -> None:
    """Put a PTK that was checked in the place of the one with its id; what it is now waits anew for a version.

    A change of its description or tags alone is no new definition.
    """
    before = uow.ptks.get(spec.ptk_id)
    uow.ptks.replace(spec)
    _notify_of_obstacle(uow, spec, owner.policy, clock)
    if _definition(before) != _definition(spec):
        wait_anew(uow, spec, owner, clock)


def wait_anew(uow: UnitOfWork, spec: PtkSpec, owner: Stream, clock: Clock) -> None:
    """Have a PTK that asks for accepted versions wait for one from the next window to close on.

    On an adaptive stream any PTK waits, and its scheduler is woken. That comes last in a transaction, since it locks
    what ends of trainings lock last.
    """
    first = uow.streams.progress(owner.name).closed_before
    uow.ptks.wait(spec.ptk_id, None if spec.accept is None else AcceptDeadline(first))
    begin_to_wait(uow, spec.ptk_id, owner, clock.now())


def _definition(spec: PtkSpec) -> str:
    return canonical_json({name: said for name, said in said_of(spec).items() if name not in FOR_PEOPLE})


def remove(uow: UnitOfWork, spec: PtkSpec, clock: Clock) -> None:
    """Take a PTK out: what is queued for it is withdrawn, and its views go away; its versions stay."""
    uow.ptks.remove(spec.ptk_id)
    for job in uow.jobs.find(ptk_id=spec.ptk_id):
        withdraw(uow, uow.jobs.lock(job.id), clock.now())
    uow.jobs.wake(job_id(JobKind.FLIP, spec.ptk_id), clock.now())
    uow.notify_owner(Notice(clock.now(), spec.team, Deregistered.code, ptk_id=spec.ptk_id))
    wait_no_longer(uow, spec, clock.now())


def _notify_of_obstacle(uow: UnitOfWork, spec: PtkSpec, policy: Policy, clock: Clock) -> None:
    """Leave word where a PTK can never be profiled by samples: it stays with what it declares, on all rows."""
    if spec.profile is None or spec.menu:
        return
    code = profiling_obstacle(spec.estimator, spec.profile, policy)
    if code is not None:
        uow.notify_owner(Notice(clock.now(), spec.team, code, ptk_id=spec.ptk_id, run=JobKind.PROFILE))


def check_columns_are_stored(uow: CatalogView, spec: PtkSpec, stream: Stream) -> None:
    """Raise `Conflict` while the PTK might be trained on a window that closed before a column of it was added.

    That is so from the column's addition until nothing more is done with the rows of those windows.
    """
    schema = stream.schema
    if not schema.since or not _reads_added(spec, stream):
        return
    progress = uow.streams.progress(stream.name)
    still = uow.jobs.unfinished(
        stream.name, WHILE_KEPT, expired_before(stream.policy, progress.reached), schema.since
    )
    if still:
        raise Conflict(
            f"PTK {spec.ptk_id} reads a column that was added a moment ago, and windows that closed before are "
            "still worked on; try again when they are done"
        )


def _reads_added(spec: PtkSpec, stream: Stream) -> bool:
    try:
        columns = estimator_from_spec(spec.estimator).input_columns()
    except PtklibError:  # no family of the library: it may read any column
        return True
    return any(column in stream.schema.defaults for column in columns)
