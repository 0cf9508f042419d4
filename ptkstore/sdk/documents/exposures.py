"""Windows of a stream and what is kept of them, as documents of the HTTP API, and back again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from ptkstore.application.streams.exposure import ExposedWindow, Exposure
from ptkstore.domain.streams.policies import Closing
from ptkstore.domain.streams.windows import Window, WindowId, WindowState

Document = dict[str, Any]

_SECOND = timedelta(seconds=1)
_TIMES = ("reached", "since", "allowed_since", "open_since")


def window_document(window: Window) -> Document:
    """Write a window that has closed."""
    return {
        "window": window.id.index,
        "start": window.start.isoformat(),
        "end": window.end.isoformat(),
        "state": window.state.value,
    }


def window_of(stream: str, document: Mapping[str, Any]) -> Window:
    """Read the window that `window_document` wrote."""
    return Window(
        WindowId(stream, int(document["window"])),
        datetime.fromisoformat(document["start"]),
        datetime.fromisoformat(document["end"]),
        WindowState(document["state"]),
    )


def exposure_document(exposure: Exposure) -> Document:
    """Write what of a stream is kept that is no DP output."""
    return {
        "stream": exposure.stream,
        **{name: getattr(exposure, name).isoformat() for name in _TIMES},
        "kept": [{**window_document(kept.window), "until": kept.until.isoformat()} for kept in exposure.kept],
        "overdue": list(exposure.overdue),
        "remains": list(exposure.remains),
        "holds": exposure.holds,
        "closing": exposure.closing.value,
        "past_by_clock": list(exposure.past_by_clock),
        "most_windows": exposure.most_windows,
        "readable_seconds": exposure.readable // _SECOND,
        "on_devices": exposure.on_devices,
    }


def exposure_of(document: Mapping[str, Any]) -> Exposure:
    """Read the exposure that `exposure_document` wrote; an earlier service knows trainings on one window alone."""
    stream = str(document["stream"])
    return Exposure(
        stream,
        **{name: datetime.fromisoformat(document[name]) for name in _TIMES},
        kept=tuple(
            ExposedWindow(window_of(stream, one), datetime.fromisoformat(one["until"]))
            for one in document["kept"]
        ),
        overdue=tuple(document["overdue"]),
        remains=tuple(document["remains"]),
        closing=Closing(document["closing"]),
        past_by_clock=tuple(document["past_by_clock"]),
        most_windows=document.get("most_windows", 1),
        readable=document.get("readable_seconds", 0) * _SECOND,
        on_devices=document.get("on_devices", False),
    )
