"""Record an action in the trail: one line before it, one after."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ptkstore.domain.audit import DONE, LOCAL, STARTED, AuditEntry
from ptkstore.domain.identity import Action, Principal
from ptkstore.errors import OutcomeUnknown, PtkStoreError, Unavailable
from ptkstore.ports.catalog import Begin
from ptkstore.ports.runtime import Clock

FAILED = "failed"
# recorded for what they show; they change nothing
_READS = frozenset({Action.AUDIT_READ, Action.LEDGER_EXPORT})


@dataclass(slots=True)
class Recorded:
    """The object that the second line will name: the first may not know it yet.

    Each of `parts` has a line like it: what else may have been changed, or what the object is about.
    """

    subject: str
    parts: tuple[str, ...] = ()


@contextmanager
def recorded(
    action: Action, subject: str, request_id: str, principal: Principal | None, *, begin: Begin, clock: Clock
) -> Iterator[Recorded]:
    """Record the action that runs in this block; None is whoever works in the store's home.

    The first line is durable before the block begins: what cannot be recorded is not done. A first line without a
    second tells of an action whose end nobody knows.

    Parameters
    ----------
    subject : str
        As `subject_of` writes it.

    Raises
    ------
    OutcomeUnknown
        Something may have been changed, and the second line could not be written.
    """
    record(action, subject, request_id, principal, STARTED, begin=begin, clock=clock)
    outcome, about = FAILED, Recorded(subject)
    try:
        yield about
        outcome = DONE
    except PtkStoreError as error:
        outcome = error.code
        raise
    finally:
        try:
            may_be_done = outcome in (DONE, FAILED, OutcomeUnknown.code)
            for one in (*(about.parts if may_be_done else ()), about.subject):
                record(action, one, request_id, principal, outcome, begin=begin, clock=clock)
        except Unavailable:
            if action in _READS or outcome not in (DONE, FAILED, OutcomeUnknown.code):
                raise
            raise OutcomeUnknown(
                "it may be done, but its end is not on record: look before asking again"
            ) from None


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
    """Write one line of the trail.

    Parameters
    ----------
    outcome : str
        `started`, or how it ended.

    Raises
    ------
    Unavailable
        It is not on record, as far as anybody knows; of the action itself that says nothing.
    """
    team, token_id = (LOCAL, LOCAL) if principal is None else (principal.team, principal.token_id)
    entry = AuditEntry(clock.now(), request_id, team, token_id, action.value, subject, outcome)
    try:
        with begin() as uow:
            uow.audit.append(entry)
            uow.commit()
    except OutcomeUnknown as error:
        raise Unavailable("the action cannot be put on record now") from error
