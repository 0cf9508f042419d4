"""PTKs that devices train, as the catalog has them now, and the weights that their last versions published."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ptklib.exceptions import PtklibError
from ptkstore.application.ledger.local_losses import specification_of
from ptkstore.application.versions.elected_files import state_files_of
from ptkstore.domain.jobs import JobKind, job_id
from ptkstore.domain.ptks.start_from import StartFrom
from ptkstore.domain.streams.windows import start_of
from ptkstore.domain.versions.device_models import DeviceModel
from ptkstore.domain.versions.provenance import instances_in
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
        first: Callable[[], Start] = Start
        if spec.start_from is not None:
            central = central_version(spec.start_from, uow)
            first = partial(
                _central, specification, central, lake, is_placed=not waits_for_lake(central, uow)
            )
        last: Callable[[], Start | None] = first
        model = DeviceModel(specification.digest, spec.start_from)
        if newest is not None and DeviceModel.of_version(newest.content) == model:
            last = partial(_own, newest, lake, is_placed=not waits_for_lake(newest, uow))
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
        has_given_up=spec.has_given_up,
        last=last,
        start=partial(_start, last, first),
    )


def waits_for_lake(version: Version, uow: CatalogView) -> bool:
    """Return whether a version is elected and not yet in the lake."""
    return uow.jobs.get(job_id(JobKind.PLACE, version.ptk_id)).position < version.number


def central_version(start: StartFrom, uow: CatalogView) -> Version:
    """Read the central version that a PTK begins with."""
    return uow.versions.get(start.ptk_id, start.number)


def _own(version: Version, lake: Lake, *, is_placed: bool) -> Start | None:
    """The weights of a version that devices trained; None where it cannot be read."""
    _check_is_placed(version, is_placed)
    try:
        weights = _fitted(version, lake).weights_
    except (PtklibError, CorruptObject, UnknownName):
        return None
    return Start(weights, instances_in(version.content).get("reports"))


def _central(specification: Specification, version: Version, lake: Lake, *, is_placed: bool) -> Start:
    """The weights of a central version that devices begin with."""
    from ptklib.warm_start import warm_start

    _check_is_placed(version, is_placed)
    try:
        return Start(warm_start(specification, _fitted(version, lake)))
    except (PtklibError, CorruptObject, UnknownName) as error:
        raise Unavailable(
            f"devices cannot begin with version {version.number} of {version.ptk_id}"
        ) from error


def _start(last: Callable[[], Start | None], first: Callable[[], Start]) -> Start:
    """The start of an epoch: the last version, or what devices began with if that cannot be read."""
    found = last()
    return first() if found is None else found


def _check_is_placed(version: Version, is_placed: bool) -> None:
    if not is_placed:
        raise Unavailable(f"version {version.number} of PTK {version.ptk_id} is on its way to the lake")


def _fitted(version: Version, lake: Lake) -> Any:
    from ptklib.base import DPEstimator
    from ptklib.state import ReleasedState

    return DPEstimator.from_state(ReleasedState.from_files(state_files_of(version, lake)))
