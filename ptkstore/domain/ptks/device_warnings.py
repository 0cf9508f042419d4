"""Warnings to a team before it registers a PTK that devices train."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptkstore.domain.ptks.ptks import is_averaged

_ONE_INSTANCE = (
    "with k=1 nothing is averaged: each version is the last report as a device sent it, and each device draws the "
    "report of the one before. A version has no spread to compare with what is expected"
)
_PREDICTIONS = (
    "with average='predictions' each version has all {k} instances, which are the last reports as devices sent them, "
    "and the lake keeps them; average='weights' publishes their mean alone"
)


def device_warnings(estimator: Mapping[str, Any]) -> tuple[str, ...]:
    """Return where versions are, or have, single reports of devices; nothing of a PTK that is trained on rows."""
    if not is_averaged(estimator):
        return ()
    params = estimator["params"]
    if params.get("k") == 1:
        return (_ONE_INSTANCE,)
    if params.get("average") == "predictions":
        return (_PREDICTIONS.format(k=params["k"]),)
    return ()
