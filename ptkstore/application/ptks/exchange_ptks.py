"""Bring a team's PTKs of a stream to what it wants in one step, or say what of that would be refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from ptklib.canonical_json import canonical_json
from ptkstore.application.planning.device_ptks import check_report, check_start
from ptkstore.application.planning.estimators import spec_of
from ptkstore.application.planning.evaluation_plans import check_evaluations
from ptkstore.application.planning.formula_plans import with_facts
from ptkstore.application.planning.labelled_streams import (
    MOST_ONE_BY_ONE,
    check_labelled_stream,
    labelled_refusals,
    lock_streams,
)
from ptkstore.application.planning.room_left import Room, room_left
from ptkstore.application.planning.window_plans import plan_with
from ptkstore.application.ptks.earlier_looks import check_confidence_is_left, never_read_below
from ptkstore.application.ptks.registration import (
    add,
    check_columns_are_stored,
    check_is_free,
    check_room,
    has_refusal_notice,
    is_same,
    notify_of_refusal,
    remove,
    replace,
)
from ptkstore.application.ptks.team_code import (
    Registering,
    admit_team_code,
    check_assurance,
    check_declared,
    keep_bundle,
    uploaded_bundle,
)
from ptkstore.application.scheduling.newcomers import why_it_never_fits
from ptkstore.domain.allocation.model import Infeasible
from ptkstore.domain.audit import subject_of
from ptkstore.domain.names import ptk_id_of, team_of
from ptkstore.domain.ptks.accept import asked_sums
from ptkstore.domain.ptks.bundles import bundle_of
from ptkstore.domain.ptks.ptks import PtkSpec, columns_of
from ptkstore.domain.ptks.wanted import WantedPtk
from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.streams.streams import Stream
from ptkstore.errors import Conflict, InvalidRequest, PtkRejected, PtkStoreError, Refused, UnknownName
from ptkstore.ports.catalog import Begin, CatalogView, Read
from ptkstore.ports.features import FeatureStore
from ptkstore.ports.runtime import Clock


@dataclass(frozen=True, slots=True)
class Admission:
    """Why some PTKs would be refused, by id in the order they were asked for; nothing is promised by what is missing.

    `at_once` if the new PTKs have room only after others have gone, so that the change must come in one step. `room`
    is what the team may still reserve once all that is not refused has come. It is None if no PTK reserves anything
    when it comes (on devices, and where PTKs wait), and from a server that does not tell. `returning` has the newest
    version, 0 for none, of each PTK whose name was deregistered and would come back.
    """

    refusals: Mapping[str, PtkStoreError]
    at_once: bool = False
    room: Room | None = None
    returning: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Decision:
    registered: Mapping[str, PtkSpec]
    changed: tuple[PtkSpec, ...]
    gone: tuple[PtkSpec, ...]
    refusals: Mapping[str, PtkStoreError]
    tested: tuple[PtkSpec, ...]

    @property
    def after(self) -> tuple[PtkSpec, ...]:
        """The stream's PTKs once all that is not refused is done."""
        there = dict(self.registered)
        for spec in self.gone:
            del there[spec.ptk_id]
        there |= {spec.ptk_id: spec for spec in self.changed if spec.ptk_id not in self.refusals}
        return tuple(there.values())


def admit_ptks(
    *,
    team: str,
    stream: str,
    wanted: Sequence[WantedPtk],
    leaving: Sequence[str] = (),
    begin: Read,
    features: FeatureStore,
) -> Admission:
    """Say what would be refused if a team's PTKs came to be as wanted, and those of `leaving` went; reads alone.

    Team code is not run for it.

    Parameters
    ----------
    wanted, leaving : sequence
        The team's PTKs after the change, and the ids of those that are to go.
    begin : callable
        All of its reads have to see one moment: whoever brings the same PTKs meanwhile would else be seen in part, as
        if their names were somebody else's.

    Raises
    ------
    UnknownName
        There is no such stream, or one of `leaving` was never a PTK of the team there.
    """
    with begin() as uow:
        owner = uow.streams.get(stream)
        decision = _decided(uow, owner, team, wanted, leaving, features)
        new = [spec.ptk_id for spec in decision.changed if spec.ptk_id not in decision.registered]
        back = _returning(uow, new)
    unreserved = owner.policy.on_devices or owner.policy.scheduler.lets_wait
    room = None if unreserved else room_left(team, decision.after, owner.policy)
    if decision.refusals:
        return Admission(decision.refusals, room=room, returning=back)
    is_tested = any(spec.tested_on != stream for spec in decision.changed)
    return Admission({}, is_tested or not _fit_one_by_one(decision, owner.policy), room, back)


