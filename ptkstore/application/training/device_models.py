"""PTKs that devices train, as the catalog has them now, and the weights that their last versions published."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ptklib.exceptions import PtklibError
from ptkstore.application.ledger.local_losses import specification_of
from ptkstore.application.versions.elected_files import state_files_of
from ptkstore.domain.jobs import JobKind, job_id
from ptkstore.domain.ptks.start_from import StartFrom
from ptkstore.domain.streams.windows import start_of
from ptkstore.domain.versions.provenance import is_local
from ptkstore.domain.versions.versions import Version
from ptkstore.errors import CorruptObject, Unavailable, UnknownName
from ptkstore.ports.catalog import CatalogView, Read
from ptkstore.ports.devices import DevicePtk, Start
from ptkstore.ports.objects import Lake

if TYPE_CHECKING:
    from ptklib.draw_discard import Specification


def device_ptk_of(ptk_id: str, *, begin: Read, lake: Lake) -> DevicePtk:
    """Read a PTK that devices train afresh.

    Raises
    ------
    UnknownName
        There is no such PTK, or devices do not train it.
    """
    with begin() as uow:
        spec = uow.ptks.get(ptk_id)
        if not spec.is_averaged:
            raise UnknownName("PTK that devices train", ptk_id)
        policy = uow.streams.get(spec.stream).policy
        window = uow.streams.progress(spec.stream).closed_before
        newest = uow.versions.latest(ptk_id)
        refused = uow.jobs.refused_average(ptk_id)
        last_rollback = uow.versions.last_rollback(ptk_id)
        specification = specification_of(spec.estimator)
        if newest is None or not is_of(newest, specification.digest, spec.start_from):
            newest = None if spec.start_from is None else central_version(spec.start_from, uow)
        is_placed = newest is None or not waits_for_lake(newest, uow)
    return DevicePtk(
        ptk_id=ptk_id,
        stream=spec.stream,
        specification=specification,
        window=window,
        window_ends=start_of(policy, window + 1),
        report_epsilon=policy.report_epsilon or 0.0,
        reports_per_window=policy.reports_per_window or 0,
        reports_in_all=policy.reports_in_all or 0,
        start_from=spec.start_from,
        refused_window=refused,
        last_rollback=last_rollback,
        start=partial(_start, specification, newest, lake, is_placed=is_placed),
    )


def waits_for_lake(version: Version, uow: CatalogView) -> bool:
    """Return whether a version is elected and not yet in the lake."""
    return uow.jobs.get(job_id(JobKind.PLACE, version.ptk_id)).position < version.number


def central_version(start: StartFrom, uow: CatalogView) -> Version:
    """Read the central version that a PTK begins with."""
    return uow.versions.get(start.ptk_id, start.number)


def _start(specification: Specification, version: Version | None, lake: Lake, *, is_placed: bool) -> Start:
    """The weights of a version of this specification, or of a central one that devices begin with; zero for None.

    Zero, too, where a version of its own cannot be read.
    """
    from ptklib.base import DPEstimator
    from ptklib.state import ReleasedState
    from ptklib.warm_start import warm_start

    if version is None:
        return Start()
    if not is_placed:
        raise Unavailable(f"version {version.number} of PTK {version.ptk_id} is on its way to the lake")
    try:
        fitted = DPEstimator.from_state(ReleasedState.from_files(state_files_of(version, lake)))
        if not is_local(version.content):
            return Start(warm_start(specification, fitted))
        return Start(fitted.weights_, version.content["instances"].get("reports"))
    except (PtklibError, CorruptObject, UnknownName) as error:
        if is_local(version.content):
            return Start()
        raise Unavailable(
            f"devices cannot begin with version {version.number} of {version.ptk_id}"
        ) from error


def is_of(version: Version, specification: str, start: StartFrom | None) -> bool:
    """Return whether devices that made a version were told this, by its digest, and began with this."""
    content = version.content
    told = is_local(content) and content["guarantee"]["specification"] == specification
    return told and StartFrom.of(content) == start
