"""Paid estimates of losses as people read them, and as documents of the HTTP API."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ptkstore.domain.accounting.assurances import assured_of
from ptkstore.domain.evaluations import Evaluation, RiskMass


def evaluation_row(evaluation: Evaluation) -> dict[str, Any]:
    """Return what an estimate says of its version: all of it follows from the two noisy sums.

    `loss` is the estimated mean loss of a privacy unit of the window's test set, in [0, 1]. `standard_error` is that of
    noise and sample together. Both are None when the noise is as large as the loss that was measured.
    """
    from ptklib.profiling.estimates import LossEstimate

    estimate = LossEstimate(evaluation.epsilon, evaluation.mass.lost, evaluation.mass.kept)
    return {
        "version": evaluation.number,
        "window": evaluation.window_index,
        "windows": list(evaluation.windows),
        "loss": estimate.loss,
        "standard_error": estimate.standard_error,
        "units": estimate.n_units,
        "epsilon": evaluation.epsilon,
        **evaluation.assured.document(),
        "at": evaluation.at.isoformat(),
    }


def evaluation_document(evaluation: Evaluation) -> dict[str, Any]:
    """Write one estimate in a list."""
    return {
        "ptk_id": evaluation.ptk_id,
        "version": evaluation.number,
        "window": evaluation.window_index,
        "windows": list(evaluation.windows),
        "epsilon": evaluation.epsilon,
        "lost": evaluation.mass.lost,
        "kept": evaluation.mass.kept,
        **evaluation.assured.document(),
        "at": evaluation.at.isoformat(),
    }


def evaluation_of(document: Mapping[str, Any]) -> Evaluation:
    """Read the estimate that `evaluation_document` wrote; an earlier service knows less of it."""
    return Evaluation(
        ptk_id=document["ptk_id"],
        number=document["version"],
        job_id="",
        windows=tuple(document.get("windows") or [document["window"]]),
        epsilon=document["epsilon"],
        mass=RiskMass(document["lost"], document["kept"]),
        at=datetime.fromisoformat(document["at"]),
        assured=assured_of(document),
    )