def exchange_ptks(
    *,
    team: str,
    stream: str,
    wanted: Sequence[WantedPtk],
    leaving: Sequence[str] = (),
    read: Read,
    by: Registering,
    before_code: Callable[[], None] = lambda: None,
) -> None:
    """Register and change what is wanted and deregister `leaving`, all of it or nothing; repeatable.

    A PTK that is as wanted, and one of `leaving` that is gone by now, are left alone.

    Parameters
    ----------
    wanted, leaving, read
        As in `admit_ptks`.
    before_code : callable
        Is called before team code is examined, which takes minutes.

    Raises
    ------
    InvalidRequest, PtkRejected, NameTaken
        The first that is refused, for the reason that registering it alone would have; nothing is changed.
    NoSandbox
        There is team code, and it cannot be run apart on this machine; nothing is changed.
    Conflict
        A PTK was changed by somebody else meanwhile; nothing is changed.
    OutcomeUnknown
        It is done, and whether all code is kept is not known.
    """
    with read() as uow:  # who is refused holds up no writer while it is found out
        owner = uow.streams.get(stream)
        decision = _decided(uow, owner, team, wanted, leaving, by.features)
    _raise_first(decision, lambda ptk_id: _tell(ptk_id, owner, begin=by.begin, read=read, clock=by.clock))
    admitted: dict[str, bytes | None] = {}
    for spec in decision.changed:
        before = decision.registered.get(spec.ptk_id)
        if before is not None and before.estimator == spec.estimator:
            admitted[spec.ptk_id] = uploaded_bundle(spec.ptk_id, spec.estimator, by.bundles)
        else:
            if bundle_of(spec.estimator) is not None:
                before_code()
            admitted[spec.ptk_id] = admit_team_code(spec.ptk_id, spec.estimator, stream, by)
    with by.begin() as uow:
        configs = [one.arguments.get("config") or {} for one in wanted]
        owner = lock_streams(uow, stream, [*configs, *(spec.config for spec in decision.gone)])
        decision = _decided(uow, owner, team, wanted, leaving, by.features)
        _raise_first(decision, lambda ptk_id: notify_of_refusal(uow, ptk_id, owner, by.clock))
        if unseen := [spec.ptk_id for spec in decision.changed if spec.ptk_id not in admitted]:
            raise Conflict(
                f"PTK {unseen[0]} was changed by somebody else meanwhile; nothing was changed, do it again"
            )
        for spec in decision.gone:
            remove(uow, spec, by.clock)
        for spec in decision.changed:
            if spec.ptk_id in decision.registered:
                replace(uow, spec, owner, by.clock)
            else:
                first_window = never_read_below(uow, spec.tested_on, by.keys, by.journal)
                add(uow, spec, owner, by.clock, first_window)
        uow.commit()
    for ptk_id, bundle in admitted.items():
        keep_bundle(ptk_id, bundle, by.bundles)


def _returning(uow: CatalogView, ptk_ids: Iterable[str]) -> dict[str, int]:
    """The newest version, 0 for none, of those of these PTKs whose name was used before."""
    last_numbers = {}
    for ptk_id in ptk_ids:
        with suppress(UnknownName):
            uow.ptks.stream_of(ptk_id)
            latest = uow.versions.latest(ptk_id)
            last_numbers[ptk_id] = 0 if latest is None else latest.number
    return last_numbers


def exchanged(team: str, wanted: Sequence[WantedPtk], leaving: Sequence[str]) -> tuple[str, ...]:
    """Name every PTK that an exchange is about, for the trail."""
    names = (*(f"{team}.{one.name}" for one in wanted), *leaving)
    return tuple(subject_of("ptk", name) for name in names)


def _decided(
    uow: CatalogView,
    owner: Stream,
    team: str,
    wanted: Sequence[WantedPtk],
    leaving: Sequence[str],
    features: FeatureStore,
) -> _Decision:
    registered = {spec.ptk_id: spec for spec in uow.ptks.find(stream=owner.name)}
    ids = [ptk_id_of(team, one.name) for one in wanted]
    if len({*ids, *leaving}) < len(ids) + len(leaving):
        raise InvalidRequest("a PTK is named twice")
    for ptk_id in leaving:
        if team_of(ptk_id) != team or uow.ptks.stream_of(ptk_id) != owner.name:
            raise UnknownName("PTK", ptk_id)
    specs: list[PtkSpec] = []
    refusals: dict[str, PtkStoreError] = {}
    for ptk_id, one in zip(ids, wanted, strict=True):
        try:
            spec = _described(uow, owner, ptk_id, one, registered.get(ptk_id), features)
            specs.append(spec)
        except (InvalidRequest, Refused, Conflict) as error:
            refusals[ptk_id] = error
    changed = tuple(s for s in specs if s.ptk_id not in registered or not is_same(s, registered[s.ptk_id]))
    going = {*leaving, *(spec.ptk_id for spec in changed)}
    staying = [spec for spec in registered.values() if spec.ptk_id not in going]
    tested = uow.ptks.tested_on(owner.name)
    refusals |= _without_room(changed, staying, owner.policy, tested)
    refusals |= labelled_refusals(uow, specs, [spec.ptk_id for spec in changed], leaving)
    return _Decision(
        registered,
        changed,
        tuple(registered[ptk_id] for ptk_id in leaving if ptk_id in registered),
        {ptk_id: refusals[ptk_id] for ptk_id in ids if ptk_id in refusals},
        tested,
    )


