"""Publish the average of what devices put back: no row is read, and nothing is reserved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ptklib.spec import estimator_from_spec
from ptkstore.application.ledger.local_losses import local_loss_of
from ptkstore.application.planning.labelled_streams import waits_for_verdict, was_tested_on, window_to_test_on
from ptkstore.application.ptks.giving_up import give_up_timed_out
from ptkstore.application.training.device_models import central_version, waits_for_lake
from ptkstore.application.versions.candidates import asked_of, write_content
from ptkstore.application.versions.drafts import OwnDraft, destroy_drafts
from ptkstore.application.versions.elections import elect
from ptkstore.domain.draft_ids import draft_prefix
from ptkstore.domain.jobs import Job, JobKind, Outcome, validation_of
from ptkstore.domain.notices import Notice
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.streams.report_counts import REPORTS_STEP, Counts, reports_told
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import WindowId
from ptkstore.domain.versions.device_models import DeviceModel
from ptkstore.domain.versions.manifests import elected_manifest, local_content_of
from ptkstore.domain.versions.provenance import instances_in
from ptkstore.domain.versions.versions import (
    Draft,
    Version,
    election_time,
    repeated_version,
    table_files,
)
from ptkstore.errors import OutcomeUnknown, Unavailable
from ptkstore.ports.catalog import Begin, UnitOfWork
from ptkstore.ports.devices import Counted, DevicePtk, Epoch, InstancesView
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.objects import Staging
from ptkstore.ports.runtime import Clock, Steps

if TYPE_CHECKING:
    from ptklib.state import ReleasedState

INSTANCES_AWAY: Final = "instances-unavailable"
INSTANCES_LOST: Final = "instances-lost"
MOVED_TOO_FAR: Final = "average-moved-too-far"
NO_TEST_ROWS: Final = "no-test-rows"

_TOLD_OF_LOSS: Final = 1_000
"""Windows, at most, in which one notice tells of a loss."""

MOVED_RATE: Final = 0.01
"""Share of windows of honest reports whose average is refused, at most."""

ReadFound = Callable[[DevicePtk, Epoch], tuple[Counted, Counts]]


@dataclass(frozen=True, slots=True)
class Averaging:
    """The ports that read instances and store drafts.

    `read_epoch` reads something of the epoch of the PTK, begun where there is none or its instances were lost.
    """

    instances: InstancesView
    read_epoch: Callable[[ReadFound], tuple[DevicePtk, Epoch, tuple[Counted, Counts]]]
    staging: Staging
    keys: KeyStore


def average_ptk(job: Job, averaging: Averaging, *, begin: Begin, clock: Clock, steps: Steps) -> None:
    """Make the average of a PTK's instances its next version, as one window closes.

    Reports are noisy by now, so the average is public whenever it is made: it waits for no tick. If no device ever
    reported, the instances are those that devices would begin with.

    An average that is further from where the last version was than honest reports move it is refused. The owner gets a
    notice, and the next epoch begins around the last version. The cause of so large a move is gone.

    The average of a PTK that asks for accepted versions is tested first, on the newest window of its labelled stream.
    Each window tests one average of a PTK. Nothing is drafted while there is no new window, or while the draft before
    waits for its verdict.

    A server of instances that does not answer postpones the job, as often as it has to; the owner gets one notice. If
    it has lost them it begins anew, and the owner gets a notice.
    """
    ptk_id = str(job.ptk_id)
    with begin() as uow:
        spec, stream = uow.ptks.lock(ptk_id), uow.streams.get(job.stream)
    if spec is not None and spec.has_timed_out(job.window.index, stream.policy):
        with begin() as uow:
            uow.streams.lock(job.stream)
            spec = uow.ptks.lock(ptk_id)  # it may have been resumed meanwhile
            if spec is not None:
                (spec,) = give_up_timed_out(uow, (spec,), job.window.index, stream.policy, clock.now())
            uow.commit()
    if spec is None or not spec.is_averaged or spec.has_given_up:
        _destroy_drafts_of_before(job, averaging, begin)
        _end(job, Outcome.WITHDRAWN, begin)
        return
    with begin() as uow:
        previous = uow.versions.latest(ptk_id)
        waits = previous is not None and waits_for_lake(previous, uow)
        tested = _tested_window(uow, job, spec, clock) if spec.accept is not None else None
        waits = waits or (spec.accept is None and waits_for_verdict(uow, ptk_id))
        uow.commit()
    if spec.accept is not None and tested is None:
        _destroy_drafts_of_before(job, averaging, begin)
        _end(job, Outcome.DONE, begin)
        return
    if waits:
        raise Unavailable(
            f"the last version of PTK {ptk_id} is on its way to the lake, or waits for its verdict"
        )
    try:
        ptk, epoch, found, counts = _instances(job, previous, averaging)
    except Unavailable:
        with begin() as uow:
            uow.jobs.held(job)
            _notify_once(uow, Notice.of_run(job, INSTANCES_AWAY, clock.now()), [job.window.index])
            uow.commit()
        raise
    estimator = estimator_from_spec(spec.estimator)
    model = DeviceModel(estimator.specification.digest, spec.start_from)
    if epoch.begun_for != ptk.begun_for or ptk.model != model:
        raise Unavailable(f"PTK {ptk_id} was changed a moment ago")
    averaged = {
        "epoch": epoch.id,
        **described(ptk, found),
        "reports_at_most": reports_told(counts),
    }
    steps.reached("averaged", job.id)
    if averaged["limit"] is not None and averaged["moved"] > averaged["limit"]:
        _refuse(job, spec, begin, clock)
        steps.reached("average-refused", job.id)
        return
    keys, staging = averaging.keys, averaging.staging
    _destroy_drafts_of_before(job, averaging, begin)
    with OwnDraft(job.window, keys, staging, of=job.id) as own:
        draft = _drafted(own, estimator.average_of(found.instances), staging)
        content = _content_of(job, spec, stream, draft, averaged, begin)
        if tested is not None:  # whoever validates it reads it from there
            write_content(draft.draft_id, spec, content, own.key, staging)
        steps.reached("average-staged", job.id)
        own.kept = True  # by an election that nobody answers, too
        try:
            own.kept = _hand_over(job, spec, content, draft.draft_id, tested, found.after_loss, begin, clock)
        except OutcomeUnknown:
            raise
        except Exception:
            own.kept = False
            raise
    steps.reached("average-elected", job.id)


def _instances(
    job: Job, previous: Version | None, averaging: Averaging
) -> tuple[DevicePtk, Epoch, Counted, Counts]:
    """Return what the window found, and what came of reports since the version before was averaged."""

    def read_found(ptk: DevicePtk, epoch: Epoch) -> tuple[Counted, Counts]:
        since = None
        if previous is not None and instances_in(previous.content).get("epoch") == epoch.id:
            since = previous.window_index
        return averaging.instances.read_window(
            ptk.ptk_id, epoch.id, job.window.index, since=since, shape=ptk.shape
        )

    ptk, epoch, found = averaging.read_epoch(read_found)
    return ptk, epoch, *found


def described(ptk: DevicePtk, found: Counted) -> dict[str, Any]:
    """Say how the instances are beside what is expected of them; public, as reports are.

    `spread` is their sample variance over its expected value (Theorem 1), the mean over the weights; None of a single
    instance. `moved` is how far their mean is from where the last version was, in L2, or from where the model began.
    `reports` is how many were put since the model began, rounded down. `limit` is how far it may have moved by those
    since the last version, counted as at most one step more than they were, and after a loss two. It is None where that
    version does not say its number. Against a last version that cannot be read nothing is measured: both are None.
    """
    import numpy as np

    from ptklib.draw_discard import average_instances
    from ptklib.draw_discard.instances import drift_limit

    specification, instances = ptk.specification, found.instances
    spread = moved = limit = None
    if len(instances) > 1:
        variances = instances.var(axis=0, ddof=1, dtype=np.float64)
        spread = float(variances.mean() / specification.instance_variance)
    before, reports = ptk.last(), found.reports // REPORTS_STEP * REPORTS_STEP
    if before is not None:
        average = average_instances(specification, instances)
        moved = float(np.linalg.norm(average if before.weights is None else average - before.weights))
    if before is not None and before.reports is not None:
        lately = abs(reports - before.reports) + REPORTS_STEP
        limit = drift_limit(specification, lately, MOVED_RATE) / 2.0**specification.grid_bits
    return {"k": len(instances), "spread": spread, "moved": moved, "limit": limit, "reports": reports}


def _refuse(job: Job, spec: PtkSpec, begin: Begin, clock: Clock) -> None:
    """End the job without a version. From then on, the epoch that it read is over: `DevicePtk.begun_for`."""
    with begin() as uow:
        held = _held_unchanged(uow, job, spec)
        if held is not None:
            uow.jobs.save(held.ended(Outcome.REFUSED))
            uow.notify_owner(Notice.of_run(job, MOVED_TOO_FAR, clock.now()))
        uow.commit()


def _held_unchanged(uow: UnitOfWork, job: Job, spec: PtkSpec) -> Job | None:
    """Return the job, held; None if its PTK was withdrawn meanwhile and the job has ended, too."""
    spec_now = uow.ptks.lock(spec.ptk_id)
    held = uow.jobs.held(job)
    if spec_now is None:
        uow.jobs.save(held.ended(Outcome.WITHDRAWN))
        return None
    if _wanted(spec_now) != _wanted(spec):
        raise Unavailable(f"PTK {spec.ptk_id} was changed a moment ago")
    return held


def _wanted(spec: PtkSpec) -> tuple[object, ...]:
    return spec.estimator, spec.start_from, asked_of(spec)


def _tested_window(uow: UnitOfWork, job: Job, spec: PtkSpec, clock: Clock) -> WindowId | None:
    """Return the window that is to test the average; None if none can, or if it has to wait.

    If the labelled stream keeps no window, the owner gets a notice.
    """
    newest = window_to_test_on(uow, spec)
    if newest is None:
        uow.jobs.held(job)
        _notify_once(uow, Notice.of_run(job, NO_TEST_ROWS, clock.now()), [job.window.index])
        return None
    if waits_for_verdict(uow, spec.ptk_id) or was_tested_on(uow, spec, newest):
        return None
    return newest


def _destroy_drafts_of_before(job: Job, averaging: Averaging, begin: Begin) -> None:
    """Destroy drafts of dead claims: none is elected while this claim has the job, and none is of a later one."""
    prefix = draft_prefix(job.window, job.id)
    left = [one for one in averaging.keys.draft_ids() if one.startswith(prefix)]
    if not left:
        return
    with begin() as uow:
        uow.jobs.held(job)  # after they were listed: a later claim may have elected its own
    destroy_drafts(left, averaging.keys, averaging.staging)


def _drafted(own: OwnDraft, state: ReleasedState, staging: Staging) -> Draft:
    files, contents = table_files(state.to_files())
    staging.write(own.id, contents, own.key)
    return Draft(own.id, files, dict(state.meta))


def _content_of(
    job: Job, spec: PtkSpec, stream: Stream, draft: Draft, averaged: Mapping[str, Any], begin: Begin
) -> dict[str, Any]:
    """Return what a manifest will say of the draft."""
    with begin() as uow:
        begun = None if spec.start_from is None else central_version(spec.start_from, uow)
    local = local_loss_of(spec.estimator, stream.policy)
    return local_content_of(job, spec, stream, draft, local, averaged, begun)


def _hand_over(
    job: Job,
    spec: PtkSpec,
    content: Mapping[str, Any],
    draft_id: str,
    tested: WindowId | None,
    after_loss: bool,
    begin: Begin,
    clock: Clock,
) -> bool:
    """Make the draft the PTK's next version, or have it `tested` first; False if the PTK was withdrawn meanwhile."""
    with begin() as uow:
        held = _held_unchanged(uow, job, spec)
        if held is None:
            uow.commit()
            return False
        at = election_time(clock.now(), uow.versions.latest(spec.ptk_id))
        _notify_of_loss(uow, job, content, after_loss, at)
        if tested is None:
            elect(uow, job, draft_id, partial(elected_manifest, content, at), at)
        else:
            uow.jobs.add(validation_of(job, draft_id, at, window=tested))
        uow.jobs.save(held.ended(Outcome.PUBLISHED if tested is None else Outcome.DONE))
        uow.commit()
    return True


