"""The changes that a team's repository would make in a store, and making them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ptklib.exceptions import PtklibError
from ptkstore.application.ptks.exchange_ptks import Admission
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.names import checked_name
from ptkstore.domain.near_names import near
from ptkstore.domain.ptks.bundles import AUDIT_RUNS, assurance_of
from ptkstore.domain.ptks.device_warnings import device_warnings
from ptkstore.domain.ptks.ptks import (
    PTK_ARGUMENTS,
    PtkSpec,
    is_averaged,
    settled_config,
    windows_between,
)
from ptkstore.domain.ptks.serving import plain
from ptkstore.domain.ptks.wanted import WantedPtk
from ptkstore.domain.streams.policies import Policy
from ptkstore.errors import InvalidRequest, NoSandbox, NotAllowed, PtkRejected, PtkStoreError, UnknownName
from ptkstore.sdk.repository.declarations import PTK, Repository
from ptkstore.sdk.repository.device_reports import (
    ReportsPlanned,
    VerdictAsked,
    per_device,
    reports_planned,
    verdict_asked,
)
from ptkstore.sdk.repository.faults import named, naming
from ptkstore.sdk.repository.field_changes import BESIDE, FieldChange, field_changes
from ptkstore.sdk.repository.plan_checks import FamilyChecks, checks_text

if TYPE_CHECKING:
    from ptkstore.ports.team_code import Examined
    from ptkstore.sdk.service import StoreService


@dataclass(frozen=True)
class RoomLeft:
    """The largest loss per window that one more PTK of the team fits with on a stream, once a plan is applied.

    The capacity is that of the team's budget in each block: of its context, where the stream keeps one per context.
    """

    epsilon: float
    delta: float
    capacity_epsilon: float
    capacity_delta: float
    accountant: str
    context: str = ""


Tell = Callable[[str], None]
"""Is told in a few words what is done next, where that takes a while."""


@dataclass(frozen=True)
class Change:
    """The change of `plan` to one PTK: `register`, `update`, `keep`, `deregister` or, though undeclared, let it `stay`.

    `epsilon` and `delta` are what it reserves of each window from then on, `epsilon_before` what it reserves now.
    `refused` is the code of the error that `apply` would end with, None where it would not. `checks` is the result of
    a new or changed PTK on synthetic rows: `passed`, `partly`, `failed` or `not-run`; None if nothing was checked.
    With `partly` none failed, and some did not run, as they take too long. `reason` tells more of either.
    `changes` names the fields that an update changes. `returns` is the newest version, 0 for none, of a PTK whose name
    was deregistered and comes back. `per_device` says what a device loses to a PTK that devices train: the epsilon of
    one `report`, of `one_weight` of it, of `one_window` and `in_all`. Then `epsilon` is that of one report, and no
    window reserves anything of it. `verdict` says what each verdict on it costs the test blocks of which labelled
    stream. `reports` says in a plan how many reports such a PTK needs, and how many come.
    `warnings` says what to know of it before it is registered or changed so.
    `room` is what the whole plan leaves on the stream; None where nobody can tell, on devices and where PTKs wait.
    """

    action: str
    ptk_id: str
    epsilon: float
    delta: float
    epsilon_before: float = 0.0
    assurance: str = "library"
    bundle: str | None = None
    checks: str | None = None
    refused: str | None = None
    reason: str = ""
    stream: str = ""
    changes: tuple[FieldChange, ...] = ()
    returns: int | None = None
    room: RoomLeft | None = None
    per_device: Mapping[str, float] | None = None
    verdict: VerdictAsked | None = None
    reports: ReportsPlanned | None = None
    warnings: tuple[str, ...] = ()

    @property
    def acceptable(self) -> bool:
        """Whether nothing is known against it."""
        return self.refused is None and self.checks != "failed"


def planned(
    service: StoreService,
    repository: Repository,
    *,
    prune: bool = False,
    audit: bool = True,
    tell: Tell = lambda _: None,
) -> tuple[Change, ...]:
    """Say what `applied` would do, what each PTK would reserve per window, and what would be refused and why.

    New and changed PTKs are checked and audited on synthetic rows: families of the library here, team code in this
    machine's sandbox.

    Parameters
    ----------
    prune : bool
        Name the team's PTKs that the repository does not declare as well.
    audit : bool
        Run the audits, too.
    tell : callable
        Hears what is checked next.
    """
    step = _Step(service, repository, prune=prune)
    refusals, rooms, returning = dict(step.refusals), dict[str, RoomLeft | None](), dict[str, int]()
    for stream in step.streams:
        admission = step.admission(stream)
        refusals |= step.advised(stream, admission)
        rooms[stream] = _room(admission)
        returning |= admission.returning
    todo = [
        c for c, _ in step.compared if c.action != "keep" and c.bundle is None and c.ptk_id not in refusals
    ]
    checks = FamilyChecks(audit=audit, n_ptks=len(todo))
    changes = []
    for compared, ptk in step.compared:
        change, error = step.with_reports(compared, ptk), refusals.get(compared.ptk_id)
        if error is not None:
            changes.append(replace(change, refused=error.code, reason=str(named(error, change.ptk_id))))
        elif change.action == "keep":
            changes.append(change)
        else:
            tell(f"checking {change.ptk_id} on synthetic rows")
            changes.append(_checked(service, change, repository, ptk, checks, audit=audit))
    return tuple(
        replace(one, returns=returning.get(one.ptk_id), room=rooms.get(one.stream))
        for one in (*changes, *step.removals)
    )


def undeclared(service: StoreService, repository: Repository) -> tuple[Change, ...]:
    """Return the team's PTKs that are registered and not declared by its repository: without `prune` they `stay`."""
    specs = {spec.ptk_id: spec for spec in service.ptks(team=repository.team)}
    policies = {stream.name: stream.policy for stream in service.streams()}
    return tuple(
        replace(
            gone, action="stay", epsilon=specs[gone.ptk_id].loss.epsilon, delta=specs[gone.ptk_id].loss.delta
        )
        for gone in _removals(repository, specs, policies)
    )


