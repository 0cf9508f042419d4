"""What a team's repository would change in a store, and the changes made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ptklib.exceptions import PtklibError
from ptkstore.domain.bundles import assurance_of
from ptkstore.domain.losses import Loss
from ptkstore.domain.ptks import PtkSpec, settled_config, windows_between
from ptkstore.errors import InvalidRequest, NoSandbox
from ptkstore.sdk.declarations import PTK, Repository

if TYPE_CHECKING:
    from ptkstore.ports.team_code import Examined
    from ptkstore.wiring import Service


@dataclass(frozen=True)
class Change:
    """What `plan` would do to one PTK: `register`, `update`, `keep` or `deregister`.

    `epsilon` and `delta` are what it reserves of each window from then on, `epsilon_before` what it reserves now.
    `checks` says how own code did on synthetic rows: `passed`, `failed` or `not-run`; None where there is nothing to
    check. `reason` tells why.
    """

    action: str
    ptk_id: str
    epsilon: float
    delta: float
    epsilon_before: float = 0.0
    assurance: str = "library"
    bundle: str | None = None
    checks: str | None = None
    reason: str = ""

    @property
    def acceptable(self) -> bool:
        """Whether `apply` need not refuse it for its own code."""
        return self.checks != "failed"


def planned(
    service: Service, repository: Repository, *, prune: bool = False, audit: bool = True
) -> tuple[Change, ...]:
    """What `applied` would do, and what each PTK would reserve per window.

    Own code that is new or changed is checked and audited on synthetic rows, in this machine's sandbox; `audit` False
    leaves the audit out. With `prune`, the team's PTKs that the repository does not declare are named as well.
    """
    known = {spec.ptk_id: spec for spec in service.ptks(team=repository.team)}
    changes = [_change(service, repository, ptk, known) for ptk in repository.ptks]
    changes = [
        _checked(service, change, repository, ptk, audit=audit)
        for change, ptk in zip(changes, repository.ptks, strict=True)
    ]
    return (*changes, *(_removals(repository, known) if prune else ()))


def applied(service: Service, repository: Repository, *, prune: bool = False) -> tuple[Change, ...]:
    """Make the store's PTKs of a team what its repository declares; repeatable.

    Own code travels along, also where nothing changes, so that the store has it; what is new the store checks before
    it registers anything of it. What is to be pruned goes first, so that its budget is there for what comes.

    Raises
    ------
    PtkRejected
        There is no room for a PTK, or its code failed a check. Those declared before it stay applied.
    """
    known = {spec.ptk_id: spec for spec in service.ptks(team=repository.team)}
    changes = [_change(service, repository, ptk, known) for ptk in repository.ptks]
    removals = _removals(repository, known) if prune else []
    for removal in removals:
        service.deregister_ptk(removal.ptk_id)
    sent: set[str] = set()
    for index, (change, ptk) in enumerate(zip(changes, repository.ptks, strict=True)):
        spec, bundle = repository.described(ptk)
        if bundle is not None and change.bundle not in sent:
            sent.add(service.put_bundle(bundle, team=repository.team))
        if change.action != "keep":
            _apply(service, change, repository, ptk, spec)
            if change.bundle is not None:
                changes[index] = replace(change, checks="passed")  # or the store had refused it
    return (*changes, *removals)


def _apply(
    service: Service, change: Change, repository: Repository, ptk: PTK, spec: Mapping[str, Any]
) -> None:
    if change.action == "register":
        service.register_ptk(
            team=repository.team,
            name=ptk.name,
            stream=ptk.stream,
            estimator=spec,
            target=ptk.target,
            train_frequency=ptk.every,
            config=ptk.config,
            description=ptk.description,
        )
        return
    service.update_ptk(
        change.ptk_id, estimator=spec, target=ptk.target, config=ptk.config, description=ptk.description
    )


def _change(service: Service, repository: Repository, ptk: PTK, known: Mapping[str, PtkSpec]) -> Change:
    from ptklib.spec import estimator_from_spec

    ptk_id = f"{repository.team}.{ptk.name}"
    spec = repository.spec(ptk)
    before = known.get(ptk_id)
    if before is None:
        action = "register"
    elif (before.stream, before.every) != (ptk.stream, _every(service, ptk)):
        raise InvalidRequest(
            f"PTK {ptk_id} is trained on {before.stream!r} every {before.every} windows; stream and frequency "
            "are fixed, so declare a PTK of another name"
        )
    else:
        mine = (before.estimator, before.target, before.description, dict(before.config))
        same = mine == (spec, ptk.target, ptk.description, _settled(service, ptk))
        action = "keep" if same else "update"
    try:
        declared = estimator_from_spec(spec).declared_loss()  # what registration will charge
    except PtklibError as error:
        raise InvalidRequest(f"PTK {ptk_id}: {error}") from error
    loss = Loss.charge(declared.epsilon, declared.delta)
    return Change(
        action,
        ptk_id,
        loss.epsilon,
        loss.delta,
        0.0 if before is None else before.loss.epsilon,
        assurance_of(spec).value,
        spec["params"].get("bundle"),
    )


def _checked(service: Service, change: Change, repository: Repository, ptk: PTK, *, audit: bool) -> Change:
    """The change with what became of own code's checks, if it has any that is not registered as it is."""
    spec, bundle = repository.described(ptk)
    if bundle is None or change.action == "keep":
        return change
    from ptkstore.application.team_code import AUDIT_RUNS, told

    try:
        examined: Examined = service.examine_team_code(spec, bundle, AUDIT_RUNS if audit else 0)
    except NoSandbox as error:
        return replace(change, checks="not-run", reason=str(error))
    if examined.failures:
        return replace(change, checks="failed", reason=told(examined))
    return replace(change, checks="passed", reason="" if audit else "without the audit")


def _removals(repository: Repository, known: Mapping[str, PtkSpec]) -> list[Change]:
    declared = {f"{repository.team}.{ptk.name}" for ptk in repository.ptks}
    return [
        Change("deregister", ptk_id, 0.0, 0.0, spec.loss.epsilon, spec.assurance.value)
        for ptk_id, spec in sorted(known.items())
        if ptk_id not in declared
    ]


def _settled(service: Service, ptk: PTK) -> dict[str, Any]:
    return settled_config(ptk.config, {s.name: s.policy for s in service.streams()}[ptk.stream])


def _every(service: Service, ptk: PTK) -> int | None:
    """How many windows lie between two trainings; None on a stream that does not exist."""
    policies = {stream.name: stream.policy for stream in service.streams()}
    return windows_between(policies[ptk.stream], ptk.every) if ptk.stream in policies else None