def _notify_of_loss(
    uow: UnitOfWork, job: Job, content: Mapping[str, Any], after_loss: bool, at: datetime
) -> None:
    """Tell the owner, once for all averages since the last version, where the instances follow on no earlier ones."""
    ptk_id, first = str(job.ptk_id), max(0, job.window.index - _TOLD_OF_LOSS)
    previous = uow.versions.latest(ptk_id)
    if previous is not None:
        first = max(first, previous.window_index + 1)
        if _goes_on(previous, content, uow.jobs.refused_average(ptk_id)):
            after_loss = instances_in(previous.content).get("epoch") != content["instances"]["epoch"]
    if after_loss:
        _notify_once(uow, Notice.of_run(job, INSTANCES_LOST, at), range(first, job.window.index + 1))


def _goes_on(previous: Version, content: Mapping[str, Any], refused_window: int | None) -> bool:
    """Return whether the instances of the last version go on, if none are lost.

    A changed PTK begins anew, one whose average was refused, and one that was rolled back.
    """
    return (
        DeviceModel.of_version(previous.content) == DeviceModel.of_version(content)
        and repeated_version(previous.content) is None
        and not (refused_window is not None and refused_window > previous.window_index)
    )


def _notify_once(uow: UnitOfWork, notice: Notice, windows: Sequence[int]) -> None:
    """Tell the owner, unless they were told the same of one of these windows."""
    about = uow.notices_about(notice.team, str(notice.ptk_id), windows=windows, run=JobKind.AVERAGE)
    if all(one.code != notice.code for one in about):
        uow.notify_owner(notice)


def _end(job: Job, outcome: Outcome, begin: Begin) -> None:
    with begin() as uow:
        uow.jobs.save(uow.jobs.held(job).ended(outcome))
        uow.commit()
