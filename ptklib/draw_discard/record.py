"""The record of an odometer: reports, their losses together, and the text that they are written as."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Self

from ptklib.draw_discard.limits import Limits, StreamLimits, fields_of
from ptklib.exceptions import InvalidParameterError
from ptklib.scalars import finite_number, float_above, whole_number

FORMAT = "ptk-odometer/1"


@dataclass(frozen=True, kw_only=True)
class Report:
    """One report, as the odometer keeps it.

    Parameters
    ----------
    at : datetime
        By the device's clock.
    server, stream, ptk : str
    window : int
        Number that the server gave the window.
    window_ends : datetime
        End that it gave it.
    specification : str
        Digest.
    epsilon, delta : float
        Loss of the whole report.
    limits : StreamLimits
        The stream's own description.
    """

    at: datetime
    server: str
    stream: str
    ptk: str
    window: int
    window_ends: datetime
    specification: str
    epsilon: float
    delta: float
    limits: StreamLimits

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        times = {"at": _written(self.at), "window_ends": _written(self.window_ends)}
        return asdict(self) | times

    @classmethod
    def from_json(cls, document: object) -> Self:
        """Read what `to_json` wrote."""
        given = fields_of(document, cls)
        for name in ("server", "stream", "ptk", "specification"):
            if not isinstance(given[name], str):
                raise InvalidParameterError(f"{name} must be a text")
        for name in ("at", "window_ends"):
            given[name] = moment(given[name])
        for name in ("epsilon", "delta"):
            given[name] = finite_number(given[name], name, InvalidParameterError)
        given["window"] = whole_number(given["window"], "window", 0, 2**53)
        given["limits"] = StreamLimits.from_json(given["limits"])
        return cls(**given)


@dataclass(frozen=True, slots=True)
class Loss:
    """The joint loss of some reports, by basic composition: epsilons and deltas add up."""

    reports: int
    epsilon: float
    delta: float

    @classmethod
    def of(cls, reports: Sequence[Report]) -> Self:
        """Return the loss of reports; sums are rounded up."""
        epsilon, delta = (
            sum((Fraction(getattr(one, name)) for one in reports), Fraction()) for name in _LOSS
        )
        return cls(len(reports), float_above(epsilon), float_above(delta))


_LOSS = ("epsilon", "delta")


@dataclass(frozen=True)
class Record:
    """The content of an odometer's file.

    Parameters
    ----------
    number : int
        How often the file was written.
    previous : str
        SHA-256 of the text before; empty for the first.
    limits : Limits or None
        The limits that the person allows; None if nobody was asked yet.
    reports : tuple of Report
        In the order in which they were sent.
    """

    number: int = 0
    previous: str = ""
    limits: Limits | None = None
    reports: tuple[Report, ...] = field(default=())

    def in_all(self) -> Loss:
        """Return the loss of all reports."""
        return Loss.of(self.reports)

    def by(self, *names: str) -> dict[tuple[Any, ...], Loss]:
        """Return the losses of reports that agree in these fields, for example ``by("server", "stream")``.

        Notes
        -----
        :Guarantee: basic composition. It is valid for reports of one device to several PTKs, too, as each may
            follow from the others.
        """
        groups: dict[tuple[Any, ...], list[Report]] = {}
        for report in self.reports:
            groups.setdefault(tuple(getattr(report, name) for name in names), []).append(report)
        return {key: Loss.of(reports) for key, reports in groups.items()}

    @property
    def text(self) -> str:
        """The text of the file."""
        document = {
            "format": FORMAT,
            "number": self.number,
            "previous": self.previous,
            "limits": None if self.limits is None else self.limits.to_json(),
            "lost": asdict(self.in_all()),
            "reports": [report.to_json() for report in self.reports],
        }
        return json.dumps(document, indent=1, allow_nan=False) + "\n"

    @classmethod
    def of_text(cls, octets: bytes) -> Self:
        """Read the text of a file; InvalidParameterError unless it is one that `text` writes."""
        try:
            document = json.loads(octets)
        except (ValueError, RecursionError):
            raise InvalidParameterError("the file is no JSON") from None
        names = {"format", "number", "previous", "limits", "lost", "reports"}
        if not isinstance(document, dict) or set(document) != names or document["format"] != FORMAT:
            raise InvalidParameterError(f"the file has not the fields of {FORMAT}")
        reports, limits, previous = (document[name] for name in ("reports", "limits", "previous"))
        if not isinstance(reports, list) or not isinstance(previous, str):
            raise InvalidParameterError("the file has a field of another type")
        record = cls(
            whole_number(document["number"], "number", 1, 10**12 - 1),
            previous,
            None if limits is None else Limits.from_json(limits),
            tuple(map(Report.from_json, reports)),
        )
        if record.text.encode() != octets:
            raise InvalidParameterError("the file is not as it was written")
        return record


def moment(text: object) -> datetime:
    """Read a time in ISO 8601 with its offset, to whole seconds, in UTC."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) and len(text) <= 40 else None
        if found is not None and found.tzinfo is not None:
            return found.astimezone(UTC).replace(microsecond=0)
    except (ValueError, OverflowError):
        pass
    raise InvalidParameterError("a time must be written in ISO 8601 with its offset")


def _written(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="seconds")
