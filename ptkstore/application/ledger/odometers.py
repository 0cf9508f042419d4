"""Read the odometers of a stream: what has been lost, and by whom."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ptklib.accounting import pld_epsilon
from ptklib.events import EpsilonDelta, Event
from ptklib.exceptions import PtklibError
from ptklib.privacy import PrivacyLoss
from ptkstore.application.ledger.snapshot import LedgerSnapshot, assurances_on, snapshot_of
from ptkstore.domain.accounting.assurances import Assured
from ptkstore.domain.accounting.local import DeviceOdometer, LocalOdometer
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.ledger.block_ledgers import BlockRecord
from ptkstore.domain.ledger.odometers import Odometers, Releases, most_lost, odometers_of, shares_of
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.streams.blocks import blocks_below
from ptkstore.ports.catalog import Read


def read_odometers(stream: str, *, begin: Read) -> Odometers:
    """Return all odometers of a stream, over all of its blocks."""
    with begin() as uow:
        snapshot = snapshot_of(stream, uow)
        assured = assurances_on(snapshot, uow)
        on_devices = snapshot.stream.policy.on_devices
        specs = uow.ptks.find(stream=stream) if on_devices else ()
    odometers = odometers_on(snapshot, snapshot.blocks, assured)
    if not on_devices:
        return odometers
    return replace(odometers, local=local_odometers(specs, snapshot), device=device_odometer(snapshot))


def device_odometer(snapshot: LedgerSnapshot) -> DeviceOdometer:
    """Return what a device loses to a stream whose rows stay there."""
    policy = snapshot.stream.policy
    in_window, in_all = policy.reports_per_window or 0, policy.reports_in_all or 0
    return DeviceOdometer(policy.report_limit, in_window, in_all, _begun(snapshot))


def local_odometers(specs: Iterable[PtkSpec], snapshot: LedgerSnapshot) -> tuple[LocalOdometer, ...]:
    """Return what devices lose to each of these PTKs, of a stream whose rows stay there."""
    from ptkstore.application.ledger.local_losses import local_loss_of  # not for streams with rows

    policy, begun = snapshot.stream.policy, _begun(snapshot)
    return tuple(LocalOdometer(spec.ptk_id, local_loss_of(spec.estimator, policy), begun) for spec in specs)


def _begun(snapshot: LedgerSnapshot) -> int:
    """The windows for which devices may have sent by now."""
    return snapshot.progress.closed_before + 1


def odometers_on(
    snapshot: LedgerSnapshot, blocks: Sequence[BlockRecord], assured: Mapping[str, Assured]
) -> Odometers:
    """Return the odometers of some of the blocks, with the assurance of each PTK."""
    entries = snapshot.entries
    odometers = odometers_of(blocks, entries, tight_epsilon, _in_doubt(snapshot))
    return odometers.with_assurance(assured, shares_of(blocks, entries, assured))


def most_lost_on(snapshot: LedgerSnapshot) -> Loss:
    """Return the most that any block of a stream has lost, all lines together, without the other figures."""
    return most_lost(snapshot.blocks, snapshot.entries, _in_doubt(snapshot))


def _in_doubt(snapshot: LedgerSnapshot) -> Callable[[int], bool]:
    doubt = blocks_below(snapshot.progress.retired_before, snapshot.stream.policy)
    return lambda number: doubt is not None and doubt.lo <= number < doubt.hi


def tight_epsilon(releases: Releases, delta: float) -> float:
    """Return the figure of privacy loss distributions for a list of releases (for reports alone, differences.md F1)."""
    losses = [
        PrivacyLoss(loss.epsilon, loss.delta, _event_in(event, loss))
        for (event, loss), count in releases.items()
        for _ in range(count)
    ]
    return pld_epsilon(losses, delta)


def _event_in(text: str, loss: Loss) -> Event:
    """The event of a release; one that this version cannot read counts as any mechanism of that loss."""
    try:
        return Event.of(json.loads(text))
    except PtklibError:
        return EpsilonDelta(epsilon=loss.epsilon, delta=loss.delta)
