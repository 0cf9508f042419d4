"""Add up what one person loses to several streams."""

from __future__ import annotations

from collections.abc import Sequence

from ptkstore.application.ledger.odometers import most_lost_on
from ptkstore.application.ledger.snapshot import assurances_on, snapshot_of
from ptkstore.application.ledger.verification import faults_of, faults_of_memory
from ptkstore.domain.streams.guarantees import all_lines
from ptkstore.domain.streams.persons import PersonLoss, StreamLoss, loss_to, why_no_person
from ptkstore.domain.streams.windows import n_spent_on
from ptkstore.errors import InvalidRequest, Refused
from ptkstore.ports.catalog import Read
from ptkstore.ports.keys import JournalView, KeyStore

MOST_STREAMS = 20


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
    return PersonLoss(tuple(_loss_to(name, begin, keys, journal) for name in streams))


def _loss_to(stream: str, begin: Read, keys: KeyStore, journal: JournalView) -> StreamLoss:
    with begin() as uow:
        snapshot = snapshot_of(stream, uow)
        policy_in_row = uow.streams.policy_in_row(stream)
        assurances = assurances_on(snapshot, uow)
        windows = uow.windows.of(stream)
    if faults_of(snapshot.blocks, snapshot.lines, policy_in_row) or faults_of_memory(stream, keys, journal):
        raise Refused(
            f"the journal of {stream} is wrong, so no loss is read off it; see: ptk ledger verify {stream}"
        )
    policy, progress = snapshot.stream.policy, snapshot.progress
    # a catalog that was restored has forgotten what was spent, on windows that it may not know
    spent = all_lines(policy) if progress.retired_before else most_lost_on(snapshot)
    n_windows = n_spent_on(windows, progress.retired_before)
    asserted = tuple(sorted(ptk_id for ptk_id, one in assurances.items() if not one.proven))
    return loss_to(stream, policy, spent, n_windows, asserted)
