"""Export a signed report of a stream's ledger for the privacy officer."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from ptkstore.application.ledger.odometers import device_odometer, local_odometers, odometers_on
from ptkstore.application.ledger.snapshot import assurances_on, snapshot_of
from ptkstore.application.ledger.verification import faults_of, faults_of_memory
from ptkstore.application.streams.exposure import Exposure, PrivatePlaces, exposure_of, sentences_on
from ptkstore.domain.accounting.assurances import SHARES, assured
from ptkstore.domain.accounting.local import ADVERSARIES, COUNTED, RULE, DeviceOdometer, LocalOdometer
from ptkstore.domain.accounting.local import PROOF as LOCAL_PROOF
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.accounting.sharing import sharing_json
from ptkstore.domain.ledger.block_ledgers import BlockRecord
from ptkstore.domain.ledger.journal import GENESIS, ChainLine, Entry, EntryKind
from ptkstore.domain.ledger.odometers import LineOdometer, Odometers, PartyOdometer
from ptkstore.domain.ledger.reports import device_json, local_json, loss_json, shares_json, signed, spent_json
from ptkstore.domain.ptks.ptks import PTK_FIELDS, PtkSpec
from ptkstore.domain.streams.blocks import part_name, place_of
from ptkstore.domain.streams.guarantees import (
    COMPOSITION,
    CONTEXTS,
    PROOF,
    TIGHT,
    all_lines,
    neighbours,
    protections,
)
from ptkstore.domain.streams.policies import POLICY_FIELDS, Policy, PrivacyUnit
from ptkstore.domain.streams.windows import Window, index_of, n_spent_on
from ptkstore.domain.versions.provenance import LOCAL
from ptkstore.errors import InvalidRequest
from ptkstore.ports.catalog import Read
from ptkstore.ports.keys import JournalView, Signer
from ptkstore.ports.runtime import Clock


@dataclass(frozen=True, slots=True)
class Export:
    """A signed report, byte for byte, and what is wrong with the journal it was made from; nothing if all is well."""

    content: bytes
    faults: tuple[str, ...]


def export_ledger(
    stream: str,
    since: datetime | None = None,
    until: datetime | None = None,
    *,
    begin: Read,
    clock: Clock,
    signer: Signer,
    journal: JournalView,
    private: PrivatePlaces,
) -> Export:
    """Report losses, guarantee, blocks, PTKs and teams of the windows that meet [`since`, `until`).

    The journal is recomputed first and its result is part of the report. One that does not add up is reported without
    figures: there is nothing that they could be read off.

    Raises
    ------
    InvalidRequest
        The period is empty, or one is given for a stream whose blocks are shards of users: those live as long as the
        stream, and so does their loss.
    """
    with begin() as uow:
        snapshot = snapshot_of(stream, uow)
        windows = uow.windows.of(stream)
        specs = uow.ptks.find(stream=stream)
        in_row = uow.streams.policy_in_row(stream)
        assurances = assurances_on(snapshot, uow)
    exposure = exposure_of(stream, begin=begin, clock=clock, private=private)
    policy = snapshot.stream.policy
    first, end = _span(policy, since, until)
    chosen = tuple(w for w in windows if first <= w.id.index and (end is None or w.id.index < end))
    n_windows = n_spent_on(chosen, snapshot.progress.retired_before, first, end)
    blocks = _blocks_in(policy, snapshot.blocks, chosen)
    faults = faults_of(snapshot.blocks, snapshot.lines, in_row)
    faults += faults_of_memory(stream, private.keys, journal)
    figures: Mapping[str, Any] = {}
    if not faults:
        odometers = odometers_on(snapshot, blocks, assurances)
        in_doubt = snapshot.progress.retired_before > first
        lost = all_lines(policy) if in_doubt else odometers.stream.guarantee
        figures = _figures(policy, odometers, specs, lost, n_windows)
    if policy.on_devices:
        local = _local(policy, device_odometer(snapshot), local_odometers(specs, snapshot), len(chosen))
        figures = {**figures, "local": local}
    report = {
        "stream": {"name": snapshot.stream.name, "team": snapshot.stream.team},
        "made_at": clock.now().isoformat(),
        "ledger_id": journal.ledger_id,
        "period": _period(since, until, chosen),
        "policy": _policy(policy),
        "guarantee": _guarantee(policy, n_windows),
        "journal": _journal(snapshot.lines),
        "verification": {"adds_up": not faults, "faults": list(faults)},
        "exposure": _exposure(exposure),
        "windows_in_doubt_below": snapshot.progress.retired_before,
        "losses": _losses(snapshot.entries, blocks),
        **figures,
    }
    return Export(signed(report, signer.public_key(), signer.sign), faults)


def _span(policy: Policy, since: datetime | None, until: datetime | None) -> tuple[int, int | None]:
    """The first window of the period, and the first after it; None where it has no end."""
    if since is None and until is None:
        return 0, None
    if policy.privacy_unit is PrivacyUnit.USER:
        raise InvalidRequest(
            "the blocks of the privacy unit 'user' live as long as the stream: give no period"
        )
    if since is not None and until is not None and until <= since:
        raise InvalidRequest("the period must end after it starts")
    first = index_of(policy, since) if since is not None else 0
    return first, index_of(policy, until - timedelta(microseconds=1)) + 1 if until is not None else None


def _blocks_in(
    policy: Policy, blocks: Sequence[BlockRecord], windows: Sequence[Window]
) -> tuple[BlockRecord, ...]:
    if policy.privacy_unit is PrivacyUnit.USER:
        return tuple(blocks)
    indices = {window.id.index for window in windows}
    return tuple(block for block in blocks if place_of(block.number, policy).window in indices)


def _period(since: datetime | None, until: datetime | None, windows: Sequence[Window]) -> dict[str, Any]:
    return {
        "from": None if since is None else since.astimezone(UTC).isoformat(),
        "to": None if until is None else until.astimezone(UTC).isoformat(),
        "windows": [
            {
                "window": window.id.index,
                "start": window.start.isoformat(),
                "end": window.end.isoformat(),
                "state": window.state.value,
            }
            for window in windows
        ],
    }


def _policy(policy: Policy) -> dict[str, Any]:
    return {
        **{one.reported: one.to_report(getattr(policy, one.name)) for one in POLICY_FIELDS if one.reported},
        "capacity": loss_json(policy.capacity),
        "attribute": policy.attribute,
        "attribute_values": [str(value) for value in policy.attribute_values],
        "sharing": sharing_json(policy.sharing),
        "retire_below": loss_json(policy.retire_below),
    }


def _local(
    policy: Policy, device: DeviceOdometer, odometers: Sequence[LocalOdometer], windows: int
) -> dict[str, Any]:
    """The losses of devices, of a stream whose rows stay there. No block is charged, and they add up with none."""
    return {
        "neighbours": neighbours(policy),
        "holds": ADVERSARIES,
        "composition": RULE,
        "counted": COUNTED,
        "proof": LOCAL_PROOF,
        **device_json(device),
        "promised": _protections(policy, device.limit, windows),
        "ptks": [local_json(one) for one in odometers],
    }


def _guarantee(policy: Policy, windows: int) -> dict[str, Any]:
    if policy.on_devices:
        return {"model": LOCAL, "neighbours": neighbours(policy), "composition": RULE, "proof": LOCAL_PROOF}
    lines = policy.lines
    return {
        "neighbours": neighbours(policy),
        "per_block": loss_json(policy.capacity),
        "lines": {line: loss_json(capacity) for line, capacity in lines.items()},
        "all_lines_together": loss_json(all_lines(policy)),
        "contexts": _contexts(policy),
        "no_collusion": policy.sharing.no_collusion,
        "composition": COMPOSITION[policy.accountant],
        "proof": PROOF,
        "coordinates": list(policy.accountant.coordinates),
        "promised": _protections(policy, policy.capacity, windows),
        "tight": TIGHT,
        "shares": SHARES,
    }


def _exposure(exposure: Exposure) -> dict[str, Any]:
    """The rows, files and keys of the whole stream that are kept when the report is made."""
    verdict, *sentences = sentences_on(exposure)
    return {
        "closing": exposure.closing.value,
        "holds": exposure.holds,
        "verdict": verdict,
        "means": sentences,
        "rows_since": exposure.since.isoformat(),
        "retention_allows_since": exposure.allowed_since.isoformat(),
        "event_time_reached": exposure.reached.isoformat(),
        "open_since": exposure.open_since.isoformat(),
        "windows": [
            {
                "window": kept.window.id.index,
                "start": kept.window.start.isoformat(),
                "state": kept.window.state.value,
                "rows_until": kept.until.isoformat(),
            }
            for kept in exposure.kept
        ],
        "overdue_windows": list(exposure.overdue),
        "remains_of_expired_windows": list(exposure.remains),
        "past_by_clock": list(exposure.past_by_clock),
    }


def _contexts(policy: Policy) -> dict[str, Any] | None:
    """The justification of the policy's contexts; None for a stream without any."""
    if not policy.sharing.contexts:
        return None
    return {
        "names": [name for name, _ in policy.sharing.contexts],
        "no_collusion": policy.sharing.no_collusion,
        "assumes": CONTEXTS,
        "summed_capacity": loss_json(all_lines(policy)),
    }


