"""Streams of the catalog and their windows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import Window, WindowId, WindowState

Part = tuple[int, int]
"""The number of a part, from 1 on, and how many there are. A batch is stored once its last part is."""
WHOLE: Part = (1, 1)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stream's event time has come: all windows below `closed_before` are closed.

    Blocks of windows below `retired_before` are retired from the start: spends on them may have been forgotten.
    """

    closed_before: int
    reached: datetime
    retired_before: int = 0


class StreamsView(Protocol):
    """Streams and how far each has come, for reading.

    A stream is read with the policy in its journal, whatever somebody wrote into its row. Only while its journal has
    none, it is read with its row's policy.
    """

    def get(self, name: str) -> Stream:
        """Read a stream; `UnknownName` if there is none."""

    def all(self) -> tuple[Stream, ...]:
        """Return all streams by name."""

    def policy_in_row(self, name: str) -> Policy:
        """Return the policy in the stream's own row, to compare with the journal's; it decides nothing."""

    def progress(self, name: str) -> Progress:
        """Tell how far the stream has come."""

    def progresses(self, names: Sequence[str]) -> Mapping[str, Progress]:
        """Tell how far each of these streams has come; those that are none are left out."""

    def stored_part(self, name: str, batch_id: str) -> Part | None:
        """Return the last part of the batch that was committed, None if none was."""

    def tokens_for(self, window: WindowId) -> tuple[str, ...]:
        """Return the tokens of all batches that may hold rows of the window, in order of arrival."""


class Streams(StreamsView, Protocol):
    """Streams, their progress and the batches they took."""

    def add(self, stream: Stream) -> bool:
        """Create a stream, True if it is new; one that is equal, or grew from an equal one, stays.

        Other content is `NameTaken`.
        """

    def replace(self, stream: Stream) -> None:
        """Write a stream that has grown; the caller has the lock."""

    def lock(self, name: str) -> Stream:
        """Read a stream; until the transaction ends nobody else passes here for it."""

    def advance(self, name: str, progress: Progress) -> None:
        """Move forward; the caller has the lock."""

    def add_batch(self, name: str, batch_id: str, token: str, closed_before: int, part: Part = WHOLE) -> None:
        """Commit a batch, or a part of one.

        Parameters
        ----------
        name, batch_id, token, part
            The stream, and the batch or part of one that was written.
        closed_before : int
            The first window that its rows may belong to.
        """


class WindowsView(Protocol):
    """Windows that have closed, for reading."""

    def get(self, window: WindowId) -> Window:
        """Read a window; `UnknownName` if it has not closed."""

    def of(self, stream: str) -> tuple[Window, ...]:
        """Return all windows that ever closed, in order of time."""

    def kept(self, streams: Sequence[str]) -> tuple[Window, ...]:
        """Return the closed windows of these streams that have not expired, by stream and in order of time."""

    def closed_since(self, at: datetime) -> Mapping[str, int]:
        """Return how many windows of each stream closed since then; streams that closed none are left out."""

    def between(self, stream: str, lo: int, hi: int) -> tuple[Window, ...]:
        """Return those of the windows `lo` to `hi - 1` that have closed, in order of time."""

    def states(self, stream: str, windows: Iterable[int]) -> Mapping[int, WindowState]:
        """Return the state of each of these windows, in their order; `UnknownName` if one has not closed."""

    def first_kept(self, stream: str) -> int:
        """Return the first window that has not expired; the keys of all before it are destroyed."""

    def prepared(self, stream: str) -> tuple[int, ...]:
        """Return the windows whose rows are in partitions and do not expire, rising."""


class Windows(WindowsView, Protocol):
    """Windows that have closed."""

    def add(self, *windows: Window, at: datetime) -> None:
        """Record windows of one stream that closed at this time; `LateWriter` if somebody else did."""

    def set_state(self, window: WindowId, state: WindowState) -> None:
        """Write a window's state; the caller has the stream's lock."""

    def let_expire(self, stream: str, lo: int, hi: int) -> tuple[WindowId, ...]:
        """Let no run open windows `lo` to `hi - 1` any more; those that one could have opened, in order of time.

        The caller has the stream's lock.
        """
