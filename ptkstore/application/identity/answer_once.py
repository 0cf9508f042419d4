"""Answer a request that is sent twice the way it was answered first."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from ptklib.canonical_json import json_digest
from ptkstore.errors import Conflict, InvalidRequest, OutcomeUnknown, PtkStoreError, StillAtWork, Unavailable
from ptkstore.ports.catalog import Begin
from ptkstore.ports.identity import AT_WORK, LOST, Answer
from ptkstore.ports.runtime import Clock

KEPT_FOR = timedelta(hours=24)
AT_WORK_FOR = timedelta(minutes=10)
_KEY_MAX = 200


def answer_once(
    team: str,
    key: str,
    requested: object,
    act: Callable[[], tuple[int, str]],
    *,
    repeatable: bool = True,
    begin: Begin,
    clock: Clock,
) -> tuple[Answer, bool]:
    """Run `act` unless this team asked the same under this key before; returns the answer and whether it is old.

    If `act` ends without an answer, its request may be sent again under this key: at once if it failed, ten minutes
    later if its process died. A request that is not `repeatable`, because it makes something new each time, never runs
    again if it may have been done. The key then answers `OutcomeUnknown` as long as it is kept.

    Parameters
    ----------
    requested : object
        The request as JSON.
    act : callable
        Returns status and content to be stored, so without secrets.

    Raises
    ------
    Conflict
        Something else was asked under this key.
    StillAtWork
        The first request under this key has not ended.
    OutcomeUnknown
        `act` was done, or may have been, and its answer could not be kept.
    """
    if not 1 <= len(key) <= _KEY_MAX or not (key.isascii() and key.isprintable()):
        raise InvalidRequest(f"an idempotency key has 1 to {_KEY_MAX} printable ASCII characters")
    now = clock.now()
    digest = json_digest(requested)
    mine = Answer(team, key, digest, now)
    expired, stale = now - KEPT_FOR, now - AT_WORK_FOR
    try:
        with begin() as uow:
            stored = uow.answers.claim(
                mine, stale_before=stale if repeatable else expired, expired_before=expired
            )
            uow.commit()
    except OutcomeUnknown as error:  # of the claim: nothing was done yet
        raise Unavailable("the idempotency key cannot be taken now") from error
    if stored is not None:
        if stored.asked != digest:
            raise Conflict("this idempotency key was used for another request; take a new one")
        if stored.status == LOST or (stored.status == AT_WORK and stored.at < stale):
            raise _lost()
        if stored.status == AT_WORK:
            raise StillAtWork("the first request with this idempotency key is still at work; try again later")
        return stored, True
    try:
        status, content = act()
    except PtkStoreError as error:
        with suppress(Unavailable, OutcomeUnknown):  # what `act` says of itself is what is known
            _end(mine, keep=isinstance(error, OutcomeUnknown) and not repeatable, begin=begin)
        raise
    answer = replace(mine, status=status, content=content)
    try:
        _end(answer, keep=True, begin=begin)
    except (Unavailable, OutcomeUnknown):
        raise _lost() from None
    return answer, False


def _end(answer: Answer, *, keep: bool, begin: Begin) -> None:
    with begin() as uow:
        if keep:
            uow.answers.keep(answer if answer.status else replace(answer, status=LOST))
        else:
            uow.answers.drop(answer.team, answer.key)
        uow.commit()


def _lost() -> OutcomeUnknown:
    return OutcomeUnknown("it may be done, but its answer is not kept: look before asking again")
