"""A recommendation of rows as JSON values, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from ptkstore.application.planning.recommend_rows import StreamAdvice
from ptkstore.domain.accounting.losses import NANO, Loss
from ptkstore.domain.allocation.advice import Point, Recommendation
from ptkstore.domain.streams.policies import Policy

if TYPE_CHECKING:
    from ptkstore.domain.allocation.model import Infeasible

_PLAIN = ("partitions", "first_feasible_rows", "bound")


def advice_document(advice: StreamAdvice) -> dict[str, Any]:
    """Write what a stream's PTKs need, by line of the budget."""
    return {
        "stream": advice.stream,
        "rows": advice.n_rows,
        "window_seconds": None if advice.window is None else advice.window.total_seconds(),
        "rows_per_window": advice.policy.rows_per_window,
        "lines": {
            line: {
                "rows": one.n_rows,
                "refusal": str(one.refusal) if one.refusal else None,
                "by_ptks": _points(one.by_ptks),
                "by_budget": _points(one.by_budget),
            }
            for line, one in advice.lines.items()
        },
    }


def advice_of(document: Mapping[str, Any], policy: Policy) -> StreamAdvice:
    """Read what `advice_document` wrote of a stream with this policy; a refusal is its text."""
    seconds = document["window_seconds"]
    window = None if seconds is None else timedelta(seconds=seconds)
    lines = {
        line: Recommendation(
            n_rows=one["rows"],
            window=window if one["rows"] is not None else None,
            partitions=0,
            by_ptks=_points_of(one["by_ptks"]),
            by_budget=_points_of(one["by_budget"]),
            refusal=cast("Infeasible | None", one["refusal"]),
        )
        for line, one in document["lines"].items()
    }
    return StreamAdvice(document["stream"], policy, lines)


def _points(points: Sequence[Point]) -> list[dict[str, Any]]:
    return [
        {"ptks": one.n_ptks, "epsilon": one.capacity.epsilon, "rows": one.n_rows}
        | {name: getattr(one, name) for name in _PLAIN}
        for one in points
    ]


def _points_of(documents: Sequence[Mapping[str, Any]]) -> tuple[Point, ...]:
    return tuple(
        Point(
            n_ptks=one["ptks"],
            capacity=Loss(round(one["epsilon"] * NANO), 0),
            n_rows=one["rows"],
            partitions=one["partitions"],
            bound=one.get("bound"),
            first_feasible_rows=one["first_feasible_rows"],
        )
        for one in documents
    )
