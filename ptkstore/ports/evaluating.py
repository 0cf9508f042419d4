"""Where test sets are read: one short-lived process per evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ptkstore.domain.evaluations import Evaluation, RiskMass
from ptkstore.ports.training import TrainFailed


@dataclass(frozen=True, slots=True)
class EvaluateRequest:
    """All that an evaluating process gets to know.

    The loss of `state`, whose files are as in `TrainRequest`, on the rows of `part_urls` whose keyed hash lies in
    [`hash_low`, `hash_high`) is estimated for `epsilon`.
    """

    estimator: Mapping[str, Any]
    epsilon: float
    state: Mapping[str, bytes]
    part_urls: tuple[str, ...]
    hash_low: int
    hash_high: int
    window_key: bytes = field(repr=False)


class Evaluator(Protocol):
    """Reads test sets in a process of its own with limits on time and memory."""

    def evaluate(self, request: EvaluateRequest, keep_alive: Callable[[], None]) -> RiskMass | TrainFailed:
        """The noisy sums, calling `keep_alive` about once a second; if that raises, the process is killed first."""
        ...


class EvaluationsView(Protocol):
    """Released estimates, for reading."""

    def of(self, ptk_id: str) -> tuple[Evaluation, ...]:
        """All of a PTK, by version."""
        ...


class Evaluations(EvaluationsView, Protocol):
    """Released estimates, one for each version at most."""

    def add(self, evaluation: Evaluation) -> None:
        """Keep an estimate; a second one of the same version gets `LateWriter`."""
        ...