def _protections(policy: Policy, loss: Loss, windows: int) -> list[dict[str, Any]]:
    return [
        {"who": one.who, **loss_json(one.loss), "rule": one.rule}
        for one in protections(policy, loss, windows)
    ]


def _journal(lines: Sequence[ChainLine]) -> dict[str, Any]:
    ends = [{"sequence": entry.sequence, "digest": entry.digest} for entry in (*lines[:1], *lines[-1:])]
    return {
        "entries": len(lines),
        "before_first": GENESIS,
        "first": ends[0] if ends else None,
        "last": ends[-1] if ends else None,
    }


def _losses(entries: Sequence[Entry], blocks: Sequence[BlockRecord]) -> list[dict[str, Any]]:
    """The spends on any of the blocks."""
    numbers = [block.number for block in blocks]
    return [
        _loss_of(entry)
        for entry in entries
        if entry.kind is EntryKind.SPEND
        and any(bisect_left(numbers, one.lo) < bisect_left(numbers, one.hi) for one in entry.blocks.ranges)
    ]


def _loss_of(entry: Entry) -> dict[str, Any]:
    first, *further = ({"from": one.lo, "below": one.hi} for one in entry.blocks.ranges)
    return {
        "sequence": entry.sequence,
        "key": entry.key,
        "ptk": entry.ptk_id,
        "line": entry.request.line,
        "blocks": first,
        **({"further_blocks": further} if further else {}),
        **loss_json(entry.loss),
        "charge": {
            "nano": list(entry.charge.amounts),
            "delta": loss_json(Loss(0, entry.charge.delta_atto))["delta"],
        },
        "event": entry.event_text,
    }


