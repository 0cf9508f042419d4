"""Streams, batches and windows in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, bindparam, case, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from ptkstore.adapters.sql import tables as t
from ptkstore.adapters.sql.content import stream_of, stream_text, stream_under
from ptkstore.adapters.sql.statements import CatalogPart
from ptkstore.domain.fields import fields_of
from ptkstore.domain.streams.differences import differences
from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import Window, WindowId, WindowState
from ptkstore.errors import LateWriter, NameTaken, UnknownName
from ptkstore.ports.streams import WHOLE, Part, Progress

_POLICY = (  # of the journal: whatever somebody wrote into the stream's row decides nothing
    select(t.policies.c.content)
    .where(t.policies.c.stream == t.streams.c.name)
    .order_by(t.policies.c.sequence)
    .limit(1)
    .correlate(t.streams)
    .scalar_subquery()
)
_ALL: Select[Any] = select(t.streams.c.content, _POLICY.label("policy"))
_ONE = _ALL.where(t.streams.c.name == bindparam("name"))
_ONE_LOCKED = _ONE.with_for_update()
_OPENABLE = (WindowState.CLOSED, WindowState.PREPARED)


class SqlStreams(CatalogPart):
    """The `Streams` of the catalog, their progress and their batches."""

    def add(self, stream: Stream) -> bool:
        """Create a stream, True if it is new; equal content changes nothing."""
        content = stream_text(stream)
        query = select(t.streams.c.content).where(t.streams.c.name == stream.name)
        row = self._connection.execute(query).scalar_one_or_none()
        if row is not None:
            _check_is_or_grew_from(stream_of(row), stream)
            return False
        try:
            begun = fields_of(Progress(closed_before=0, reached=stream.policy.origin))
            self._connection.execute(insert(t.streams).values(name=stream.name, content=content, **begun))
        except IntegrityError:
            raise NameTaken(f"stream {stream.name!r} was created by somebody else just now") from None
        return True

    def replace(self, stream: Stream) -> None:
        """Write a stream that has grown; the caller has the lock."""
        self._connection.execute(
            update(t.streams).where(t.streams.c.name == stream.name).values(content=stream_text(stream))
        )

    def get(self, name: str) -> Stream:
        """Read a stream under the policy in its journal; `UnknownName` if there is none."""
        return _stream(self._row(_ONE, name))

    def lock(self, name: str) -> Stream:
        """Read a stream and hold its row until the transaction ends."""
        return _stream(self._row(_ONE_LOCKED, name))

    def all(self) -> tuple[Stream, ...]:
        """Return all streams by name."""
        return tuple(map(_stream, self._connection.execute(_ALL.order_by(t.streams.c.name))))

    def policy_in_row(self, name: str) -> Policy:
        """Return the policy in the stream's own row, which decides nothing."""
        return stream_of(self._row(_ONE, name).content).policy

    def progress(self, name: str) -> Progress:
        """Tell how far the stream has come."""
        row = self._one(select(t.streams).where(t.streams.c.name == name), "stream", name)
        return Progress(row.closed_before, row.reached, row.retired_before)

    def progresses(self, names: Sequence[str]) -> Mapping[str, Progress]:
        """Tell how far each of these streams has come; those that are none are left out."""
        rows = self._rows_with(select(t.streams), t.streams.c.name, names)
        return {row.name: Progress(row.closed_before, row.reached, row.retired_before) for row in rows}

    def advance(self, name: str, progress: Progress) -> None:
        """Move forward; the caller has the lock."""
        change = update(t.streams).where(t.streams.c.name == name)
        self._connection.execute(change.values(fields_of(progress)))

    def add_batch(self, name: str, batch_id: str, token: str, closed_before: int, part: Part = WHOLE) -> None:
        values = {"stream": name, "batch_id": batch_id, "part": part[0], "parts": part[1]}
        self._connection.execute(insert(t.batches).values(**values, token=token, closed_before=closed_before))

    def stored_part(self, name: str, batch_id: str) -> Part | None:
        """Return the last part that was committed."""
        batch = t.batches.c
        query = select(batch.part, batch.parts).where(batch.stream == name, batch.batch_id == batch_id)
        row = self._connection.execute(query.order_by(batch.part.desc()).limit(1)).one_or_none()
        return None if row is None else (row.part, row.parts)

    def tokens_for(self, window: WindowId) -> tuple[str, ...]:
        """Return the tokens of all batches that may hold rows of the window."""
        query = (
            select(t.batches.c.token)
            .where(t.batches.c.stream == window.stream, t.batches.c.closed_before <= window.index)
            .order_by(t.batches.c.number)
        )
        return tuple(self._connection.execute(query).scalars())

    def _row(self, query: Select[Any], name: str) -> Row[Any]:
        row = self._connection.execute(query, {"name": name}).one_or_none()
        if row is None:
            raise UnknownName("stream", name)
        return row


