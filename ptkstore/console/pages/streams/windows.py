"""The windows of a stream: which are open, closed and expired, what is stored now, and which versions they made."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ptkstore.application.identity.authorize import Named
from ptkstore.application.streams.exposure import Exposure, sentences_on
from ptkstore.application.streams.read_time_line import Stage, TimedWindows, TimeLine
from ptkstore.console.pages.reads import Reads
from ptkstore.console.pages.shown import formed, shown_time
from ptkstore.console.time_lines import time_line_marks
from ptkstore.domain.identity import Action, Principal
from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.streams.windows import INDEX_MAX
from ptkstore.errors import Unavailable, UnknownName

VERSIONS_SHOWN = 50
STAGES = {
    Stage.OPEN: "takes rows",
    Stage.CLOSING: "has ended, and takes late rows until it closes",
    Stage.CLOSED: "takes no more rows, and is trained on",
    Stage.EXPIRING: "is opened no more, and its rows are being deleted",
    Stage.EXPIRED: "its rows and their key are gone",
}


ON_DEVICES = {
    Stage.OPEN: "devices may report for it",
    Stage.CLOSING: "has ended, and is about to close",
    Stage.CLOSED: "no report for it counts any more",
    Stage.EXPIRING: "no report for it counts any more",
    Stage.EXPIRED: "no report for it counts any more",
}


class StreamWindows(Reads):
    """A stream's windows, and the versions that the rows of one went into."""

    def window(self, who: Principal, name: str, window: str) -> dict[str, Any]:
        """Show a window, and the versions that its rows went into."""
        named = Named(stream=formed("stream", name))
        self._identity.permit(who, Action.STATE_TRACE, named)
        number = _number(window)
        if number is None:
            raise UnknownName("window", "?")
        found = self._service.trace_window(name, number, limit=VERSIONS_SHOWN + 1)
        line = None
        if self._may(who, Action.EXPOSURE_READ, named):
            line = self._service.time_line(name, 1, number + 1)
        shown = [one for one in (line.windows if line else ()) if one.first == number]
        return {
            "name": name,
            "window": number,
            "timed": _row(shown[0], frozenset()) if shown else None,
            "versions": found[:VERSIONS_SHOWN],
            "more": len(found) > VERSIONS_SHOWN,
        }

    def _exposed(self, name: str) -> Exposure | None:
        """What of the stream is stored that is no DP output; None while a store is away."""
        try:
            return self._service.exposure(name)
        except Unavailable:
            return None


def exposure_card(name: str, exposure: Exposure | None) -> dict[str, Any] | None:
    """Return what is exposed of a stream, in sentences."""
    if exposure is None:
        return None
    verdict, *sentences = sentences_on(exposure)
    return {"stream": name, "holds": exposure.holds, "verdict": verdict, "told": sentences}


def windows_card(line: TimeLine, policy: Policy, exposure: Exposure | None) -> dict[str, Any]:
    """Return the windows as a drawing, with a legend and a table of the same."""
    remains = frozenset(exposure.remains if exposure else ())
    exposed = frozenset(
        one.first
        for one in line.windows
        if not policy.on_devices and (one.stage is not Stage.EXPIRED or one.first in remains)
    )
    rows = [_row(one, exposed) for one in line.windows]
    stages = [stage for stage in STAGES if any(one.stage is stage for one in line.windows)]
    return {
        "marks": time_line_marks(line.windows, [row["label"] for row in rows], exposed),
        "rows": rows[::-1],
        "legend": [(one.value, (ON_DEVICES if policy.on_devices else STAGES)[one]) for one in stages],
        "says": _says(line),
        "traced": any(one.versions is not None for one in line.windows),
        "exposed": len(exposed),
        "on_devices": policy.on_devices,
        "first": rows[0]["start"] if rows else "",
        "last": rows[-1]["start"] if rows else "",
    }


def before_in(query: Mapping[str, Sequence[str]]) -> int | None:
    """Return the window that the page ends before; None for the newest."""
    return _number(query.get("before", [""])[0])


def _number(text: str) -> int | None:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
    return number if number is not None and number <= INDEX_MAX else None


def _says(line: TimeLine) -> str:
    """Which windows are shown, and of how many."""
    count = line.below - line.first
    if not line.closed_before:
        return "No window has closed yet."
    if count == line.closed_before:
        return f"All {count} windows that closed." if count > 1 else "The one window that closed."
    return f"Windows {line.first} to {line.below - 1} of {line.closed_before} that closed."


def _row(one: TimedWindows, exposed: Collection[int]) -> dict[str, Any]:
    several = one.last is None or one.last > one.first
    name = str(one.first)
    if several:
        name = f"{one.first} and later" if one.last is None else f"{one.first} to {one.last}"
    start = shown_time(one.start.isoformat())
    end = shown_time(one.end.isoformat()) if one.end else ""
    stored = one.first in exposed
    label = f"window {name}: {one.stage.value}, from {start}{f' to {end}' if end else ''}"
    return {
        "name": name,
        "number": None if one.versions is None else one.first,
        "start": start,
        "end": end,
        "stage": one.stage.value,
        "means": STAGES[one.stage],
        "stored": stored,
        "until": shown_time(one.until.isoformat()) if one.until else "",
        "versions": one.versions,
        "label": f"{label}{'; rows are stored' if stored else ''}",
    }
