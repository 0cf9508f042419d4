"""What a team's repository would change in a store, and the changes made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ptkstore.domain.losses import Loss
from ptkstore.domain.ptks import settled_config, windows_between
from ptkstore.errors import InvalidRequest
from ptkstore.sdk.declarations import PTK, Repository, estimator_spec

if TYPE_CHECKING:
    from ptkstore.wiring import Service


@dataclass(frozen=True)
class Change:
    """What `plan` would do to one PTK: `register`, `update` or `keep`."""

    action: str
    ptk_id: str
    epsilon: float
    delta: float


def planned(service: Service, repository: Repository) -> tuple[Change, ...]:
    """What `applied` would do, and what each PTK would cost per window."""
    return tuple(_change(service, repository.team, ptk) for ptk in repository.ptks)


def applied(service: Service, repository: Repository) -> tuple[Change, ...]:
    """Register or update what a team's repository declares; repeatable."""
    changes = planned(service, repository)
    for change, ptk in zip(changes, repository.ptks, strict=True):
        spec = estimator_spec(ptk.estimator)
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
        elif change.action == "update":
            service.update_ptk(
                change.ptk_id,
                estimator=spec,
                target=ptk.target,
                config=ptk.config,
                description=ptk.description,
            )
    return changes


def _change(service: Service, team: str, ptk: PTK) -> Change:
    ptk_id = f"{team}.{ptk.name}"
    spec = estimator_spec(ptk.estimator)
    known = {p.ptk_id: p for p in service.ptks(team=team)}.get(ptk_id)
    if known is None:
        action = "register"
    elif (known.stream, known.every) != (ptk.stream, _every(service, ptk)):
        raise InvalidRequest(
            f"PTK {ptk_id} is trained on {known.stream!r} every {known.every} windows; stream and frequency "
            "are fixed, so declare a PTK of another name"
        )
    else:
        mine = (known.estimator, known.target, known.description, dict(known.config))
        same = mine == (spec, ptk.target, ptk.description, _settled(service, ptk))
        action = "keep" if same else "update"
    try:
        declared = ptk.estimator.declared_loss()  # what registration will charge
    except ValueError as error:
        raise InvalidRequest(f"PTK {ptk_id}: {error}") from error
    loss = Loss.charge(declared.epsilon, declared.delta)
    return Change(action, ptk_id, loss.epsilon, loss.delta)


def _settled(service: Service, ptk: PTK) -> dict[str, Any]:
    return settled_config(ptk.config, {s.name: s.policy for s in service.streams()}[ptk.stream])


def _every(service: Service, ptk: PTK) -> int | None:
    """How many windows lie between two trainings; None on a stream that does not exist."""
    policies = {stream.name: stream.policy for stream in service.streams()}
    return windows_between(policies[ptk.stream], ptk.every) if ptk.stream in policies else None
