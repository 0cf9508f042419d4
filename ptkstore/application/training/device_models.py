"""PTKs that devices train, as the catalog has them now, and the weights that their last versions published."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from ptklib.exceptions import PtklibError
from ptkstore.application.ledger.local_losses import specification_of
from ptkstore.application.versions.elected_files import state_files_of
from ptkstore.domain.jobs import JobKind, job_id
from ptkstore.domain.streams.windows import start_of
from ptkstore.domain.versions.provenance import is_local
from ptkstore.domain.versions.versions import Version
from ptkstore.errors import CorruptObject, Unavailable, UnknownName
from ptkstore.ports.catalog import CatalogView, Read
from ptkstore.ports.devices import DevicePtk, Start
from ptkstore.ports.objects import Lake


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
        is_placed = newest is None or not waits_for_lake(newest, uow)
        refused = uow.jobs.refused_average(ptk_id)
    specification = specification_of(spec.estimator)
    return DevicePtk(
        ptk_id=ptk_id,
        stream=spec.stream,
        specification=specification,
        window=window,
        window_ends=start_of(policy, window + 1),
        report_epsilon=policy.report_epsilon or 0.0,
        reports_per_window=policy.reports_per_window or 0,
        reports_in_all=policy.reports_in_all or 0,
        refused_window=refused,
        start=partial(_start, newest, specification.digest, lake, is_placed=is_placed),
    )


def waits_for_lake(version: Version, uow: CatalogView) -> bool:
    """Return whether a version is elected and not yet in the lake."""
    return uow.jobs.get(job_id(JobKind.PLACE, version.ptk_id)).position < version.number


def _start(version: Version | None, specification: str, lake: Lake, *, is_placed: bool) -> Start:
    """The weights that a version of this specification published; zero where there is none that can be read."""
    from ptklib.base import DPEstimator
    from ptklib.state import ReleasedState

    if version is None or not is_of(version, specification):
        return Start()
    if not is_placed:
        raise Unavailable(f"version {version.number} of PTK {version.ptk_id} is on its way to the lake")
    with suppress(PtklibError, CorruptObject, UnknownName):
        fitted = DPEstimator.from_state(ReleasedState.from_files(state_files_of(version, lake)))
        return Start(fitted.weights_, version.content["instances"].get("reports"))
    return Start()


def is_of(version: Version, specification: str) -> bool:
    """Return whether devices that made a version were told this, by its digest."""
    content = version.content
    return is_local(content) and content["guarantee"]["specification"] == specification
