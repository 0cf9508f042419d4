"""PTKs that devices train, as the catalog has them now, and the weights that their last versions published."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from ptklib.exceptions import PtklibError
from ptkstore.application.ledger.local_losses import specification_of
from ptkstore.application.versions.elected_files import state_files_of
from ptkstore.domain.streams.windows import start_of
from ptkstore.domain.versions.provenance import is_local
from ptkstore.domain.versions.versions import Version
from ptkstore.errors import CorruptObject, UnknownName
from ptkstore.ports.catalog import Read
from ptkstore.ports.devices import DevicePtk
from ptkstore.ports.objects import Lake

if TYPE_CHECKING:
    from ptklib.arrays import Floats


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
        start=partial(_weights_of, newest, specification.digest, lake),
    )


def _weights_of(version: Version | None, specification: str, lake: Lake) -> Floats | None:
    """The weights that a version of this specification published; None where there is none that can be read."""
    from ptklib.base import DPEstimator
    from ptklib.state import ReleasedState

    if version is None or not is_of(version, specification):
        return None
    with suppress(PtklibError, CorruptObject, UnknownName):
        fitted = DPEstimator.from_state(ReleasedState.from_files(state_files_of(version, lake)))
        weights: Floats = fitted.weights_
        return weights
    return None


def is_of(version: Version, specification: str) -> bool:
    """Return whether devices that made a version were told this, by its digest."""
    content = version.content
    return is_local(content) and content["guarantee"]["specification"] == specification