def _described(
    uow: CatalogView,
    owner: Stream,
    ptk_id: str,
    one: WantedPtk,
    before: PtkSpec | None,
    features: FeatureStore,
) -> PtkSpec:
    said = one.said(owner.policy)
    if before is not None and before.every != said["every"]:
        raise InvalidRequest(
            f"PTK {ptk_id} is trained every {before.every} windows; the frequency is fixed, so take another name"
        )
    spec = spec_of(ptk_id, owner, said)
    if before is None or columns_of(before) != columns_of(spec):
        features.check_names(ptk_id, columns_of(spec))
    check_columns_are_stored(uow, spec, owner)
    check_confidence_is_left(uow, spec)
    check_start(uow, spec)
    check_labelled_stream(uow, spec)
    if before is None:
        check_is_free(uow, ptk_id, owner)
    if spec.is_averaged:
        check_report(spec, owner.policy)
        return spec
    check_assurance(ptk_id, spec.estimator, owner.policy)
    # what was registered before there were domains goes on
    if before is None or before.estimator != spec.estimator:
        check_declared(ptk_id, spec.estimator, owner.policy)
    return with_facts(uow, [uow.ptks.informed(spec)], owner.policy)[0]


def _without_room(
    changed: Sequence[PtkSpec], staying: Sequence[PtkSpec], policy: Policy, tested: Sequence[PtkSpec]
) -> dict[str, PtkStoreError]:
    """Those that find no room after those before them, beside PTKs that stay."""
    if _fit(changed, staying, policy, tested):
        return {}
    refusals: dict[str, PtkStoreError] = {}
    others = list(staying)
    for spec in changed[MOST_ONE_BY_ONE:]:
        refusals[spec.ptk_id] = PtkRejected(
            f"there is no room for all {len(changed)} PTKs, and which of them there is room for was looked at for the "
            f"first {MOST_ONE_BY_ONE} only: declare fewer at once"
        )
    for spec in changed[:MOST_ONE_BY_ONE]:
        try:
            check_room(spec, others, policy, tested)
            others.append(spec)
        except PtkRejected as error:
            refusals[spec.ptk_id] = error
    return refusals


def _fit_one_by_one(decision: _Decision, policy: Policy) -> bool:
    """Whether each change finds room beside all that is there before it, what goes included."""
    there, tested = dict(decision.registered), decision.tested
    if not any(spec.ptk_id in there for spec in decision.changed):
        return not decision.gone or _fit(decision.changed, list(there.values()), policy, tested)
    if len(decision.changed) > MOST_ONE_BY_ONE:
        return False
    for spec in decision.changed:
        there.pop(spec.ptk_id, None)
        if not _fit([spec], list(there.values()), policy, tested):
            return False
        there[spec.ptk_id] = spec
    return True


def _fit(
    changed: Sequence[PtkSpec], others: Sequence[PtkSpec], policy: Policy, tested: Sequence[PtkSpec]
) -> bool:
    """Whether all of them have room at once."""
    if policy.on_devices:
        return True  # the loss of a report is limited, whatever other PTKs ask devices for
    try:
        if policy.scheduler.lets_wait:
            for spec in changed:
                check_evaluations((spec,), policy)
            return all(why_it_never_fits(spec, policy) is None for spec in changed)
        for spec in _one_of_each_budget(changed, policy):
            rest = [other for other in changed if other is not spec]
            check_evaluations((*others, *tested, *rest, spec), policy)
        return not isinstance(plan_with(changed, others, policy), Infeasible)
    except PtkRejected:
        return False


def _one_of_each_budget(changed: Sequence[PtkSpec], policy: Policy) -> Iterable[PtkSpec]:
    """One PTK for each budget that evaluations are paid from: they are added up alike for all others of it."""
    return {
        (policy.line_of(spec.ptk_id), canonical_json(spec.config.get("where"))): spec
        for spec in changed
        if asked_sums(spec.config) is not None
    }.values()


def _tell(ptk_id: str, owner: Stream, *, begin: Begin, read: Read, clock: Clock) -> None:
    """Record a refusal; a caller that is refused again delays no writer."""
    with read() as uow:
        if has_refusal_notice(uow, ptk_id, owner):
            return
    with begin() as uow:
        owner = uow.streams.lock(owner.name)  # of two who are refused at once, one leaves word
        notify_of_refusal(uow, ptk_id, owner, clock)


def _raise_first(decision: _Decision, tell: Callable[[str], None]) -> None:
    """Raise the first refusal, if there is one; the stream's owner gets a notice of one for want of room."""
    for ptk_id, error in decision.refusals.items():
        if isinstance(error, PtkRejected):
            tell(ptk_id)
        raise error
