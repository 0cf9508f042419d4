"""Results of the demo, as plain records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

WARNING: Final = (
    "This report contains TRUE VALUES of the input beside the released ones. They have no privacy protection: "
    "do not share it, and do not keep it where others read."
)
FORMAT_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class PtkSummary:
    """One PTK at the end of the run; `rows_granted` is planned from public rates, never counted."""

    ptk_id: str
    name: str
    family: str
    versions: int
    epsilon_spent: float
    rows_granted: int


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Webhooks: sent by the service, of which the receiver verified the signature, and those that failed."""

    sent: int
    verified: int
    failed: int


@dataclass(frozen=True, slots=True)
class Lookup:
    """One feature read through Feast, beside what the same rows say without noise (None: no such row)."""

    ptk: str
    view: str
    entity: Mapping[str, int | str | bool]
    feature: str
    value: float | None
    true_value: float | None = None


@dataclass(frozen=True, slots=True)
class BlockBudget:
    """One block of the ledger, in epsilon; `part` is what the rows serve, such as 'test' or 'train 1'."""

    window_start: datetime
    part: str
    capacity: float
    spent: float
    reserved: float

    @property
    def left(self) -> float:
        """The loss that the block has left."""
        return max(0.0, self.capacity - self.spent - self.reserved)


@dataclass(frozen=True, slots=True)
class VersionPoint:
    """A published version: where its newest window ends, and when it could be looked up."""

    ptk_id: str
    version: int
    window_end: datetime
    published: datetime


@dataclass(frozen=True, slots=True)
class ErrorPoint:
    """Measured mean absolute error at one epsilon, with the 10th and 90th percentile of repeated releases."""

    epsilon: float
    statistic: str
    unit: str
    mean_absolute_error: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Report:
    """All that one run of the demo reports.

    Parameters
    ----------
    source : str
        What the rows were: `trips.GENERATED`, or the name of the file.
    max_block_epsilon : float
        The most any block has spent; never above `epsilon_g`.
    raw_files_remaining : int
        Files of expired windows still in the raw zone; 0 when expiry did its work.
    started : datetime
        When the run began; `versions` are drawn from there.
    """

    source: str
    started: datetime
    windows_closed: int
    ptks: tuple[PtkSummary, ...]
    max_block_epsilon: float
    epsilon_g: float
    delta_g: float
    deliveries: Deliveries
    lookups: tuple[Lookup, ...]
    raw_files_remaining: int
    seconds: float
    blocks: tuple[BlockBudget, ...] = ()
    versions: tuple[VersionPoint, ...] = ()
    errors: tuple[ErrorPoint, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; times are ISO 8601."""
        return {"format_version": FORMAT_VERSION, "warning": WARNING, **asdict(self, dict_factory=_plain)}


def _plain(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in fields}
