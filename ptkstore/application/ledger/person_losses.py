"""Add up what one person loses to several streams."""

from __future__ import annotations

from collections.abc import Sequence

from ptkstore.application.ledger.budgets import assurance_on
from ptkstore.application.ledger.odometers import read_odometers
from ptkstore.application.ledger.verification import verify_ledger
from ptkstore.domain.streams.persons import PersonLoss, StreamLoss, loss_to, why_no_person
from ptkstore.errors import InvalidRequest, Refused
from ptkstore.ports.catalog import Read
from ptkstore.ports.keys import JournalView, KeyStore

MOST_STREAMS = 100


def read_person_loss(
    streams: Sequence[str], *, begin: Read, keys: KeyStore, journal: JournalView
) -> PersonLoss:
    """Return the most that one person who is in all of `streams` has lost and can lose to them together.

    `begin` starts a transaction that reads one moment. The journals are recomputed first.

    Raises
    ------
    InvalidRequest
        No stream is named, or one twice, or more than `MOST_STREAMS`. Or no figure of one is a bound for a person: its
        privacy unit is the record, or its rows stay on devices.
    Refused
        The journal of one is wrong, so nothing can be read off it.
    """
    if not 1 <= len(streams) <= MOST_STREAMS or len({*streams}) < len(streams):
        raise InvalidRequest(f"name from 1 to {MOST_STREAMS} streams, each once")
    with begin() as uow:
        policies = {name: uow.streams.get(name).policy for name in streams}
    refused = [f"{name}: {why}" for name, one in policies.items() if (why := why_no_person(one))]
    if refused:
        raise InvalidRequest(f"no sum is a bound for one person. {'. '.join(refused)}")
    for name in streams:
        if verify_ledger(name, begin=begin, keys=keys, journal=journal).faults:
            raise Refused(
                f"the journal of {name} is wrong, so no loss is read off it; see: ptk ledger verify {name}"
            )
    return PersonLoss(tuple(_loss_to(name, begin) for name in streams))


def _loss_to(stream: str, begin: Read) -> StreamLoss:
    spent = read_odometers(stream, begin=begin).stream.guarantee
    with begin() as uow:  # later than the losses, so that no window of theirs is missing
        policy, windows = uow.streams.get(stream).policy, len(uow.windows.of(stream))
    _, asserted = assurance_on(stream, begin=begin)
    return loss_to(stream, policy, spent, windows, asserted)
