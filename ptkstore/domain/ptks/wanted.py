"""PTKs as their teams want them to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NotRequired, TypedDict


@dataclass(frozen=True, slots=True)
class WantedPtk:
    """A PTK as its team wants it to be, whether it is registered by now or not."""

    name: str
    estimator: Mapping[str, Any]
    target: float
    train_frequency: str
    config: Mapping[str, Any] = field(default_factory=dict)
    description: str = ""


class WantedFields(TypedDict):
    """The fields of a `WantedPtk` as keywords, which services take it by."""

    name: str
    estimator: Mapping[str, Any]
    target: float
    train_frequency: str
    config: NotRequired[Mapping[str, Any]]
    description: NotRequired[str]


class PtkChange(TypedDict, total=False):
    """What may be changed of a registered PTK, as keywords; what is left out or None stays as it is."""

    estimator: Mapping[str, Any] | None
    target: float | None
    config: Mapping[str, Any] | None
    description: str | None
