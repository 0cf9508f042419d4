"""Processes that open rows: one short-lived process per run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from ptkstore.domain.evaluations import GroupedMass, JudgedMass, RiskMass
from ptkstore.domain.ptks.profiles import Point, ProfileAsk
from ptkstore.domain.streams.schemas import Schema
from ptkstore.domain.streams.windows import WindowId
from ptkstore.domain.versions.versions import Draft

STAGING_FAILED: Final = "staging-failed"
"""What was made could not be written to staging, however often it was tried."""


@dataclass(frozen=True, slots=True)
class OpenedRows:
    """Rows of one window that are paid for: those of `part_urls` whose keyed hash is in [`low`, `high`).

    A request has one of these for each of its windows, oldest first. A process takes the rows of a user in several
    windows as several units, as `user-in-window` says. It cannot know that a stream protects users for life, so whoever
    makes a request answers for that.
    """

    part_urls: tuple[str, ...]
    low: int
    high: int
    window_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class StagedPartial:
    """Partial statistics that wait in staging, with the key that opens them."""

    draft_id: str
    draft_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class _StagingRequest:
    estimator: Mapping[str, Any]
    epsilon: float
    delta: float
    rows: tuple[OpenedRows, ...]
    draft_id: str
    draft_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class TrainRequest(_StagingRequest):
    """All that a training process gets to know.

    It trains on `rows`, window by window; the state is written to staging as `draft_id`, encrypted with `draft_key`.
    `previous_state` has the files of the PTK's last released state, verified, by the names they had when they were
    written (`<table>.parquet`, `state.json`). With `partials` no row is opened, and `rows` is empty: they are merged,
    and noise is drawn once. `bundle` is the code of an estimator that is no family of the library.
    """

    previous_state: Mapping[str, bytes] | None
    partials: tuple[StagedPartial, ...] = ()
    bundle: bytes | None = None


@dataclass(frozen=True, slots=True)
class CollectRequest(_StagingRequest):
    """All that a process gets to know that collects partial statistics: as `TrainRequest`, without noise or state.

    Its output in staging is private.
    """


@dataclass(frozen=True, slots=True)
class RunFailed:
    """The run gave no result; `code` is one of a fixed set and says nothing about rows."""

    code: str


class Trainer(Protocol):
    """Runs one training in a process of its own with limits on time and memory."""

    def train(self, request: TrainRequest, keep_alive: Callable[[], None]) -> Draft | RunFailed:
        """Train, calling `keep_alive` about once a second; if that raises, the process is killed first."""

    def collect(self, request: CollectRequest, keep_alive: Callable[[], None]) -> RunFailed | None:
        """Have partial statistics written to staging, calling `keep_alive` as `train` does; None if they are."""


@dataclass(frozen=True, slots=True)
class PrepareRequest:
    """All that a preparing process gets to know.

    The rows of the batches `tokens` of `window`, in the columns of `schema`, are opened with `window_key`. Each goes
    to the first part whose bound in `part_bounds` is above the hash of its privacy unit under `split_key`. The unit is
    the row itself or, with `unit_column`, the user, of whom `max_rows_per_unit` rows are kept. Within a part, with
    `attribute`, each of `attribute_values` has rows of its own, and a user's come from one of them. Every part gets a
    file for each value, one without rows too; it is numbered part * values + value. Of the batches that are `noted` a
    file must be there.
    """

    window: WindowId
    tokens: tuple[str, ...]
    schema: Schema
    part_bounds: tuple[int, ...]
    window_key: bytes = field(repr=False)
    split_key: bytes = field(repr=False)
    unit_column: str | None = None
    max_rows_per_unit: int = 1
    attribute: str | None = None
    attribute_values: tuple[str | int | bool, ...] = ()
    noted: tuple[str, ...] = ()


class Preparer(Protocol):
    """Writes a window's parts in a process of its own with limits on time and memory."""

    def prepare(self, request: PrepareRequest, keep_alive: Callable[[], None]) -> None:
        """Write the parts, calling `keep_alive` as `Trainer` does; repeatable.

        Raises `WindowGone` and `CorruptObject` as reading the rows does, `Unavailable` for every other end; none says
        anything about rows.
        """


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """All that an erasing process gets to know: rows of `window` with `unit` in `unit_column` are to go."""

    window: WindowId
    unit_column: str
    unit: str | int = field(repr=False)
    window_key: bytes = field(repr=False)


class Eraser(Protocol):
    """Rewrites a window's files without some rows in a process of its own with limits on time and memory."""

    def forget(self, request: ForgetRequest, keep_alive: Callable[[], None]) -> None:
        """Rewrite every file of the window, with such rows or not, so that nothing shows which had any; repeatable.

        Raises `WindowGone` and `CorruptObject` as reading the rows does, `Unavailable` for every other end; none says
        anything about rows.
        """


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """All that a profiling process gets to know: `epsilons` are profiled from `n_min` units on, as `ask` says.

    `bundle` is the code of an estimator that is no family of the library.
    """

    estimator: Mapping[str, Any]
    ask: ProfileAsk
    epsilons: tuple[float, ...]
    n_min: int
    confidence: float
    profile_set: tuple[OpenedRows, ...]
    bundle: bytes | None = None


