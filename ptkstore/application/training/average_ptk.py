"""Publish the average of what devices put back: no row is read, and nothing is reserved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ptklib.spec import estimator_from_spec
from ptkstore.application.ledger.local_losses import local_loss_of
from ptkstore.application.training.device_models import central_version, waits_for_lake
from ptkstore.application.versions.drafts import OwnDraft, destroy_drafts
from ptkstore.application.versions.elections import elect
from ptkstore.domain.jobs import Job, JobKind, Outcome
from ptkstore.domain.notices import Notice
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.streams.report_counts import REPORTS_STEP, Counts, reports_told
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.versions.device_models import DeviceModel
from ptkstore.domain.versions.drafts import draft_prefix
from ptkstore.domain.versions.manifests import elected_manifest, local_content_of
from ptkstore.domain.versions.provenance import instances_in
from ptkstore.domain.versions.versions import Draft, Version, repeated_version, table_files
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

MOVED_RATE: Final = 0.01
"""Share of windows of honest reports whose average is refused, at most."""

ReadFound = Callable[[DevicePtk, Epoch], tuple[Counted, Counts]]


@dataclass(frozen=True, slots=True)
class Averaging:
    """What reads instances, and what stores drafts.

    `read_epoch` reads something of the epoch of the PTK, begun where there is none or its instances were lost.
    """

    instances: InstancesView
    read_epoch: Callable[[ReadFound], tuple[DevicePtk, Epoch, tuple[Counted, Counts]]]
    staging: Staging
    keys: KeyStore


def average_ptk(job: Job, averaging: Averaging, *, begin: Begin, clock: Clock, steps: Steps) -> None:
    """Make the average of a PTK's instances its next version, as one window closes.

    What devices sent is noisy by now, so the average is public whenever it is made: it waits for no tick. Where no
    device ever reported, the instances are those that devices would begin with.

    An average that is further from where the last version was than honest reports move it is refused. The owner is
    told, and the next epoch begins around the last version: what moved it that far is gone.

    A server of instances that does not answer puts the job off, as often as it has to; the owner is told once. One that
    has lost them begins anew, and the owner is told.
    """
    ptk_id = str(job.ptk_id)
    with begin() as uow:
        spec, stream = uow.ptks.lock(ptk_id), uow.streams.get(job.stream)
        previous = uow.versions.latest(ptk_id)
        waits = previous is not None and waits_for_lake(previous, uow)
    if spec is None or not spec.is_averaged:
        _destroy_drafts_of_before(job, averaging, begin)
        _withdraw(job, begin)
        return
    if waits:
        raise Unavailable(f"the last version of PTK {ptk_id} is on its way to the lake")
    try:
        ptk, epoch, found, counts = _instances(job, previous, averaging)
    except Unavailable:
        _notify_once(job, INSTANCES_AWAY, begin, clock)
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
        steps.reached("average-staged", job.id)
        own.kept = True  # by an election that nobody answers, too
        try:
            own.kept = _elect(job, spec, stream, draft, averaged, found.after_loss, begin, clock)
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
    if (spec_now.estimator, spec_now.start_from) != (spec.estimator, spec.start_from):
        raise Unavailable(f"PTK {spec.ptk_id} was changed a moment ago")
    return held


def _destroy_drafts_of_before(job: Job, averaging: Averaging, begin: Begin) -> None:
    """Destroy what claims that died left: none of it is elected while the job is held, and none is of a later claim."""
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


def _elect(
    job: Job,
    spec: PtkSpec,
    stream: Stream,
    draft: Draft,
    averaged: Mapping[str, Any],
    after_loss: bool,
    begin: Begin,
    clock: Clock,
) -> bool:
    """Make the draft the PTK's next version; False if the PTK was withdrawn meanwhile."""
    at = clock.now()
    with begin() as uow:
        held = _held_unchanged(uow, job, spec)
        if held is None:
            uow.commit()
            return False
        local = local_loss_of(spec.estimator, stream.policy)
        model, previous = DeviceModel(local.specification, spec.start_from), uow.versions.latest(spec.ptk_id)
        if previous is not None and _goes_on(previous, model, uow.jobs.refused_average(spec.ptk_id)):
            after_loss = instances_in(previous.content).get("epoch") != averaged["epoch"]
        if after_loss:
            uow.notify_owner(Notice.of_run(job, INSTANCES_LOST, at))
        begun = None if spec.start_from is None else central_version(spec.start_from, uow)
        content = local_content_of(job, spec, stream, draft, local, averaged, begun)
        elect(uow, job, draft.draft_id, partial(elected_manifest, content, at), at)
        uow.jobs.save(held.ended(Outcome.PUBLISHED))
        uow.commit()
    return True


def _goes_on(previous: Version, model: DeviceModel, refused_window: int | None) -> bool:
    """Return whether the instances of the last version go on, if none are lost.

    A changed PTK begins anew, one whose average was refused, and one that was rolled back.
    """
    return (
        DeviceModel.of_version(previous.content) == model
        and repeated_version(previous.content) is None
        and not (refused_window is not None and refused_window > previous.window_index)
    )


def _notify_once(job: Job, code: str, begin: Begin, clock: Clock) -> None:
    notice = Notice.of_run(job, code, clock.now())
    with begin() as uow:
        uow.jobs.held(job)
        windows = [job.window.index]
        about = uow.notices_about(notice.team, str(job.ptk_id), windows=windows, run=JobKind.AVERAGE)
        if all(one.code != code for one in about):
            uow.notify_owner(notice)
            uow.commit()


def _withdraw(job: Job, begin: Begin) -> None:
    with begin() as uow:
        uow.jobs.save(uow.jobs.held(job).ended(Outcome.WITHDRAWN))
        uow.commit()
