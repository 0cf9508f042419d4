"""Leave a trace of an action: one line before it, one after."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ptkstore.domain.audit import DONE, LOCAL, STARTED, AuditEntry
from ptkstore.domain.identity import Action, Principal
from ptkstore.errors import PtkStoreError
from ptkstore.ports.catalog import Begin
from ptkstore.ports.world import Clock

FAILED = "failed"


@dataclass(slots=True)
class Trace:
    """What the second line will say the action was about: the first may not know it yet."""

    subject: str


@contextmanager
def recorded(
    action: Action, subject: str, request_id: str, principal: Principal | None, *, begin: Begin, clock: Clock
) -> Iterator[Trace]:
    """Record the action that runs in this block; None is whoever works in the store's home.

    The first line is durable before the block begins: what cannot be recorded is not done. A first line without a
    second tells of an action whose end nobody knows.
    """
    record(action, subject, request_id, principal, STARTED, begin=begin, clock=clock)
    outcome, trace = FAILED, Trace(subject)
    try:
        yield trace
        outcome = DONE
    except PtkStoreError as error:
        outcome = error.code
        raise
    finally:
        record(action, trace.subject, request_id, principal, outcome, begin=begin, clock=clock)


def record(
    action: Action,
    subject: str,
    request_id: str,
    principal: Principal | None,
    outcome: str,
    *,
    begin: Begin,
    clock: Clock,
) -> None:
    """Write one line of the trail."""
    team, token_id = (LOCAL, LOCAL) if principal is None else (principal.team, principal.token_id)
    with begin() as uow:
        uow.audit.append(AuditEntry(clock.now(), request_id, team, token_id, action.value, subject, outcome))
        uow.commit()
