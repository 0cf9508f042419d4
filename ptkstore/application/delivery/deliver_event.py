"""Tell subscribers of their next versions, one attempt at a time."""

from __future__ import annotations

from ptkstore.application.delivery.deliveries import outgoing, settle, write
from ptkstore.domain.jobs import Job
from ptkstore.ports.catalog import Begin
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.messages import EventStreams, ManifestAddresses, Message, Messenger, Tried
from ptkstore.ports.runtime import Clock, Steps


def deliver_event(
    job: Job,
    *,
    begin: Begin,
    clock: Clock,
    keys: KeyStore,
    manifests: ManifestAddresses,
    messenger: Messenger,
    streams: EventStreams,
    steps: Steps,
) -> None:
    """Make one attempt; the cursor moves only once the endpoint took the message, so order and at-least-once hold.

    After the last attempt the version becomes a dead letter, its owner gets a notice, and later ones pass. While the
    subscriber's team has no role that may subscribe, versions become dead letters at once, and nothing is sent. An
    endpoint that is gone, or has failed for too long, is disabled: its versions wait until it is enabled again.
    """
    with begin() as uow:
        planned = outgoing([job], uow, manifests)
    for one in planned:
        tried: Tried
        if one.outcome is not None:
            tried = one.outcome
        elif isinstance(written := write(one, keys, streams, clock), Message):
            tried = messenger.send(written)
            steps.reached("sent", job.id)
        else:
            tried = written
        settle([(one, tried)], begin=begin, clock=clock)
        steps.reached("notified", job.id)
