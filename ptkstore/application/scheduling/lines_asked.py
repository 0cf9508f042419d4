"""The unspent budget of windows of a budgeting stream, and how significant they have to be for a PTK."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ptkstore.application.planning.window_plans import partition_rows
from ptkstore.application.scheduling.waiting_ptks import charges_of, line_of, waiting_ptks
from ptkstore.domain.accounting.accountants import Caps, caps_of
from ptkstore.domain.budgeting.declared import rule_of
from ptkstore.domain.budgeting.measured import MeasuredBudgeting
from ptkstore.domain.budgeting.online import ToCompare
from ptkstore.domain.budgeting.public import WindowsLeft
from ptkstore.domain.budgeting.released import ReleasedBudgeting
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.streams.blocks import PROFILE, groups_of, part_blocks, train_blocks
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import WindowId
from ptkstore.ports.catalog import CatalogView


def line_asked(uow: CatalogView, stream: Stream, spec: PtkSpec, window: WindowId) -> float | None:
    """Return T(z) (epsilon_j + epsilon_0) of a window for a PTK that waits, in clipped losses.

    None if the PTK does not wait, or the window serves it or declines without a comparison by now.
    """
    one = next(iter(waiting_ptks(uow, stream, [spec])), None)
    line = line_of(spec, stream.policy)
    if one is None or line is None:
        return None
    left = left_of(uow, stream, [window.index], line)
    budgeting = MeasuredBudgeting(rule_of(stream.policy), partition_rows(stream.policy))
    charged = charges_of({spec.ptk_id: one.spec}, stream.policy)
    step = budgeting.step(one.facts, window.index, left, charged)
    return step.line if isinstance(step, ToCompare) else None


def is_release_asked(uow: CatalogView, stream: Stream, spec: PtkSpec, window: WindowId) -> bool:
    """Tell whether a PTK waits that the train part of a window could serve by now, once its losses are released."""
    one = next(iter(waiting_ptks(uow, stream, [spec])), None)
    line = line_of(spec, stream.policy)
    if one is None or one.facts.under_way or line is None:
        return False
    left = left_of(uow, stream, [window.index], line)
    budgeting = ReleasedBudgeting(rule_of(stream.policy), partition_rows(stream.policy))
    charged = charges_of({spec.ptk_id: one.spec}, stream.policy)
    return budgeting.declines(one.facts, window.index, left, charged) is None


def left_of(uow: CatalogView, stream: Stream, prepared: Sequence[int], line: str) -> WindowsLeft:
    """Return what the train blocks of some windows have left on a line."""
    policy = stream.policy
    places = {
        number: (window, group)
        for window in prepared
        for group, number in zip(
            range(groups_of(policy)), train_blocks(WindowId(stream.name, window), policy, 0), strict=True
        )
    }
    left = uow.ledger.filters(stream.name).left(line, places)
    caps = caps_of(policy.accountant, policy.lines[line])
    return WindowsLeft(caps, {places[number]: caps for number, caps in left.items()})


def profile_part_left(
    uow: CatalogView, stream: Stream, window: WindowId, line: str
) -> Mapping[int, Caps] | None:
    """Return what each profile block of a window has left on a line; None once one of them is retired."""
    blocks = part_blocks(PROFILE, window, stream.policy, range(groups_of(stream.policy)))
    left = uow.ledger.filters(stream.name).left(line, blocks)
    return left if all(number in left for number in blocks) else None
