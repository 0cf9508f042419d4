"""Verdicts on trained states as people read them, and as documents of the HTTP API."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ptkstore.domain.evaluations import RiskMass
from ptkstore.domain.ptks.accept_deadlines import AcceptDeadline
from ptkstore.domain.validations import Validation


def waiting_text(waiting: AcceptDeadline | None, newest: Mapping[str, Any] | None) -> str | None:
    """Return in words whether a PTK is trained for an accepted version; None where its versions need no verdict.

    Parameters
    ----------
    newest : mapping or None
        The document of its newest version.
    """
    if waiting is None:
        return None
    if waiting.given_up is not None:
        return f"given up: {waiting.given_up}"
    if newest is not None and newest.get("release_decision") == "accepted":
        return f"version {newest['version']} was accepted, and the next is waited for"
    return "waiting"


def validation_row(validation: Validation) -> dict[str, Any]:
    """Return what a verdict says; all of it follows from noisy sums and public numbers.

    A look that could reject cost its `epsilon` and its `reject_epsilon` together.
    """
    said = dict(validation.verdict)
    said.pop("groups", None)  # sums, as `lost` and `kept` are
    minimum = said.pop("minimum", None)
    return {
        "window": validation.window_index,
        "look": validation.look,
        **said,
        **({} if minimum is None else {"least_loss_above": minimum["bound"]}),
        "version": validation.number or None,
        "epsilon": validation.epsilon,
        **({} if minimum is None else {"reject_epsilon": validation.reject_epsilon}),
        "at": validation.at.isoformat(),
    }


def validation_document(validation: Validation) -> dict[str, Any]:
    """Write one verdict in a list."""
    return {
        "ptk_id": validation.ptk_id,
        "version": validation.number or None,
        "window": validation.window_index,
        "look": validation.look,
        "epsilon": validation.epsilon,
        "reject_epsilon": validation.reject_epsilon,
        "lost": validation.mass.lost,
        "kept": validation.mass.kept,
        "verdict": dict(validation.verdict),
        "at": validation.at.isoformat(),
    }


def validation_of(document: Mapping[str, Any]) -> Validation:
    """Read the verdict that `validation_document` wrote."""
    return Validation(
        ptk_id=document["ptk_id"],
        job_id="",
        look=document["look"],
        window_index=document["window"],
        epsilon=document["epsilon"],
        mass=RiskMass(document["lost"], document["kept"]),
        verdict=document["verdict"],
        at=datetime.fromisoformat(document["at"]),
        number=document["version"] or 0,
    )
