"""Train a PTK again that was given up because no state of it was accepted in time."""

from __future__ import annotations

from ptkstore.application.ptks.earlier_looks import check_confidence_is_left
from ptkstore.application.ptks.registration import wait_anew
from ptkstore.domain.ptks.accept_deadlines import GivenUp
from ptkstore.errors import Conflict
from ptkstore.ports.catalog import Begin
from ptkstore.ports.runtime import Clock


def resume_ptk(ptk_id: str, *, begin: Begin, clock: Clock) -> int:
    """Have a PTK wait anew; return the first window that counts for its timeout.

    It kept its room in the policy, so nothing else is asked. Looks are counted on. Repeating it changes nothing.

    Raises
    ------
    UnknownName
        No such PTK.
    Conflict
        It does not wait for accepted versions, or no model of its class meets its target: that needs a new definition.
    InvalidRequest
        Its looks leave nothing of the confidence that it asks for.
    """
    with begin() as uow:
        stream = uow.ptks.get(ptk_id).stream
    with begin() as uow:
        owner = uow.streams.lock(stream)
        spec = uow.ptks.lock(ptk_id) or uow.ptks.get(ptk_id)
        if spec.waiting is None:
            raise Conflict(f"PTK {ptk_id} does not wait for an accepted version")
        if spec.waiting.given_up is GivenUp.REJECT:
            raise Conflict(
                f"PTK {ptk_id} was rejected: no model of its class meets its target; change its target or estimator"
            )
        if spec.waiting.given_up is None:
            return spec.waiting.since
        check_confidence_is_left(uow, spec)
        wait_anew(uow, spec, owner, clock)
        spec = uow.ptks.get(ptk_id)
        uow.commit()
    assert spec.waiting is not None
    return spec.waiting.since
