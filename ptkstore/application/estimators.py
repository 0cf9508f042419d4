"""Read an estimator that travels as data: its loss, columns and tables, all known before any row is seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptklib.exceptions import PtklibError
from ptklib.spec import estimator_from_spec
from ptkstore.application.tables import empty_table
from ptkstore.domain.losses import Loss
from ptkstore.domain.ptks import PtkSpec, granted, split_ptk_id
from ptkstore.domain.streams import Assurance, PrivacyUnit, Schema
from ptkstore.errors import InvalidRequest


def spec_of(
    *,
    ptk_id: str,
    stream: str,
    schema: Schema,
    privacy_unit: PrivacyUnit,
    estimator: Mapping[str, Any],
    target: float,
    every: int,
    config: Mapping[str, Any],
    description: str,
) -> PtkSpec:
    """A PTK whose estimator was checked: known family and parameters, a stated loss, columns that the stream has.

    Raises
    ------
    InvalidRequest
        With the estimator's own message, which names parameters and columns only.
    """
    if isinstance(target, bool) or not isinstance(target, int | float) or not 0 < target < float("inf"):
        raise InvalidRequest("the target tau must be a positive, finite number")
    try:
        trainer = estimator_from_spec(estimator)
        declared = trainer.declared_loss()
        protected = trainer.privacy_unit()
        columns = trainer.input_columns()
        tables = trainer.table_schemas()
    except PtklibError as error:
        raise InvalidRequest(f"PTK {ptk_id}: {error}") from error
    if protected != privacy_unit:
        raise InvalidRequest(
            f"PTK {ptk_id} states its loss per {protected.value}, stream {stream!r} accounts per {privacy_unit.value}: "
            f"train without unit=..., embeddings with guarantee='record'"
        )
    for column in columns:
        if schema.type_of(column) is None:
            known = ", ".join(name for name, _ in schema.columns)
            raise InvalidRequest(f"PTK {ptk_id} reads column {column!r}; stream {stream!r} has {known}")
    try:
        trainer.partial_statistics(empty_table(schema))
    except PtklibError as error:
        raise InvalidRequest(f"PTK {ptk_id} cannot read stream {stream!r}: {error}") from error
    team, name = split_ptk_id(ptk_id)
    return PtkSpec(
        ptk_id=ptk_id,
        team=team,
        name=name,
        stream=stream,
        estimator=estimator,
        loss=Loss.charge(declared.epsilon, declared.delta),
        event=declared.event,
        tables={
            table: {
                "keys": list(form.keys),
                "columns": [[field.name, str(field.type)] for field in form.schema],
            }
            for table, form in tables.items()
        },
        target=float(target),
        every=every,
        assurance=Assurance.LIBRARY,
        config=dict(config),
        description=description,
    )


def event_of(estimator: Mapping[str, Any], loss: Loss) -> dict[str, object]:
    """The mechanisms that one training of `estimator` will use when it is granted `loss`."""
    try:
        trainer = estimator_from_spec(granted(estimator, loss.spendable_epsilon, loss.spendable_delta))
        return dict(trainer.declared_loss().event)
    except PtklibError as error:
        raise InvalidRequest(f"the estimator cannot be trained with {loss}") from error
