"""Register a PTK, or say why it cannot be served."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptkstore.application.planning.device_ptks import check_start, without_test
from ptkstore.application.planning.estimators import spec_of
from ptkstore.application.planning.formula_plans import with_facts
from ptkstore.application.planning.labelled_streams import (
    check_labelled_stream,
    labelled_refusals,
    lock_streams,
)
from ptkstore.application.ptks.earlier_looks import check_confidence_is_left, never_read_below
from ptkstore.application.ptks.registration import (
    add,
    check_columns_are_stored,
    check_is_free,
    check_room,
    is_same,
    notify_of_refusal,
    remove,
    replace,
)
from ptkstore.application.ptks.team_code import Registering, admit_team_code, keep_bundle, uploaded_bundle
from ptkstore.domain.names import ptk_id_of
from ptkstore.domain.ptks.ptks import PtkSpec, columns_of, said_of
from ptkstore.domain.ptks.wanted import WantedPtk, changed
from ptkstore.domain.streams.streams import Stream
from ptkstore.errors import PtkRejected
from ptkstore.ports.catalog import Begin, UnitOfWork
from ptkstore.ports.runtime import Clock


def register_ptk(wanted: WantedPtk, *, team: str, stream: str, by: Registering) -> str:
    """Register a PTK and return its id; those registered before it are not disturbed.

    Repeating a registration, because its answer was lost, returns the same answer. A name that was deregistered comes
    back on its own stream: versions are numbered on, and a state of the same model is continued.

    Raises
    ------
    InvalidRequest
        A name, epsilon, domain, column or frequency is not right.
    PtkRejected
        The stream's policy has no room beside the registered PTKs, or wants more assurance; team code failed a check.
    NoSandbox
        It is team code, and cannot be run apart on this machine.
    NameTaken
        The id is registered for something else, or was used on another stream.
    OutcomeUnknown
        It is registered, and whether its code is kept is not known.
    """
    ptk_id = ptk_id_of(team, wanted.name)
    bundle = admit_team_code(ptk_id, wanted.estimator, stream, by)
    with by.begin() as uow:
        owner = lock_streams(uow, stream, [wanted.arguments.get("config") or {}])
        spec = spec_of(ptk_id, owner, wanted.said(owner.policy))
        check_columns_are_stored(uow, spec, owner)
        check_confidence_is_left(uow, spec)
        check_start(uow, spec)
        check_labelled_stream(uow, spec)
        (spec,) = with_facts(uow, [uow.ptks.informed(spec)], owner.policy)
        others = uow.ptks.find(stream=stream)
        if not any(is_same(spec, other) for other in others):
            check_is_free(uow, ptk_id, owner)  # first: a name that is taken has room nowhere
            by.features.check_names(ptk_id, columns_of(spec))
            _check_policy(uow, spec, others, owner, by.clock)
            add(uow, spec, owner, by.clock, never_read_below(uow, spec.tested_on, by.keys, by.journal))
            uow.commit()
    keep_bundle(ptk_id, bundle, by.bundles)
    return ptk_id


def update_ptk(ptk_id: str, change: Mapping[str, Any], *, by: Registering) -> PtkSpec:
    """Change a PTK from the next window on in what `changed` reads; reserved trainings keep their reservation.

    Its training data may change as well: the first training on other blocks starts without the state of before.

    Raises
    ------
    InvalidRequest
        The changed definition is not valid.
    PtkRejected
        There is no room for it beside the others. It stays as it was.
    """
    fields = changed(change)
    estimator = fields.get("estimator")
    with by.begin() as uow:
        current = uow.ptks.get(ptk_id)
    if estimator is None:
        bundle = None
    elif estimator == current.estimator:
        # by now it may have been changed, and its code be gone
        bundle = uploaded_bundle(ptk_id, estimator, by.bundles)
    else:
        bundle = admit_team_code(ptk_id, estimator, current.stream, by)
    with by.begin() as uow:
        current = uow.ptks.get(ptk_id)
        owner = lock_streams(uow, current.stream, [fields.get("config") or current.config])
        current = uow.ptks.get(ptk_id)
        spec = spec_of(ptk_id, owner, {**said_of(current), **without_test(current, fields), **fields})
        if columns_of(spec) != columns_of(current):  # else its names stay, whatever is asked of new ones
            by.features.check_names(ptk_id, columns_of(spec))
        check_columns_are_stored(uow, spec, owner)
        check_confidence_is_left(uow, spec)
        check_start(uow, spec)
        check_labelled_stream(uow, spec)
        others = tuple(p for p in uow.ptks.find(stream=current.stream) if p.ptk_id != ptk_id)
        (spec,) = with_facts(uow, [uow.ptks.informed(spec)], owner.policy)
        _check_policy(uow, spec, others, owner, by.clock)
        replace(uow, spec, owner, by.clock)
        spec = uow.ptks.get(ptk_id)
        uow.commit()
    keep_bundle(ptk_id, bundle, by.bundles)
    return spec


def deregister_ptk(ptk_id: str, *, begin: Begin, clock: Clock) -> None:
    """Stop training a PTK and have its views taken away; unopened reservations are released, versions stay."""
    with begin() as uow:
        before = uow.ptks.get(ptk_id)
    with begin() as uow:
        lock_streams(
            uow, before.stream, [before.config]
        )  # a verdict that is withdrawn was to be paid by the other
        spec = uow.ptks.lock(ptk_id)
        if spec is None:
            return
        remove(uow, spec, clock)
        uow.commit()


def _check_policy(
    uow: UnitOfWork, spec: PtkSpec, others: tuple[PtkSpec, ...], owner: Stream, clock: Clock
) -> None:
    """Raise `PtkRejected` if there is no room; then nobody else has less, and the owner gets one notice."""
    try:
        check_room(spec, others, owner.policy, uow.ptks.tested_on(owner.name))
        refused = labelled_refusals(uow, [spec], [spec.ptk_id], ())
        if refused:
            raise refused[spec.ptk_id]
    except PtkRejected:
        notify_of_refusal(uow, spec.ptk_id, owner, clock)
        raise