class SqlWindows(CatalogPart):
    """Windows that have closed."""

    def add(self, *windows: Window, at: datetime) -> None:
        """Record windows that closed at this time; `LateWriter` if somebody else did."""
        rows = [
            {
                "stream": w.id.stream,
                "index": w.id.index,
                "start": w.start,
                "end": w.end,
                "state": w.state,
                "closed_at": at,
            }
            for w in windows
        ]
        try:
            if rows:
                self._connection.execute(insert(t.windows), rows)
        except IntegrityError as error:
            name = windows[0].id.stream
            raise LateWriter(f"windows of {name!r} were closed by somebody else just now") from error.orig

    def get(self, window: WindowId) -> Window:
        """Read a window; `UnknownName` if it has not closed."""
        return _window(self._one(select(t.windows).where(*_is(window)), "closed window", str(window)))

    def set_state(self, window: WindowId, state: WindowState) -> None:
        """Write a window's state; the caller has the stream's lock."""
        self._connection.execute(update(t.windows).where(*_is(window)).values(state=state))

    def let_expire(self, stream: str, lo: int, hi: int) -> tuple[WindowId, ...]:
        """Let no run open windows `lo` to `hi - 1` any more; those that one could have opened, in order of time."""
        index = t.windows.c.index
        these = (t.windows.c.stream == stream, index >= lo, index < hi, t.windows.c.state.in_(_OPENABLE))
        numbers = self._connection.execute(select(index).where(*these).order_by(index)).scalars().all()
        if numbers:
            self._connection.execute(update(t.windows).where(*these).values(state=WindowState.EXPIRING))
        return tuple(WindowId(stream, int(number)) for number in numbers)

    def of(self, stream: str) -> tuple[Window, ...]:
        """Return all windows that ever closed, in order of time."""
        query = select(t.windows).where(t.windows.c.stream == stream).order_by(t.windows.c.index)
        return tuple(map(_window, self._connection.execute(query)))

    def kept(self, streams: Sequence[str]) -> tuple[Window, ...]:
        """Return the closed windows of these streams that have not expired, by stream and in order of time."""
        query = select(t.windows).where(t.windows.c.state != WindowState.EXPIRED)
        rows = self._rows_with(query, t.windows.c.stream, streams)
        return tuple(sorted(map(_window, rows), key=lambda one: (one.id.stream, one.id.index)))

    def closed_since(self, at: datetime) -> Mapping[str, int]:
        """Return how many windows of each stream closed since then; streams that closed none are left out."""
        stream = t.windows.c.stream
        query = select(stream, func.count()).where(t.windows.c.closed_at >= at).group_by(stream)
        return {str(name): int(count) for name, count in self._connection.execute(query)}

    def between(self, stream: str, lo: int, hi: int) -> tuple[Window, ...]:
        """Return those of the windows `lo` to `hi - 1` that have closed, in order of time."""
        index = t.windows.c.index
        query = select(t.windows).where(t.windows.c.stream == stream, index >= lo, index < hi)
        return tuple(map(_window, self._connection.execute(query.order_by(index))))

    def states(self, stream: str, windows: Iterable[int]) -> Mapping[int, WindowState]:
        """Return the state of each of these windows, in their order; `UnknownName` if one has not closed."""
        asked, index = tuple(windows), t.windows.c.index
        query = select(index.label("number"), t.windows.c.state).where(t.windows.c.stream == stream)
        states = {row.number: WindowState(row.state) for row in self._rows_with(query, index, asked)}
        for one in asked:
            if one not in states:
                raise UnknownName("closed window", str(WindowId(stream, one)))
        return {one: states[one] for one in asked}

    def first_kept(self, stream: str) -> int:
        """Return the first window that has not expired; all that have closed are known."""
        index, kept = t.windows.c.index, t.windows.c.state != WindowState.EXPIRED
        query = select(func.min(case((kept, index))), func.max(index)).where(t.windows.c.stream == stream)
        first, last = self._connection.execute(query).one()
        return int(first) if first is not None else 0 if last is None else int(last) + 1

    def prepared(self, stream: str) -> tuple[int, ...]:
        """Return the windows that a run may open."""
        index = t.windows.c.index
        query = select(index).where(t.windows.c.stream == stream, t.windows.c.state == WindowState.PREPARED)
        return tuple(map(int, self._connection.execute(query.order_by(index)).scalars()))


def _check_is_or_grew_from(stored: Stream, given: Stream) -> None:
    """`NameTaken` unless a stream is what is asked for, or was when it was created; other teams' are not described."""
    if given in (stored, replace(stored, schema=stored.schema.as_created())):
        return
    if stored.team != given.team:
        raise NameTaken(f"stream {given.name!r} exists and belongs to another team; choose another name")
    raise NameTaken(
        f"stream {given.name!r} exists with another schema or policy, both fixed at creation: "
        f"{'; '.join(differences(stored, given))}"
    )


def _stream(row: Row[Any]) -> Stream:
    return stream_under(row.content, row.policy)


def _is(window: WindowId) -> list[ColumnElement[bool]]:
    return [t.windows.c.stream == window.stream, t.windows.c.index == window.index]


def _window(row: Row[Any]) -> Window:
    return Window(WindowId(row.stream, row._mapping["index"]), row.start, row.end, WindowState(row.state))
