"""How much a device may lose: what a person allows it, and what a stream takes."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from ptklib.exceptions import InvalidParameterError
from ptklib.names import check_name
from ptklib.scalars import finite_number, whole_number

SECONDS_MAX = 366 * 86400


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The loss that a person allows to a device.

    Parameters
    ----------
    report_epsilon : float
        Most that one report may lose, for the whole model.
    reports_per_window : int
        Reports to one stream in one of its windows, and to all streams together in `window_seconds`.
    reports_in_all : int
        Reports to all streams together, ever.
    columns : sequence of str
        Columns that a specification may name, the label included.
    report_delta : float, default 0
        Most delta of one report. Gaussian noise needs more than 0.
    window_seconds : int, default 3600
        Reports that are closer than this, by the device's own clock, count as reports of one window, whatever a
        server calls a window.

    Raises
    ------
    InvalidParameterError
        When a limit is no number, or out of range.
    """

    report_epsilon: float
    reports_per_window: int
    reports_in_all: int
    columns: Sequence[str]
    report_delta: float = 0.0
    window_seconds: int = 3600

    def __post_init__(self) -> None:
        kept = _stream_limits(self.report_epsilon, self.reports_per_window, self.reports_in_all)
        for name, value in kept.items():
            object.__setattr__(self, name, value)
        delta = finite_number(self.report_delta, "report_delta", InvalidParameterError)
        if not 0 <= delta < 1:
            raise InvalidParameterError("report_delta must be in [0, 1)")
        if isinstance(self.columns, str) or not isinstance(self.columns, Sequence):
            raise InvalidParameterError("columns must be a list of names")
        names = {check_name(name, "a column") for name in self.columns}
        object.__setattr__(self, "columns", tuple(sorted(names)))
        object.__setattr__(self, "report_delta", delta)
        seconds = whole_number(self.window_seconds, "window_seconds", 0, SECONDS_MAX)
        object.__setattr__(self, "window_seconds", seconds)

    def to_json(self) -> dict[str, Any]:
        """Return the limits as plain JSON values."""
        return asdict(self) | {"columns": list(self.columns)}

    @classmethod
    def from_json(cls, document: object) -> Self:
        """Read what `to_json` wrote."""
        return cls(**fields_of(document, cls))


@dataclass(frozen=True, kw_only=True)
class StreamLimits:
    """The reports that a stream takes from one device; fixed for the life of a stream."""

    report_epsilon: float
    reports_per_window: int
    reports_in_all: int

    def __post_init__(self) -> None:
        kept = _stream_limits(self.report_epsilon, self.reports_per_window, self.reports_in_all)
        for name, value in kept.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_json(cls, document: object) -> Self:
        """Read the fields of a JSON object."""
        return cls(**fields_of(document, cls))


def fields_of(document: object, cls: type[Any]) -> dict[str, Any]:
    """Return a JSON object that has exactly the fields of a class."""
    names = [one.name for one in fields(cls)]
    if not isinstance(document, Mapping) or set(document) != set(names):
        raise InvalidParameterError(f"{cls.__name__} has the fields {', '.join(names)}")
    return dict(document)


def _stream_limits(epsilon: object, per_window: object, in_all: object) -> dict[str, Any]:
    number = finite_number(epsilon, "report_epsilon", InvalidParameterError)
    if number < 0:
        raise InvalidParameterError("report_epsilon must not be negative")
    return {
        "report_epsilon": number,
        "reports_per_window": whole_number(per_window, "reports_per_window", 0, 2**31),
        "reports_in_all": whole_number(in_all, "reports_in_all", 0, 2**31),
    }