def applied(
    service: StoreService, repository: Repository, *, prune: bool | Collection[str] = False
) -> tuple[Change, ...]:
    """Make the store's PTKs of a team what its repository declares; repeatable.

    `prune` may name the PTKs that go: what else is undeclared, such as what a colleague registered meanwhile, stays.

    First everything is asked for at once, without any change: a refusal then leaves the store as it was. PTKs are
    registered and changed one by one, and those to be pruned go last. If there is room only without these, all of a
    stream is exchanged in one step, or nothing of it.

    Team code travels along, also where nothing changes, so that the store has it; what is new the store checks before
    it registers anything of it.

    Raises
    ------
    PtkRejected
        There is no room for a PTK, or its code failed a check. PTKs to be pruned in exchange for it are still there.
    """
    step = _Step(service, repository, prune=prune)
    for ptk_id, error in step.refusals.items():
        raise named(error, ptk_id)
    admissions = {stream: step.admission(stream) for stream in step.wanted()}
    returning = {ptk_id: newest for one in admissions.values() for ptk_id, newest in one.returning.items()}
    if len(_refused(admissions)) > 1:  # what has room by now must not be done before another stream refuses
        admissions |= {stream: step.admission(stream) for stream in _refused(admissions)}
    done = set()
    for stream, (ptk_id, error) in sorted(
        _refused(admissions).items(), key=lambda one: isinstance(one[1][1], PtkRejected)
    ):
        if isinstance(error, PtkRejected):
            step.send(stream)  # there may be room by now
        with naming(ptk_id):
            step.exchange(stream)  # else the store refuses it, and tells the stream's owner
        done.add(stream)
    step.send()
    at_once = {stream for stream, admission in admissions.items() if admission.at_once} - done
    for change, ptk in step.compared:
        if change.action != "keep" and ptk.stream not in at_once | done:
            with naming(change.ptk_id):
                _apply(service, change, repository, ptk)
    for stream in sorted(at_once):
        step.exchange(stream)
    for removal in step.removals:
        if step.specs[removal.ptk_id].stream not in at_once | done:
            with suppress(UnknownName):  # somebody else pruned it meanwhile
                service.deregister_ptk(removal.ptk_id)
    made = (replace(_accepted(change), returns=returning.get(change.ptk_id)) for change, _ in step.compared)
    return (*made, *step.removals)