@dataclass(frozen=True, slots=True)
class DriftRequest:
    """All that a process gets to know that tests a released state.

    `state` has its files, as in `TrainRequest`. `bundle` is the code of an estimator that is no family of the library.
    """

    estimator: Mapping[str, Any]
    ask: ProfileAsk
    epsilon: float
    state: Mapping[str, bytes]
    profile_set: tuple[OpenedRows, ...]
    bundle: bytes | None = None


class SampleProfiler(Protocol):
    """Reads profile sets in a process of its own with limits on time and memory.

    Both call `keep_alive` about once a second; if that raises, the process is killed first.
    """

    def profile(
        self, request: ProfileRequest, keep_alive: Callable[[], None]
    ) -> tuple[Point, ...] | RunFailed:
        """Answer for each of the request's epsilons, ascending."""

    def has_drifted(self, request: DriftRequest, keep_alive: Callable[[], None]) -> bool | RunFailed:
        """Tell whether the state's risk is above what its profile promised."""


@dataclass(frozen=True, slots=True)
class EvaluateRequest:
    """All that an evaluating process gets to know.

    The loss of `state`, whose files are as in `TrainRequest`, on `rows` is estimated for `epsilon`. With the metric
    `accuracy` the loss of a row is the share of its answers that are wrong. With the metric `error` the sums are of the
    value of each group, and a privacy unit has `rows_per_unit` rows at most. `bundle` is the code of an estimator that
    is no family of the library: it says the loss of each row. With `reject_epsilon` the sums of the least losses of the
    estimator's class are released too, for that much more.
    """

    estimator: Mapping[str, Any]
    epsilon: float
    state: Mapping[str, bytes]
    rows: tuple[OpenedRows, ...]
    metric: str = "loss"
    bundle: bytes | None = None
    reject_epsilon: float | None = None
    rows_per_unit: int = 1

    @property
    def answer(self) -> type[RiskMass]:
        """The kind of sums that it is answered with."""
        if self.metric == "error":
            return GroupedMass
        return RiskMass if self.reject_epsilon is None else JudgedMass


class Evaluator(Protocol):
    """Reads test sets in a process of its own with limits on time and memory."""

    def evaluate(self, request: EvaluateRequest, keep_alive: Callable[[], None]) -> RiskMass | RunFailed:
        """Return the noisy sums, as `request.answer`.

        Calls `keep_alive` about once a second; if that raises, the process is killed first.
        """


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """All that a process gets to know that compares the losses of a released state with a noisy threshold.

    Attributes
    ----------
    state
        Its files, as in `TrainRequest`.
    epsilon : float
        The loss of the threshold.
    line : float
        The number that the sum of clipped losses is compared with, beside the noise. Public.
    name : str
        Names the threshold: its secret opens under no other name.
    threshold_key : bytes
        The threshold's own key. With that of the window it seals the secret.
    sealed : bytes or None
        The secret of a threshold that was kept; None to draw one, which was paid for.
    """

    estimator: Mapping[str, Any]
    state: Mapping[str, bytes]
    rows: tuple[OpenedRows, ...]
    epsilon: float
    line: float
    name: str
    threshold_key: bytes = field(repr=False)
    sealed: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Compared:
    """An answer, and the sealed secret of the threshold that continues; None once it is used up by "above"."""

    above: bool
    sealed: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """All that a process gets to know that releases the losses of a released state with noise.

    Attributes
    ----------
    state
        Its files, as in `TrainRequest`.
    epsilon : float
        The loss of the release.
    """

    estimator: Mapping[str, Any]
    state: Mapping[str, bytes]
    rows: tuple[OpenedRows, ...]
    epsilon: float


@dataclass(frozen=True, slots=True)
class NoisyLosses:
    """The sum of clipped losses, with noise: a number that may be told to anybody."""

    noisy: float


class Comparer(Protocol):
    """Reads profile sets in a process of its own with limits on time and memory."""

    def compare(self, request: CompareRequest, keep_alive: Callable[[], None]) -> Compared | RunFailed:
        """Compare, calling `keep_alive` about once a second; if it raises, the process is killed first."""

    def release(self, request: ReleaseRequest, keep_alive: Callable[[], None]) -> NoisyLosses | RunFailed:
        """Release, likewise."""


Request = (
    TrainRequest
    | CollectRequest
    | PrepareRequest
    | ForgetRequest
    | ProfileRequest
    | DriftRequest
    | EvaluateRequest
    | CompareRequest
    | ReleaseRequest
)
"""What a process that opens rows may be asked for."""
