"""Read an estimator that travels as data: its loss, columns and tables, all known before any row is seen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ptklib.exceptions import PtklibError
from ptklib.spec import estimator_from_spec
from ptklib.state import ReleasedState
from ptkstore.application.ingest.event_tables import empty_table
from ptkstore.application.ledger.local_losses import local_loss_of
from ptkstore.application.planning.comparison_plans import check_significance_of
from ptkstore.application.planning.device_ptks import (
    check_place,
    check_said,
    check_specification,
)
from ptkstore.application.planning.evaluation_plans import check_evaluation
from ptkstore.application.planning.profile_plans import ask_of
from ptkstore.application.planning.several_windows import check_windows
from ptkstore.application.versions.computed_columns import check_computed
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.budgeting.declared import check_recency
from ptkstore.domain.ledger.journal import Entry
from ptkstore.domain.names import split_ptk_id
from ptkstore.domain.ptks.accept import Accept
from ptkstore.domain.ptks.accept_deadlines import check_timeout
from ptkstore.domain.ptks.bundles import assurance_of, bundle_of
from ptkstore.domain.ptks.ptks import (
    CONFIG_KEYS,
    PTK_FIELDS,
    PtkSpec,
    epsilons_of,
    granted,
    is_averaged,
    pin_of,
    servings_of,
    settled_config,
)
from ptkstore.domain.ptks.serving import check_served_tables
from ptkstore.domain.ptks.start_from import StartFrom
from ptkstore.domain.streams.policies import Policy, PrivacyUnit
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.texts import check_texts
from ptkstore.domain.versions.versions import Version
from ptkstore.errors import InvalidRequest


def spec_of(ptk_id: str, owner: Stream, said: Mapping[str, Any]) -> PtkSpec:
    """Return a PTK of which all that its team says, by field, was checked against its stream.

    The estimator has a known family, known parameters, a stated loss, and columns that the stream has.

    Raises
    ------
    InvalidRequest
        With the estimator's own message, which names parameters and columns only.
    """
    stream, schema, policy = owner.name, owner.schema, owner.policy
    for field in PTK_FIELDS:
        field.check(said[field.name])
    said = {**said, "windows": tuple(said["windows"]), "tags": tuple(said["tags"])}
    for field in PTK_FIELDS:
        check_texts(f"PTK {ptk_id}, {field.name}", said[field.name])
    estimator, config = said["estimator"], said["config"]
    check_place(ptk_id, estimator, owner)
    if is_averaged(estimator):
        return _averaged_spec(ptk_id, owner, said)
    if said["target"] is None:
        raise InvalidRequest(f"PTK {ptk_id} needs a target: how small its error is to be")
    target = float(said["target"])
    windows = said["windows"]
    try:
        trainer = estimator_from_spec(estimator)
        declared = trainer.declared_loss()
        _check_unit(ptk_id, stream, policy, trainer)
        check_windows(ptk_id, windows, estimator, trainer, policy)
        columns = trainer.input_columns()
        tables = trainer.table_schemas()
    except PtklibError as error:
        raise InvalidRequest(f"PTK {ptk_id}: {error}") from error
    config = _settled(ptk_id, config, policy)
    if config.get("start_from") is not None:
        raise InvalidRequest(f"PTK {ptk_id}: leave start_from out; it is for PTKs that devices train")
    pin_of(config, policy)
    _check_team_code(ptk_id, trainer, estimator, config)
    for column in columns:
        if schema.type_of(column) is None:
            names = ", ".join(name for name, _ in schema.columns)
            raise InvalidRequest(f"PTK {ptk_id} reads column {column!r}; stream {stream!r} has {names}")
    try:
        trainer.partial_statistics(empty_table(schema))
    except PtklibError as error:
        raise InvalidRequest(f"PTK {ptk_id} cannot read stream {stream!r}: {error}") from error
    check_evaluation(ptk_id, estimator, config, target)
    if (accept := Accept.of(config)) is not None:
        if accept.stream is not None:
            raise InvalidRequest(
                f"accept of PTK {ptk_id}: leave stream out; its own stream has rows to test on"
            )
        check_timeout(accept.timeout, said["every"], policy)
    check_recency(config, policy)
    check_significance_of(ptk_id, estimator, policy)
    released = _released(ptk_id, trainer, tables, config)
    team, name = split_ptk_id(ptk_id)
    return PtkSpec(
        ptk_id=ptk_id,
        team=team,
        name=name,
        stream=stream,
        loss=Loss.charge(declared.epsilon, declared.delta),
        event=declared.event.to_json(),
        tables=released,
        assurance=assurance_of(estimator),
        profile=ask_of(
            ptk_id=ptk_id,
            stream=stream,
            estimator=estimator,
            target=target,
            config=config,
            span=epsilons_of(config),
            policy=policy,
        ),
        **{**said, "target": target, "config": config},
    )


def _averaged_spec(ptk_id: str, owner: Stream, said: Mapping[str, Any]) -> PtkSpec:
    """Return a PTK that devices train, checked: its loss is that of one report, of its whole model."""
    check_said(ptk_id, said)
    config, policy = _settled(ptk_id, said["config"], owner.policy), owner.policy
    StartFrom.of(config)
    try:
        trainer = estimator_from_spec(said["estimator"])
        check_specification(ptk_id, trainer.specification, owner)
        tables = trainer.table_schemas()
    except PtklibError as error:
        raise InvalidRequest(f"PTK {ptk_id}: {error}") from error
    target = said["target"]
    if (accept := Accept.of(config)) is not None:
        target = float(target)
        check_evaluation(ptk_id, said["estimator"], config, target)
        check_timeout(accept.timeout, said["every"], policy)
    local = local_loss_of(said["estimator"], policy)
    team, name = split_ptk_id(ptk_id)
    return PtkSpec(
        ptk_id=ptk_id,
        team=team,
        name=name,
        stream=owner.name,
        loss=local.report,
        event=local.event,
        tables=_released(ptk_id, trainer, tables, config),
        **{**said, "target": target, "config": config},
    )


def _settled(ptk_id: str, config: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    if unknown := sorted(set(config) - CONFIG_KEYS):
        raise InvalidRequest(
            f"PTK {ptk_id}: config has {unknown[0]!r}; it may have {', '.join(sorted(CONFIG_KEYS))}"
        )
    return settled_config(config, policy)


def _released(
    ptk_id: str, trainer: Any, tables: Mapping[str, Any], config: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """The tables that a state has, and that they can be served as the config declares."""
    released = {
        table: {
            "keys": list(form.keys),
            "columns": [[field.name, str(field.type)] for field in form.schema],
        }
        for table, form in tables.items()
    }
    check_served_tables(released)
    servings_of(released, config)
    check_computed(ptk_id, trainer, config)
    return released


_OF_LOSSES = frozenset({"accept", "epsilons", "evaluate", "profile"})
"""What a config asks for that is read off losses of rows."""


def _check_team_code(
    ptk_id: str, trainer: Any, estimator: Mapping[str, Any], config: Mapping[str, Any]
) -> None:
    """`InvalidRequest` where team code would have to say more of rows than it can."""
    if bundle_of(estimator) is None:
        return
    unsupported = sorted(set(config) & _OF_LOSSES)
    if trainer.row_losses is None and unsupported:
        raise InvalidRequest(
            f"PTK {ptk_id}: its team code has no row_losses(state, rows), so its config cannot have "
            f"{', '.join(unsupported)}. It is trained with the epsilon that it declares"
        )
    profile = config.get("profile")
    if isinstance(profile, Mapping) and profile.get("evaluation") not in (None, "rows"):
        raise InvalidRequest(
            f"PTK {ptk_id}: team code is profiled by its row_losses; its eval is run on synthetic rows only, so "
            "evaluation of profile is 'rows'"
        )


def _check_unit(ptk_id: str, stream: str, policy: Policy, trainer: Any) -> None:
    """`InvalidRequest` unless the declared loss covers all rows that a window keeps of one of the stream's units.

    ptklib knows two guarantees: towards a row, and towards all rows of one id. The stream says which of an id's rows
    there are, in one window or in all.
    """
    protects_records = trainer.privacy_unit() == "record"
    if policy.privacy_unit is PrivacyUnit.RECORD:
        if not protects_records:
            raise InvalidRequest(
                f"PTK {ptk_id} states its loss per user, stream {stream!r} accounts per record: train without "
                "unit=..., embeddings with guarantee='record'"
            )
        return
    params = trainer.get_params(deep=False)
    if "max_rows_per_user" in params:  # embeddings are about users: they have a column of their own for them
        column, rows = trainer.required_columns()[0], params["max_rows_per_user"]
        advice = (
            f"guarantee='user', user={policy.unit_column!r}, max_rows_per_user={policy.max_rows_per_unit}"
        )
    else:
        column, rows = params.get("unit"), params.get("max_rows_per_unit", 1)
        advice = f"unit={policy.unit_column!r}, max_rows_per_unit={policy.max_rows_per_unit}"
    if protects_records or column != policy.unit_column or rows < policy.max_rows_per_unit:
        raise InvalidRequest(
            f"stream {stream!r} accounts per {policy.privacy_unit.value} and keeps up to {policy.max_rows_per_unit} "
            f"rows of a user in a window; PTK {ptk_id} must cover them all: train with {advice} (or more rows)"
        )


_LIGHT_CELLS = 2**17
_LIGHT_COLUMNS = 16


def is_light(estimator: Mapping[str, Any]) -> bool:
    """Tell whether a training needs little memory and time beside its rows, by its parameters alone.

    It goes over the rows once or twice, reads few columns and releases few numbers.
    """
    return _is_light(json.dumps(estimator, sort_keys=True))


@lru_cache(maxsize=1024)
def _is_light(estimator: str) -> bool:
    try:
        trainer = estimator_from_spec(json.loads(estimator))
        if trainer.iterates() or len(trainer.input_columns()) > _LIGHT_COLUMNS:
            return False
        return sum(len(one) for one in trainer.merge(()).arrays.values()) <= _LIGHT_CELLS
    except PtklibError:  # a PTK of an earlier program, whose parameters this one refuses
        return False


def condenses(estimator: Mapping[str, Any]) -> bool:
    """Tell whether partial statistics of an estimator condense the rows, so that many workers may collect them."""
    return bool(estimator_from_spec(estimator).condenses())


def can_be_read(version: Version, files: Mapping[str, bytes]) -> bool:
    """Tell whether the files of a version's state are one that its estimator continues from."""
    try:
        state = ReleasedState.from_files(files)
        estimator_from_spec(version.content["config"]).check_previous_state(state)
    except PtklibError:
        return False
    return True


def event_of(estimator: Mapping[str, Any], loss: Loss) -> dict[str, object]:
    """Return the mechanisms that one training of `estimator` will use when it is granted `loss`."""
    try:
        trainer = estimator_from_spec(granted(estimator, loss.spendable_epsilon, loss.spendable_delta))
        event: dict[str, object] = trainer.declared_loss().event.to_json()
        return event
    except PtklibError as error:
        raise InvalidRequest(f"the estimator cannot be trained with {loss}") from error


def is_paid_for(estimator: Mapping[str, Any], spend: Entry) -> bool:
    """Tell whether a training of `estimator` under this spend uses the very mechanisms that were paid for."""
    return event_of(estimator, spend.loss) == spend.event
