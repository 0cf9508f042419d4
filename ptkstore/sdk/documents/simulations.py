"""A simulation of a stream, as a document of the HTTP API, and back again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptkstore.domain.scheduling.simulations import Asked, Fared, Simulated, Simulation


def simulation_document(one: Simulation) -> dict[str, Any]:
    """Write what a simulation tells of a stream."""
    return {
        "stream": one.stream,
        "rate": one.asked.rate,
        "windows": one.asked.windows,
        "seed": one.asked.seed,
        "arrived": one.arrived,
        "without_menu": list(one.without_menu),
        "refused": [{"ptk_id": ptk_id, "reason": reason} for ptk_id, reason in one.refused],
        "schedulers": [
            {
                "scheduler": fared.scheduler.value,
                "released": fared.released,
                "median_windows": fared.median,
                "p90_windows": fared.late,
                "budget_left": fared.left,
            }
            for fared in one.fared
        ],
    }


def simulation_of(document: Mapping[str, Any]) -> Simulation:
    """Read what `simulation_document` wrote."""
    fared = tuple(
        Fared(
            Simulated(one["scheduler"]),
            one["released"],
            one["median_windows"],
            one["p90_windows"],
            one["budget_left"],
        )
        for one in document["schedulers"]
    )
    schedulers = tuple(one.scheduler for one in fared)
    return Simulation(
        document["stream"],
        Asked(document["rate"], document["windows"], document["seed"], schedulers),
        document["arrived"],
        fared,
        tuple(document["without_menu"]),
        tuple((one["ptk_id"], one["reason"]) for one in document["refused"]),
    )
