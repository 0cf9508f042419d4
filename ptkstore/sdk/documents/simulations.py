"""A simulation of a stream, as a document of the HTTP API, and back again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptkstore.domain.scheduling.simulation.outcomes import RefusedPtk, SchedulerResult, SimulationResult
from ptkstore.domain.scheduling.simulation.requests import SimulatedScheduler, SimulationRequest


def simulation_document(one: SimulationResult) -> dict[str, Any]:
    """Write what a simulation tells of a stream."""
    return {
        "stream": one.stream,
        "rate": one.request.rate,
        "windows": one.request.windows,
        "seed": one.request.seed,
        "least_significance": one.request.least_significance,
        "most_significance": one.request.most_significance,
        "arrived": one.arrived,
        "without_menu": list(one.without_menu),
        "refused": [
            {"ptk_id": refused.ptk_id, "scheduler": refused.scheduler, "reason": refused.reason}
            for refused in one.refused
        ],
        "schedulers": [
            {
                "scheduler": result.scheduler.value,
                "released": result.released,
                "median_windows": result.median,
                "p90_windows": result.p90,
                "budget_left": result.left,
            }
            for result in one.schedulers
        ],
    }


def simulation_of(document: Mapping[str, Any]) -> SimulationResult:
    """Read what `simulation_document` wrote."""
    results = tuple(
        SchedulerResult(
            SimulatedScheduler(one["scheduler"]),
            one["released"],
            one["median_windows"],
            one["p90_windows"],
            one["budget_left"],
        )
        for one in document["schedulers"]
    )
    request = SimulationRequest(
        document["rate"],
        document["windows"],
        document["seed"],
        tuple(one.scheduler for one in results),
        document.get("least_significance"),
        document.get("most_significance"),
    )
    return SimulationResult(
        document["stream"],
        request,
        document["arrived"],
        results,
        tuple(document["without_menu"]),
        tuple(RefusedPtk(one["ptk_id"], one["scheduler"], one["reason"]) for one in document["refused"]),
    )
