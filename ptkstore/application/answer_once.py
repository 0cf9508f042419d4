"""Answer a request that is sent twice the way it was answered first."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from ptkstore.domain.snapshots import canonical_json
from ptkstore.errors import Conflict, InvalidRequest, OutcomeUnknown, PtkStoreError, StillAtWork, Unavailable
from ptkstore.ports.catalog import Begin
from ptkstore.ports.identity import Answer
from ptkstore.ports.world import Clock

KEPT_FOR = timedelta(hours=24)
AT_WORK_FOR = timedelta(minutes=10)
_KEY_MAX = 200


def answer_once(
    team: str,
    key: str,
    asked: object,
    act: Callable[[], tuple[int, str]],
    *,
    begin: Begin,
    clock: Clock,
) -> tuple[Answer, bool]:
    """Run `act` unless this team asked the same under this key before; returns the answer and whether it is old.

    `asked` is what is asked for, as JSON. `act` returns status and content to be stored, so without secrets. Who dies
    at work leaves the key to the next one after ten minutes; what `act` does has to be repeatable by then.

    Raises
    ------
    Conflict
        Something else was asked under this key.
    StillAtWork
        The first request under this key has not ended.
    OutcomeUnknown
        `act` was done, and its answer could not be kept.
    """
    if not 1 <= len(key) <= _KEY_MAX or not (key.isascii() and key.isprintable()):
        raise InvalidRequest(f"an idempotency key has 1 to {_KEY_MAX} printable ASCII characters")
    now = clock.now()
    digest = hashlib.sha256(canonical_json(asked).encode()).hexdigest()
    mine = Answer(team, key, digest, now)
    try:
        with begin() as uow:
            known = uow.answers.claim(mine, stale_before=now - AT_WORK_FOR, expired_before=now - KEPT_FOR)
            uow.commit()
    except OutcomeUnknown as error:  # of the claim: nothing was done yet
        raise Unavailable("the idempotency key cannot be taken now") from error
    if known is not None:
        if known.asked != digest:
            raise Conflict("this idempotency key was used for another request; take a new one")
        if not known.status:
            raise StillAtWork("the first request with this idempotency key is still at work; try again later")
        return known, True
    try:
        status, content = act()
    except PtkStoreError:
        with (
            suppress(Unavailable, OutcomeUnknown),
            begin() as uow,
        ):  # what `act` says of itself is what is known
            uow.answers.drop(team, key)
            uow.commit()
        raise
    answer = replace(mine, status=status, content=content)
    try:
        with begin() as uow:
            uow.answers.keep(answer)
            uow.commit()
    except (Unavailable, OutcomeUnknown):
        raise OutcomeUnknown("it was done, but its answer is not kept: look before asking again") from None
    return answer, False
