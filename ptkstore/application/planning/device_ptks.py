"""PTKs that devices train: checked against their stream before any device is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ptklib.exceptions import PtklibError
from ptklib.spec import estimator_from_spec
from ptkstore.application.ledger.local_losses import local_loss_of, specification_of
from ptkstore.domain.names import team_of
from ptkstore.domain.ptks.accept import Accept
from ptkstore.domain.ptks.ptks import AVERAGED, PtkSpec, is_averaged
from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.streams.schemas import ColumnType, Schema
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.versions.provenance import is_local
from ptkstore.errors import InvalidRequest, PtkRejected
from ptkstore.ports.catalog import CatalogView

if TYPE_CHECKING:
    from ptklib.draw_discard import Specification

_NUMBERS = (ColumnType.INT64, ColumnType.FLOAT64, ColumnType.BOOL)
_HASHED = (ColumnType.STRING, ColumnType.INT64, ColumnType.BOOL)
_VALUES = {str: ColumnType.STRING, int: ColumnType.INT64, bool: ColumnType.BOOL}
_READS_ROWS = {
    "epsilons": "its epsilon is that of the specification, which devices must agree to",
    "evaluate": "an estimate would read rows of a test set",
    "pinned": "no window of it has partitions or rows in the store",
    "profile": "a profile would read rows",
    "recency": "no scheduler of rows serves it",
    "where": "the stream has no blocks",
}
"""What a config may ask for of rows in the store, and why devices cannot give it."""


def check_place(ptk_id: str, estimator: Mapping[str, Any], owner: Stream) -> None:
    """Raise `InvalidRequest` unless the estimator is trained where the stream's rows are."""
    if is_averaged(estimator) == owner.policy.on_devices:
        return
    if owner.policy.on_devices:
        raise InvalidRequest(
            f"PTK {ptk_id} is trained on rows, and the rows of stream {owner.name!r} stay on devices: its PTKs are of "
            f"the family {AVERAGED}"
        )
    raise InvalidRequest(
        f"PTK {ptk_id} is of the family {AVERAGED}, which devices train, and the rows of stream {owner.name!r} are in "
        "the store: create a stream with --rows on-devices"
    )


def check_said(ptk_id: str, said: Mapping[str, Any]) -> None:
    """Raise `InvalidRequest` for what is said of a PTK that only rows in the store could answer."""
    for name, reason in _READS_ROWS.items():
        if said["config"].get(name) is not None:
            raise InvalidRequest(f"PTK {ptk_id}: leave {name} out; devices train it, and {reason}")
    accept = Accept.of(said["config"])
    if accept is not None and accept.stream is None:
        raise InvalidRequest(
            f"accept of PTK {ptk_id} names a stream with labelled rows: devices train it, and their rows stay there"
        )
    if accept is not None and said["target"] is None:
        raise InvalidRequest(f"PTK {ptk_id} needs a target: what accept compares its test with")
    if accept is None and said["target"] is not None:
        raise InvalidRequest(
            f"PTK {ptk_id}: leave target out; devices train it, and no rows are planned for a target"
        )
    if tuple(said["windows"]) != (1, 1):
        raise InvalidRequest(f"PTK {ptk_id}: leave windows out; devices train it, and no window is read")


def without_test(current: PtkSpec, change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the target that a change leaves a PTK which devices train: none, where it takes its test away."""
    asks = Accept.of(change.get("config", current.config)) is not None
    return {"target": None} if current.is_averaged and not asks else {}


def check_specification(ptk_id: str, specification: Specification, owner: Stream) -> None:
    """Raise `InvalidRequest` unless the stream has the columns that devices are asked for, with fitting types."""
    from ptklib.draw_discard import Categorical, Numeric

    for column in (*specification.features, specification.label):
        fitting: tuple[ColumnType, ...] = _HASHED
        if isinstance(column, Numeric):
            fitting = _NUMBERS
        elif isinstance(column, Categorical):
            fitting = (_VALUES[type(column.values[0])],)
        _check_column(ptk_id, column.column, fitting, owner.name, owner.schema)


def _check_column(
    ptk_id: str, column: str, fitting: tuple[ColumnType, ...], stream: str, schema: Schema
) -> None:
    kind = schema.type_of(column)
    if kind is None:
        names = ", ".join(name for name, _ in schema.columns)
        raise InvalidRequest(f"PTK {ptk_id} reads column {column!r}; stream {stream!r} has {names}")
    if kind not in fitting:
        raise InvalidRequest(
            f"PTK {ptk_id} reads column {column!r} as {' or '.join(one.value for one in fitting)}; in stream "
            f"{stream!r} it is {kind.value}"
        )


def check_start(uow: CatalogView, spec: PtkSpec) -> None:
    """Raise unless the central version that a PTK begins with, if it does, predicts the same from the same columns.

    It is of the same team: whoever may not read the states of a stream learns no weights of them here.

    Raises
    ------
    UnknownName
        There is no such version.
    InvalidRequest
        It is another team's, or its model does not match, with the reason.
    """
    from ptklib.warm_start import check_warm_start

    if spec.start_from is None:
        return
    if team_of(spec.start_from.ptk_id) != spec.team:
        raise InvalidRequest(f"PTK {spec.ptk_id}: start_from names a PTK of its own team")
    version = uow.versions.get(spec.start_from.ptk_id, spec.start_from.number)
    if is_local(version.content):
        raise InvalidRequest(
            f"PTK {spec.ptk_id}: start_from names a PTK that is trained on rows in the store"
        )
    try:
        check_warm_start(specification_of(spec.estimator), estimator_from_spec(version.content["config"]))
    except PtklibError as error:
        raise InvalidRequest(f"PTK {spec.ptk_id} cannot begin with {spec.start_from}: {error}") from error


def check_report(spec: PtkSpec, policy: Policy) -> None:
    """Raise `PtkRejected` where one report of a device would lose more than the stream allows."""
    local = local_loss_of(spec.estimator, policy)
    if not local.report.fits(policy.report_limit):
        raise PtkRejected(
            f"one report of PTK {spec.ptk_id} loses {local.report}, the whole model counted, and the stream allows "
            f"{policy.report_limit}"
            + (
                "; clip='coordinate' promises its epsilon for one weight alone: take 'l1' or 'l2'"
                if local.clip == "coordinate"
                else ""
            )
        )