class _Step:
    """The difference between a store and what a repository declares."""

    def __init__(
        self, service: StoreService, repository: Repository, *, prune: bool | Collection[str]
    ) -> None:
        self._service, self._repository, self._prune = service, repository, bool(prune)
        self._policies = {stream.name: stream.policy for stream in service.streams()}
        self.specs = {spec.ptk_id: spec for spec in service.ptks(team=repository.team)}
        self.refusals: dict[str, PtkStoreError] = {}
        """What cannot be asked of any stream."""
        self.compared = [(self._compared(ptk), ptk) for ptk in repository.ptks]
        self._undeclared = [
            one
            for one in _removals(repository, self.specs, self._policies)
            if isinstance(prune, bool) or not prune or one.ptk_id in frozenset(prune)
        ]
        self._sent: set[str | None] = set()

    @property
    def removals(self) -> Sequence[Change]:
        """What goes."""
        return self._undeclared if self._prune else ()

    @property
    def streams(self) -> Sequence[str]:
        """The streams that a plan is about, those with nothing to change among them."""
        about = [*(change for change, _ in self.compared), *self.removals]
        return sorted({change.stream for change in about} & set(self._policies) | set(self.wanted()))

    def admission(self, stream: str) -> Admission:
        """The answer of a stream to the changes on it."""
        return self._admission(stream, self._leaving(stream, self._prune))

    def advised(self, stream: str, admission: Admission) -> Mapping[str, PtkStoreError]:
        """The refusals, with the word that a PTK would find room if what is not declared went, where that is so."""
        short = {i: e for i, e in admission.refusals.items() if isinstance(e, PtkRejected)}
        leaving = self._leaving(stream, True)
        if self._prune or not short or not leaving:
            return admission.refusals
        still = self._admission(stream, leaving).refusals
        advice = f". It would fit with --prune, without {', '.join(leaving)}"
        better = {i: PtkRejected(f"{error}{advice}") for i, error in short.items() if i not in still}
        return {**admission.refusals, **better}

    def with_reports(self, change: Change, ptk: PTK) -> Change:
        """Return the change with how many reports of devices it needs, where devices train it."""
        if change.per_device is None:
            return change
        spec, policy = self._repository.spec(ptk), self._policies[ptk.stream]
        return replace(change, reports=reports_planned(self._service, spec, ptk.stream, policy))

    def send(self, stream: str | None = None) -> None:
        """Upload the team code that is declared, for a stream or for all, unless that is done."""
        for change, ptk in self.compared:
            _, bundle = self._repository.described(ptk)
            if bundle is not None and change.bundle not in self._sent and stream in (None, ptk.stream):
                self._sent.add(self._service.put_bundle(bundle, team=self._repository.team))

    def exchange(self, stream: str) -> None:
        """Change all that is to be changed on a stream, or nothing."""
        self._service.exchange_ptks(
            team=self._repository.team,
            stream=stream,
            wanted=self.wanted()[stream],
            leaving=self._leaving(stream, self._prune),
        )

    def _admission(self, stream: str, leaving: Sequence[str]) -> Admission:
        wanted, team = self.wanted().get(stream, []), self._repository.team
        try:
            return self._service.admit_ptks(team=team, stream=stream, wanted=wanted, leaving=leaving)
        except (NotAllowed, UnknownName) as error:
            return Admission({f"{team}.{one.name}": error for one in wanted})

    def wanted(self) -> dict[str, list[WantedPtk]]:
        """Return what is to be registered or changed, by stream."""
        by_stream: dict[str, list[WantedPtk]] = {}
        for change, ptk in self.compared:
            if change.action != "keep" and change.ptk_id not in self.refusals:
                spec = self._repository.spec(ptk)
                by_stream.setdefault(ptk.stream, []).append(ptk.wanted(spec))
        return by_stream

    def _leaving(self, stream: str, prune: bool) -> list[str]:
        gone = [one.ptk_id for one in self._undeclared] if prune else []
        return [ptk_id for ptk_id in gone if self.specs[ptk_id].stream == stream]

    def _compared(self, ptk: PTK) -> Change:
        from ptklib.spec import estimator_from_spec

        ptk_id = f"{self._repository.team}.{ptk.name}"
        with naming(ptk_id):
            checked_name("PTK", ptk.name)
            spec = self._repository.spec(ptk)
            try:
                declared = estimator_from_spec(spec).declared_loss()  # what registration will charge
            except PtklibError as error:
                raise InvalidRequest(str(error)) from error
        charged = Loss.of_report if is_averaged(spec) else Loss.charge
        loss, before = charged(declared.epsilon, declared.delta), self.specs.get(ptk_id)
        action, changes = "register", tuple[FieldChange, ...]()
        try:
            if before is not None:
                action = "update"
                changes = _changed_fields(before, ptk, spec, self._policies)
                action = "update" if changes else "keep"
            elif ptk.stream not in self._policies:
                raise UnknownName("stream", ptk.stream, near(ptk.stream, self._policies))
        except InvalidRequest as error:
            self.refusals[ptk_id] = error
        return Change(
            action,
            ptk_id,
            loss.epsilon,
            loss.delta,
            0.0 if before is None else before.loss.epsilon,
            assurance_of(spec).value,
            spec["params"].get("bundle"),
            stream=ptk.stream,
            changes=changes,
            per_device=per_device(spec, self._policies.get(ptk.stream)),
            verdict=verdict_asked(ptk.accept),
            warnings=device_warnings(spec) if action != "keep" else (),
        )


