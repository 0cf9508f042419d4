"""The room check where PTKs wait: a newcomer is refused only if no number of kept windows could serve it."""

from __future__ import annotations

from datetime import UTC, datetime

from ptkstore.application.planning.window_plans import partition_rows
from ptkstore.application.scheduling.waiting_ptks import as_waiting, charges_of, line_of
from ptkstore.domain.budgeting.declared import recency_of, rule_of
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.scheduling.block_rooms import whole_block
from ptkstore.domain.scheduling.choices import Scheduler, Significance
from ptkstore.domain.scheduling.model import Waiting
from ptkstore.domain.scheduling.room_check import why_never
from ptkstore.domain.streams.policies import Policy

_ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def why_it_never_fits(spec: PtkSpec, policy: Policy) -> str | None:
    """Say why a PTK could wait on a stream forever, even alone; None if enough windows would serve it."""
    if "pinned" in spec.config:
        chosen = f"the scheduler {policy.scheduler.value!r} chooses rows itself, so leave pinned out"
        return f"{spec.ptk_id} is pinned; {chosen}"
    line = line_of(spec, policy)
    if line is None:
        return f"{spec.ptk_id}: the whole budget of its line is reserved for other PTKs"
    capacity = policy.lines[line]
    one, charged = as_waiting(spec, policy, _ANY_TIME), charges_of({spec.ptk_id: spec}, policy)
    whole = whole_block(policy.accountant, capacity, [charged(spec.ptk_id, one.losses[0])])
    never = why_never(one, whole, policy.retention_windows, partition_rows(policy), charged)
    if never is None and (policy.scheduler, policy.significance) == (
        Scheduler.BUDGETING,
        Significance.RECENCY,
    ):
        return _why_never_significant(one, spec, policy)
    return never


def _why_never_significant(one: Waiting, spec: PtkSpec, policy: Policy) -> str | None:
    """Say why even fresh windows are never significant enough for a PTK; None if the newest ones are."""
    least, loss = one.windows[0], one.losses[0]
    significance = recency_of(spec.config, policy).of(least - 1)
    due = rule_of(policy).at(0.0) * loss.epsilon
    if significance >= due:
        return None
    return (
        f"{spec.ptk_id} needs {least} window{'' if least == 1 else 's'}, the oldest of which has a significance of at "
        f"most {significance:g}. A fresh window asks for {due:g}, the least_significance of the stream times epsilon "
        f"{loss.epsilon:g}. Declare a smaller epsilon, fewer windows or a longer recency"
    )
