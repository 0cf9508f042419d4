"""Where profile sets are read: one short-lived process per profile or drift test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ptkstore.domain.ptks.profiles import Point, ProfileAsk
from ptkstore.ports.training import TrainFailed


@dataclass(frozen=True, slots=True)
class ProfileSet:
    """Rows of a window's profile part: those of `part_urls` whose keyed hash lies in [`low`, `high`)."""

    part_urls: tuple[str, ...]
    low: int
    high: int
    window_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """All that a profiling process gets to know: `epsilons` are profiled from `n_min` units on, as `ask` says."""

    estimator: Mapping[str, Any]
    ask: ProfileAsk
    epsilons: tuple[float, ...]
    n_min: int
    confidence: float
    profile_set: ProfileSet


@dataclass(frozen=True, slots=True)
class DriftRequest:
    """All that a process gets to know that tests a released state; `state` holds its files, as in `TrainRequest`."""

    estimator: Mapping[str, Any]
    ask: ProfileAsk
    epsilon: float
    state: Mapping[str, bytes]
    profile_set: ProfileSet


class SampleProfiler(Protocol):
    """Reads profile sets in a process of its own with limits on time and memory.

    Both call `keep_alive` about once a second; if that raises, the process is killed first.
    """

    def profile(
        self, request: ProfileRequest, keep_alive: Callable[[], None]
    ) -> tuple[Point, ...] | TrainFailed:
        """The answer for each of the request's epsilons, ascending."""
        ...

    def has_drifted(self, request: DriftRequest, keep_alive: Callable[[], None]) -> bool | TrainFailed:
        """Whether the state's risk is above what its profile promised."""
        ...
