"""Labelled streams: their test blocks pay for the verdicts on models that devices train."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ptkstore.application.ledger.local_losses import specification_of
from ptkstore.application.planning.device_ptks import check_specification
from ptkstore.application.planning.evaluation_plans import check_evaluations
from ptkstore.domain.jobs import JobKind, JobState
from ptkstore.domain.ptks.accept import Accept
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.scheduling.choices import Scheduler
from ptkstore.domain.streams.policies import PrivacyUnit
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import InvalidRequest, PtkRejected
from ptkstore.ports.catalog import CatalogView, UnitOfWork

MOST_ONE_BY_ONE = 20
"""PTKs that are looked at one by one for the sake of telling which find no room."""


def lock_streams(uow: UnitOfWork, stream: str, configs: Iterable[Mapping[str, Any]]) -> Stream:
    """Lock a stream and those that pay for verdicts on its PTKs, in the order in which all lock several; return it."""
    asked = (Accept.of(config) for config in configs)
    names = {stream, *(one.stream for one in asked if one is not None and one.stream is not None)}
    locked = {name: uow.streams.lock(name) for name in sorted(names)}
    return locked[stream]


def check_labelled_stream(uow: CatalogView, spec: PtkSpec) -> None:
    """Raise unless the labelled stream of a PTK, if it names one, can test it.

    Raises
    ------
    UnknownName
        There is no such stream.
    InvalidRequest
        Its rows are on devices, it promises no room at registration, a column is missing, or the PTK named another one
        before.
    """
    if spec.accept is None or spec.accept.stream is None:
        return
    labelled = uow.streams.get(spec.tested_on)
    _check_can_promise(spec, labelled)
    check_specification(spec.ptk_id, specification_of(spec.estimator), labelled)
    before = uow.ptks.labelled_stream(spec.ptk_id)
    if before not in (None, labelled.name):
        raise InvalidRequest(
            f"accept of PTK {spec.ptk_id}: it was tested on stream {before!r}, and its looks count there; take another "
            "name for it"
        )


def labelled_refusals(
    uow: CatalogView, wanted: Sequence[PtkSpec], changed: Collection[str], leaving: Collection[str]
) -> dict[str, PtkRejected]:
    """Return the PTKs for whose verdicts test blocks have no room, beside those of both streams that stay.

    Each window pays for one verdict on each PTK at most, and its blocks for nothing after it: so what fits one test
    block fits all.

    Parameters
    ----------
    wanted : sequence of PtkSpec
        PTKs that come or stay.
    changed : collection of str
        Ids of those that come or change.
    leaving : collection of str
        Ids of PTKs that go.
    """
    refusals: dict[str, PtkRejected] = {}
    coming = [one for one in wanted if one.tested_on != one.stream]
    for stream in sorted({one.tested_on for one in coming if one.ptk_id in changed}):
        policy = uow.streams.get(stream).policy
        tested = [one for one in coming if one.tested_on == stream]
        gone = {*leaving, *(one.ptk_id for one in wanted)}
        there = (*uow.ptks.find(stream=stream), *uow.ptks.tested_on(stream))
        others = [one for one in there if one.ptk_id not in gone]
        staying = [one for one in tested if one.ptk_id not in changed]
        new = [one for one in tested if one.ptk_id in changed]
        lines = {policy.line_of(one.ptk_id): one for one in new}
        try:
            for one in lines.values():
                check_evaluations((*others, *(each for each in tested if each is not one), one), policy)
        except PtkRejected as error:
            for one in new[MOST_ONE_BY_ONE:]:
                refusals[one.ptk_id] = error
            fitting = [*others, *staying]
            for one in new[:MOST_ONE_BY_ONE]:
                try:
                    check_evaluations((*fitting, one), policy)
                    fitting.append(one)
                except PtkRejected as refusal:
                    refusals[one.ptk_id] = refusal
    return refusals


def _check_can_promise(spec: PtkSpec, labelled: Stream) -> None:
    policy = labelled.policy
    if policy.on_devices:
        raise InvalidRequest(
            f"accept of PTK {spec.ptk_id}: the rows of stream {labelled.name!r} stay on devices; name one with "
            "labelled rows in the store"
        )
    if policy.scheduler is not Scheduler.ALLOCATE:
        raise InvalidRequest(
            f"accept of PTK {spec.ptk_id}: stream {labelled.name!r} gives budget to PTKs that wait for it, and "
            f"promises no room on its test blocks; name one with the scheduler {Scheduler.ALLOCATE}"
        )
    if policy.privacy_unit is PrivacyUnit.USER:
        raise InvalidRequest(
            f"accept of PTK {spec.ptk_id}: test blocks of stream {labelled.name!r} are of users, for all windows "
            "together, so that no room lasts; name one of another privacy unit"
        )


def window_to_test_on(uow: UnitOfWork, spec: PtkSpec) -> WindowId | None:
    """Return the newest kept window of a PTK's labelled stream that has all columns; None without one."""
    added = {one.column: one.since for one in uow.streams.get(spec.tested_on).schema.added}
    specification = specification_of(spec.estimator)
    columns = [column.column for column in (*specification.features, specification.label)]
    first = max((added.get(column, 0) for column in columns), default=0)
    kept = [index for index in uow.windows.prepared(spec.tested_on) if index >= first]
    return WindowId(spec.tested_on, max(kept)) if kept else None


def was_tested_on(uow: UnitOfWork, spec: PtkSpec, window: WindowId) -> bool:
    """Return whether a state of a PTK was or is to be tested on a window: one look for each."""
    return any(one.ptk_id == spec.ptk_id for one in uow.jobs.of_window(window, JobKind.VALIDATE))


def waits_for_verdict(uow: CatalogView, ptk_id: str) -> bool:
    """Return whether a state of a PTK waits for its verdict."""
    found = (uow.jobs.find(ptk_id=ptk_id, state=state) for state in (JobState.READY, JobState.OPENED))
    return any(one.kind is JobKind.VALIDATE for jobs in found for one in jobs)