def _room(admission: Admission) -> RoomLeft | None:
    if (room := admission.room) is None:
        return None
    left, capacity = room.left, room.capacity
    return RoomLeft(
        left.epsilon, left.delta, capacity.epsilon, capacity.delta, room.accountant.value, room.context
    )


def _accepted(change: Change) -> Change:
    """A change that was made: had team code failed a check, the store had refused it."""
    team_code = change.action != "keep" and change.bundle is not None
    return replace(change, checks="passed") if team_code else change


def _refused(admissions: Mapping[str, Admission]) -> Mapping[str, tuple[str, PtkStoreError]]:
    """The first refusal of each stream that refuses, with the PTK that it is about."""
    return {
        stream: next(iter(admission.refusals.items()))
        for stream, admission in admissions.items()
        if admission.refusals
    }


def _changed_fields(
    before: PtkSpec, ptk: PTK, spec: Mapping[str, Any], policies: Mapping[str, Policy]
) -> tuple[FieldChange, ...]:
    """In which fields a registered PTK is not as it is declared; `InvalidRequest` where it can never be."""
    policy = policies.get(before.stream)
    if policy is None:
        raise UnknownName("stream", before.stream)
    if before.stream != ptk.stream or before.every != windows_between(policy, ptk.every):
        raise InvalidRequest(
            f"PTK {before.ptk_id} is trained on {before.stream!r} every {before.every} windows; stream and frequency "
            "are fixed, so declare a PTK of another name"
        )
    registered = {**before.config, "estimator": before.estimator}
    declared = {**settled_config(ptk.config, policy), "estimator": spec}
    for name in BESIDE:
        registered[name], declared[name] = plain(getattr(before, name)), plain(getattr(ptk, name))
    return field_changes(registered, declared)


def _apply(service: StoreService, change: Change, repository: Repository, ptk: PTK) -> None:
    said = ptk.wanted(repository.spec(ptk)).arguments
    if change.action == "register":
        service.register_ptk(team=repository.team, stream=ptk.stream, name=ptk.name, **said)
        return
    may_change = {word: value for word, value in said.items() if not PTK_ARGUMENTS[word].fixed}
    service.update_ptk(change.ptk_id, **may_change)


def _checked(
    service: StoreService,
    change: Change,
    repository: Repository,
    ptk: PTK,
    checks: FamilyChecks,
    *,
    audit: bool,
) -> Change:
    """The change with what became of its checks on synthetic rows."""
    spec, bundle = repository.described(ptk)
    if bundle is None:
        checked = checks.of(spec)
        return replace(change, checks=checked.status, reason=checked.reason)
    from ptkstore.application.ptks.team_code import findings_text

    try:
        examined: Examined = service.examine_team_code(spec, bundle, AUDIT_RUNS if audit else 0)
    except NoSandbox as error:
        return replace(change, checks="not-run", reason=str(error))
    if examined.failures:
        return replace(change, checks="failed", reason=findings_text(examined))
    return replace(change, checks="passed", reason=checks_text(examined, audit=audit))


def _held(spec: PtkSpec) -> float:
    """The loss that a registered PTK reserves of a window: of rows on devices there is nothing to reserve."""
    return 0.0 if spec.is_averaged else spec.loss.epsilon


def _removals(
    repository: Repository, specs: Mapping[str, PtkSpec], policies: Mapping[str, Policy]
) -> list[Change]:
    declared = {f"{repository.team}.{ptk.name}" for ptk in repository.ptks}
    return [
        Change(
            "deregister",
            ptk_id,
            0.0,
            0.0,
            _held(spec),
            spec.assurance.value,
            stream=spec.stream,
            per_device=per_device(spec.estimator, policies.get(spec.stream)),
            verdict=verdict_asked(spec.config.get("accept")),
        )
        for ptk_id, spec in sorted(specs.items())
        if ptk_id not in declared
    ]
