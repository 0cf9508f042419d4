"""Recommend the rows and the window length that a stream's PTKs need."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from ptkstore.application.planning import demands_of
from ptkstore.domain.allocation import Limits, Recommendation, recommend
from ptkstore.domain.ptks import PtkSpec
from ptkstore.domain.streams import Policy
from ptkstore.errors import InvalidRequest
from ptkstore.ports.catalog import Begin

MOST_PARTITIONS = 64


@dataclass(frozen=True, slots=True)
class StreamAdvice:
    """A recommendation for each line of the budget; lines open the same rows, so the stream needs the largest."""

    stream: str
    policy: Policy
    lines: dict[str, Recommendation]

    @property
    def n_rows(self) -> int | None:
        """N, or None where some line has no plan."""
        rows = [line.n_rows for line in self.lines.values()]
        known = [n for n in rows if n is not None]
        return max(known, default=0) if len(known) == len(rows) else None

    @property
    def window(self) -> timedelta | None:
        """T, or None where some line has no plan."""
        windows = [line.window for line in self.lines.values() if line.window is not None]
        return max(windows) if windows and self.n_rows is not None else None


def recommend_rows(stream: str, *, partitions: int | None = None, begin: Begin) -> StreamAdvice:
    """What the registered PTKs of a stream need, as epsilons and deltas that add up.

    Only the policy and what PTKs declare go in, both public. A stream with a tighter accountant may need less.

    Parameters
    ----------
    partitions : int
        The most train partitions to plan with; the policy's number by default.
    """
    if partitions is not None and not 1 <= partitions <= MOST_PARTITIONS:
        raise InvalidRequest(f"partitions must be a whole number between 1 and {MOST_PARTITIONS}")
    with begin() as uow:
        policy = uow.streams.get(stream).policy
        specs = uow.ptks.find(stream=stream)
    capacities = policy.sharing.lines(policy.capacity)
    members: dict[str, list[PtkSpec]] = {line: [] for line in capacities}
    for spec in specs:
        members[policy.sharing.line_of(spec.ptk_id)].append(spec)
    lines = {
        line: recommend(
            demands_of(members[line], policy),
            Limits(capacity, policy.n_max, partitions or policy.train_partitions),
            rows_per_window=policy.rows_per_window,
            window=policy.window,
            train_share=Decimal(1) - policy.profile_share - policy.test_share,
        )
        for line, capacity in capacities.items()
        if members[line]
    }
    return StreamAdvice(stream, policy, lines)
