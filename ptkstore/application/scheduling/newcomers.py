"""The room check of `adaptive`: a newcomer is refused only if no number of kept windows could serve it."""

from __future__ import annotations

from datetime import UTC, datetime

from ptkstore.application.planning.window_plans import partition_rows
from ptkstore.application.scheduling.waiting_ptks import as_waiting, charges_of, line_of
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.scheduling.allowances import coordinate_of, room_in_block
from ptkstore.domain.scheduling.room_check import why_never
from ptkstore.domain.streams.streams import Policy

_ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def why_it_never_fits(spec: PtkSpec, policy: Policy) -> str | None:
    """Say why a PTK could wait on an adaptive stream forever, even alone; None if enough windows would serve it."""
    if "pinned" in spec.config:
        return f"{spec.ptk_id} is pinned; the scheduler 'adaptive' chooses rows itself, so leave pinned out"
    line = line_of(spec, policy)
    if line is None:
        return f"{spec.ptk_id}: the whole budget of its line is reserved for other PTKs"
    capacity = policy.sharing.lines(policy.capacity)[line]
    one, charged = as_waiting(spec, policy, _ANY_TIME), charges_of({spec.ptk_id: spec}, policy)
    coordinate = coordinate_of(policy.accountant, capacity, [charged(spec.ptk_id, one.losses[0])])
    empty = room_in_block(0, 0, coordinate, policy.accountant, capacity)
    return why_never(one, empty, policy.retention_windows, partition_rows(policy), charged)
