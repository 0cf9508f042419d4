"""Versions on a line of time as numbers that a template draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ptkstore.console.pages.shown import shown_time
from ptkstore.domain.versions.versions import repeated_version

WIDTH, HEIGHT, MARK = 640.0, 40.0, 6.0
ROLLED_BACK = "rolled-back"


@dataclass(frozen=True, slots=True)
class VersionMark:
    """One version: where it is on the line, how it came to be, and what it says of itself."""

    x: float
    kind: str
    label: str


@dataclass(frozen=True, slots=True)
class VersionLine:
    """Versions from the first to the last that are shown; `kinds` are how they came to be."""

    marks: tuple[VersionMark, ...]
    first: str
    last: str

    @property
    def kinds(self) -> frozenset[str]:
        """The ways in which these versions came to be."""
        return frozenset(one.kind for one in self.marks)


def version_line(contents: Sequence[Mapping[str, Any]]) -> VersionLine | None:
    """Draw versions by the time when they were published; None for fewer than two.

    Parameters
    ----------
    contents : sequence of Mapping
        Their manifests, the oldest first.
    """
    if len(contents) < 2:
        return None
    times = [datetime.fromisoformat(str(one["published_at"])) for one in contents]
    seconds = [(at - times[0]).total_seconds() for at in times]
    span = max(seconds)
    if span <= 0:  # published at once: in their order
        seconds, span = [float(number) for number in range(len(times))], float(len(times) - 1)
    marks = tuple(
        VersionMark(round((WIDTH - MARK) * min(max(at / span, 0.0), 1.0), 2), *_said(one))
        for at, one in zip(seconds, contents, strict=True)
    )
    return VersionLine(marks, *(shown_time(at.isoformat()) for at in (times[0], times[-1])))


def _said(content: Mapping[str, Any]) -> tuple[str, str]:
    """How a version came to be, and that in words."""
    repeated = repeated_version(content)
    words = str(content["release_decision"]) if repeated is None else f"rolled back to version {repeated}"
    kind = "elected" if repeated is None else ROLLED_BACK
    return kind, f"version {content['version']}, {shown_time(str(content['published_at']))}: {words}"