def _figures(
    policy: Policy, odometers: Odometers, specs: Sequence[PtkSpec], lost: Loss, windows: int
) -> Mapping[str, Any]:
    """Write the odometers; `lost` is the most of any block, also of windows that a restored catalog has forgotten."""
    spec_of = {spec.ptk_id: spec for spec in specs}
    if policy.on_devices:
        return {
            "blocks": [],
            "registered": [{"ptk": ptk_id, **_ptk(spec)} for ptk_id, spec in spec_of.items()],
        }
    return {
        "spent": {
            "stream": spent_json(odometers.stream),
            "lines": {line: spent_json(spent) for line, spent in odometers.lines.items()},
            "means": _protections(policy, lost, windows),
        },
        "blocks": [_block(row, policy) for row in odometers.blocks],
        "assured": odometers.assured.document(),
        "ptks": [{**_ptk(spec_of.get(one.name)), **_party("ptk", one)} for one in odometers.ptks],
        "registered": [{"ptk": ptk_id, **_ptk(spec)} for ptk_id, spec in spec_of.items()],
        "teams": [_party("team", one) for one in odometers.teams],
    }


def _block(row: LineOdometer, policy: Policy) -> dict[str, Any]:
    place = place_of(row.number, policy)
    return {
        "block": row.number,
        "window": place.window,
        "part": part_name(place.part),
        "attribute_value": str(policy.attribute_values[place.group]) if policy.attribute_values else None,
        "shard": place.shard if place.window is None else None,
        "line": row.line,
        "state": row.state.value,
        "in_doubt": row.in_doubt,
        "capacity": loss_json(row.capacity),
        "reserved": loss_json(row.reserved),
        "spent": spent_json(row.spent),
        **shares_json(row.shares),
    }


def _party(kind: str, party: PartyOdometer) -> dict[str, Any]:
    return {
        kind: party.name,
        "reserved": loss_json(party.reserved),
        "spent": spent_json(party.spent),
        **party.assured.document(),
    }


def _ptk(spec: PtkSpec | None) -> dict[str, Any]:
    if spec is None:
        return {"assurance": None, "asserted_by": None, "family": None}
    said = {one.reported: one.to_report(getattr(spec, one.name)) for one in PTK_FIELDS if one.reported}
    return {**assured(spec.assurance, spec.ptk_id).document(), "family": spec.family, **said}
