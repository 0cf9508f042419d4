"""Say what of a stream is kept that is no DP output, since when and until when, and look for anything older."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, partial

from ptkstore.domain.draft_ids import window_of
from ptkstore.domain.durations import duration_text
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.streams.policies import Closing
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import (
    Window,
    WindowId,
    WindowState,
    expired_before,
    kept_until,
    start_of,
)
from ptkstore.domain.times import utc_text
from ptkstore.errors import Unavailable
from ptkstore.ports.catalog import CatalogView, Read
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.objects import RawZone, Staging
from ptkstore.ports.runtime import Clock
from ptkstore.ports.streams import Progress

ASKED_AT_ONCE = 200
"""Windows whose elected drafts are asked for by name; beside more of them, all elected drafts are read."""


@dataclass(frozen=True, slots=True)
class ExposedWindow:
    """A closed window whose rows, and drafts trained on them, may exist until event time reaches `until`."""

    window: Window
    until: datetime


@dataclass(frozen=True, slots=True)
class Exposure:
    """All that is kept of a stream.

    All that is no DP output depends on events from `since` on alone; retention allows events from `allowed_since` on.
    `overdue` are windows past it that have not expired yet, `remains` expired ones of which something was found. The
    windows and times come from clock and policy: nothing that is said of a kept window depends on its rows.

    If an operator closes windows, all of this is by event time. `past_by_clock` are the windows that are kept and would
    have expired if the clock closed them.

    Of a stream whose rows stay `on_devices` nothing is kept: whatever is found of one is a remainder.

    One training of a registered PTK may read `most_windows` windows. Rows can be read for `readable` after the end of
    their window: the retention times the window's length.
    """

    stream: str
    reached: datetime
    since: datetime
    allowed_since: datetime
    kept: tuple[ExposedWindow, ...]
    open_since: datetime
    overdue: tuple[int, ...]
    remains: tuple[int, ...]
    closing: Closing = Closing.CLOCK
    past_by_clock: tuple[int, ...] = ()
    most_windows: int = 1
    readable: timedelta = timedelta(0)
    on_devices: bool = False

    @property
    def holds(self) -> bool:
        """Whether nothing remains that depends on an event older than the retention."""
        return not self.overdue and not self.remains


@dataclass(frozen=True, slots=True)
class PrivatePlaces:
    """The places where something may be that is no DP output."""

    keys: KeyStore
    raw: RawZone
    staging: Staging


@dataclass(frozen=True, slots=True)
class _Recorded:
    """What the catalog says of a stream; `alive` are its closed windows that have not expired."""

    stream: Stream
    progress: Progress
    alive: tuple[Window, ...]
    most_windows: int


def exposure_of(stream_name: str, *, begin: Read, clock: Clock, private: PrivatePlaces) -> Exposure:
    """Compare what the catalog says with the files, keys and drafts that exist."""
    with begin() as uow:
        (recorded,) = _recorded([uow.streams.get(stream_name)], uow.ptks.find(stream=stream_name), uow)
    return _compared(recorded, lambda: _drafts(private), begin, clock, private)


def exposures_of(
    streams: Sequence[Stream],
    specs: Iterable[PtkSpec],
    *,
    begin: Read,
    clock: Clock,
    private: PrivatePlaces,
) -> dict[str, Exposure]:
    """Compare the same for several streams, by name: the catalog is read at once, and drafts are listed once.

    Streams for which a store is unavailable are left out.

    Parameters
    ----------
    specs : iterable of PtkSpec
        The PTKs that are registered on them; those of other streams change nothing.
    """
    if not streams:
        return {}
    with begin() as uow:
        recorded = _recorded(streams, specs, uow)
    drafts = cache(partial(_drafts, private))
    found: dict[str, Exposure] = {}
    for one in recorded:
        with suppress(Unavailable):
            found[one.stream.name] = _compared(one, drafts, begin, clock, private)
    return found


def _recorded(streams: Sequence[Stream], specs: Iterable[PtkSpec], uow: CatalogView) -> list[_Recorded]:
    """Read it in as many statements for all streams as for one, and no window that has expired."""
    most = {one.name: 1 for one in streams}
    alive: dict[str, list[Window]] = {name: [] for name in most}
    progresses = uow.streams.progresses(list(most))
    for window in uow.windows.kept(list(most)):
        alive[window.id.stream].append(window)
    for spec in specs:
        if spec.stream in most:
            most[spec.stream] = max(most[spec.stream], spec.windows[1])
    return [_Recorded(one, progresses[one.name], tuple(alive[one.name]), most[one.name]) for one in streams]


def _drafts(private: PrivatePlaces) -> frozenset[str]:
    """The drafts that exist, of all streams."""
    return frozenset({*private.staging.drafts(), *private.keys.draft_ids()})


def _compared(
    recorded: _Recorded,
    drafts: Callable[[], Collection[str]],
    begin: Read,
    clock: Clock,
    private: PrivatePlaces,
) -> Exposure:
    """Look for files and keys after the catalog was read: a window that expires meanwhile is no remainder."""
    stream, progress, alive = recorded.stream, recorded.progress, recorded.alive
    policy = stream.policy
    if policy.on_devices:
        return _of_devices(stream, progress, private)
    reached = progress.reached
    if policy.closing is Closing.CLOCK:
        reached = max(reached, clock.now())
    allowed, by_clock = expired_before(policy, reached), expired_before(policy, clock.now())
    remains = _remains(recorded, drafts(), begin, private)
    oldest = min((window.id.index for window in alive), default=progress.closed_before)
    never_closed = range(progress.closed_before, allowed)  # the schedule has not come to them yet
    return Exposure(
        stream=stream.name,
        reached=reached,
        since=start_of(policy, min(oldest, *remains, progress.closed_before)),
        allowed_since=start_of(policy, allowed),
        kept=tuple(ExposedWindow(window, kept_until(policy, window.id.index)) for window in alive),
        open_since=start_of(policy, progress.closed_before),
        overdue=(*(w.id.index for w in alive if w.id.index < allowed), *never_closed),
        remains=remains,
        closing=policy.closing,
        past_by_clock=tuple(window.id.index for window in alive if window.id.index < by_clock)
        if policy.closing is Closing.OPERATOR
        else (),
        most_windows=recorded.most_windows,
        readable=policy.retention_windows * policy.window,
    )


def _remains(
    recorded: _Recorded, drafts: Collection[str], begin: Read, private: PrivatePlaces
) -> tuple[int, ...]:
    """The windows that have expired and of which something is found; the catalog is asked about those alone.

    A draft that was elected is public, and is none of it.
    """
    name = recorded.stream.name
    alive = {window.id for window in recorded.alive}

    def may_be_gone(window: WindowId) -> bool:
        closed = window.stream == name and window.index < recorded.progress.closed_before
        return closed and window not in alive

    rows = {one for one in (*private.raw.windows(name), *private.keys.windows(name)) if may_be_gone(one)}
    left = {draft: of for draft in drafts if (of := window_of(draft)) is not None and may_be_gone(of)}
    if not rows and not left:
        return ()
    with begin() as uow:
        windows = sorted(set(left.values()))
        elected = uow.versions.draft_ids(windows if len(windows) <= ASKED_AT_ONCE else None)
        found = {of.index for of in (*rows, *(left[draft] for draft in left.keys() - elected))}
        closed = uow.windows.between(name, min(found), max(found) + 1) if found else ()
    return tuple(one.id.index for one in closed if one.id.index in found and one.state is WindowState.EXPIRED)


def _of_devices(stream: Stream, progress: Progress, private: PrivatePlaces) -> Exposure:
    """No row, key or private draft is ever made. Averages that wait for their election are public, as reports are."""
    found = {*private.raw.windows(stream.name), *private.keys.windows(stream.name)}
    open_since = start_of(stream.policy, progress.closed_before)
    return Exposure(
        stream=stream.name,
        reached=progress.reached,
        since=open_since,
        allowed_since=open_since,
        kept=(),
        open_since=open_since,
        overdue=(),
        remains=tuple(sorted(window.index for window in found)),
        closing=stream.policy.closing,
        on_devices=True,
    )


def sentences_on(exposure: Exposure) -> tuple[str, ...]:
    """Say what is exposed, since when and until when, and what is wrong with that; the verdict comes first.

    A check that passes on a stream of an operator says nothing about the calendar, so the same sentence says that.
    """
    return (_verdict(exposure), *_sentences(exposure))


def _verdict(exposure: Exposure) -> str:
    if exposure.holds and exposure.on_devices:
        return "The exposure check holds: rows stay on devices, and no file or key of rows is here."
    if exposure.holds:
        return f"{_past(exposure)}The exposure check holds: files, keys and drafts of every expired window are gone."
    wrong = []
    if exposure.overdue:
        wrong.append(f"{windows_text(exposure.overdue)} should have expired and did not")
    if exposure.remains:
        wrong.append(f"files, keys or drafts are left of {windows_text(exposure.remains)}, which expired")
    return (
        f"{_past(exposure)}The exposure check fails: {'; '.join(wrong)}. Start the relay and the workers (ptk up), or "
        "close further."
    )


def _past(exposure: Exposure) -> str:
    """A line on what is kept longer than the calendar says; empty if nothing is."""
    count = len(exposure.past_by_clock)
    if not count:
        return ""
    kept = f"Rows of {count} window{'' if count == 1 else 's'} are kept past the calendar"
    return f"{kept}, because an operator closes this stream. "


def _sentences(exposure: Exposure) -> list[str]:
    if exposure.on_devices:
        return [
            "Devices send noisy reports alone. What the store can learn from a report is limited by report_epsilon; "
            "that a device took part, and when, is not hidden."
        ]
    kept = tuple(kept.window.id.index for kept in exposure.kept)
    what = f"{windows_text(kept)} and " if kept else ""
    sentences = [
        f"Exposed now: rows and drafts of events since {utc_text(exposure.since)}, in {what}the windows that are "
        f"still open, since {utc_text(exposure.open_since)}."
    ]
    if exposure.most_windows > 1:
        sentences.append(
            f"One training may read up to {exposure.most_windows} windows, so exposure is retention x window: rows can "
            f"be read for {duration_text(exposure.readable)} after their window has ended."
        )
    if exposure.closing is Closing.CLOCK:
        return [
            *sentences,
            f"The clock closes windows. Events before {utc_text(exposure.allowed_since)} must be gone by now.",
        ]
    sentences.append(
        "An operator closes windows, so rows never expire by the wall clock: they are kept until the operator closes "
        f"further than {utc_text(exposure.reached)}, whatever the retention."
    )
    if exposure.past_by_clock:
        sentences.append(f"By the wall clock, {windows_text(exposure.past_by_clock)} would have expired.")
    return sentences


def windows_text(numbers: Sequence[int]) -> str:
    """Window numbers in words, neighbours as a range."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    texts = [str(low) if low == high else f"{low} to {high}" for low, high in spans]
    return f"window{'' if len(numbers) == 1 else 's'} {', '.join(texts)}"
