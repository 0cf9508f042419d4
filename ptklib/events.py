"""The draws of releases, as data: the events that `ptklib.accounting` composes, and their one JSON form."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, Self

import numpy as np

from ptklib.exceptions import PrivacyParameterError
from ptklib.scalars import finite_number, is_integer


@dataclass(frozen=True, kw_only=True)
class Event:
    """One mechanism, or several, as a release uses them."""

    count: int | None = None
    """How often it happens. None is once, and is left out of the JSON form."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None or field.default is not None:
                object.__setattr__(self, field.name, _CHECKS[field.name](value, field.name))

    @classmethod
    def of(cls, value: object) -> "Event":
        """Return an event as it is, or read what `to_json` wrote.

        Raises
        ------
        PrivacyParameterError
            For anything else. A mechanism that this version does not know is read as `Unknown`, which cannot be
            composed.
        """
        if isinstance(value, Event):
            return value
        if not isinstance(value, Mapping):
            raise PrivacyParameterError("the event of a loss must be a mapping")
        kind = _KINDS.get(str(value.get("name")))
        if kind is None:
            return Unknown(text=_text(dict(value)))
        given = {name: part for name, part in value.items() if name != "name"}
        if odd := sorted(given.keys() - {field.name for field in fields(kind)}):
            raise PrivacyParameterError(f"the event {kind.__name__} has no field {', '.join(map(repr, odd))}")
        try:
            return kind(**given)
        except TypeError:
            lacking = [one.name for one in fields(kind) if one.name not in given and one.default is MISSING]
            raise PrivacyParameterError(
                f"the event {kind.__name__} needs the fields {', '.join(lacking)}"
            ) from None

    def to_json(self) -> dict[str, Any]:
        """Return the event as plain JSON values, without the fields that are None."""
        given = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {
            "name": type(self).__name__,
            **{name: _plain(value) for name, value in given if value is not None},
        }

    @property
    def times(self) -> int:
        """How often it happens."""
        return self.count or 1

    def once(self) -> Self:
        """Return one of its uses."""
        return replace(self, count=None)

    def parts(self) -> Sequence["Event"]:
        """Return the events that it consists of; none for a mechanism."""
        return ()

    def leaves(self, count: int = 1) -> Iterator[tuple["Event", int]]:
        """Yield the mechanisms in it, and how often each is used."""
        if not (parts := self.parts()) and not isinstance(self, Several):
            yield self, count * self.times
        for part in parts:
            yield from part.leaves(count * self.times)


@dataclass(frozen=True, kw_only=True)
class Unknown(Event):
    """A mechanism that this version does not know."""

    text: str
    """Its JSON form."""

    def to_json(self) -> dict[str, Any]:
        """Return the event as it was read."""
        document: dict[str, Any] = json.loads(self.text)
        return document


@dataclass(frozen=True, kw_only=True)
class Noise(Event):
    """Noise on an integer vector."""

    scale: float
    shape: tuple[int, ...] | None = None
    """How many values are drawn; None where nobody counts them."""


@dataclass(frozen=True, kw_only=True)
class LaplaceNoise(Noise):
    """Discrete Laplace noise."""

    l1_sensitivity: float
    """How far a unit moves the vector."""

    @property
    def epsilon(self) -> float:
        """Loss of one use, up to rounding."""
        return self.l1_sensitivity / self.scale


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplace(LaplaceNoise):
    """Discrete Laplace noise, and nothing else."""


@dataclass(frozen=True, kw_only=True)
class ThresholdedLaplace(LaplaceNoise):
    """Discrete Laplace noise on the counts of keys that nobody declared."""

    threshold: int
    """A key is released when its noisy counts add up to more."""
    delta: float
    """Bound of the probability that a unit makes a key appear which no other unit has."""


@dataclass(frozen=True, kw_only=True)
class GaussianNoise(Noise):
    """Discrete Gaussian noise."""

    l2_sensitivity: float
    """How far a unit moves the vector."""

    @property
    def ratio(self) -> float:
        """How many scales a unit moves the vector."""
        return self.l2_sensitivity / self.scale


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian(GaussianNoise):
    """Discrete Gaussian noise, and nothing else."""

    scale_beside_diagonal: float | None = None
    """Scale of the entries beside the diagonal, where the vector is the upper triangle of a symmetric matrix."""


@dataclass(frozen=True, kw_only=True)
class ThresholdedGaussian(GaussianNoise):
    """Discrete Gaussian noise on the counts of keys that nobody declared; fields as in `ThresholdedLaplace`."""

    threshold: int
    delta: float


@dataclass(frozen=True, kw_only=True)
class Selection(Event):
    """One choice among candidates by their scores."""

    scale: float
    sensitivity: int
    """How far a unit moves each score."""
    monotonic: bool
    """Whether one more row moves all scores in the same direction."""
    shape: tuple[int, ...] | None = None
    """Number of candidates."""


@dataclass(frozen=True, kw_only=True)
class PermuteAndFlip(Selection):
    """Noisy maximum with exponential noise."""


@dataclass(frozen=True, kw_only=True)
class ExponentialMechanism(Selection):
    """The exponential mechanism."""


@dataclass(frozen=True, kw_only=True)
class AboveThreshold(Event):
    """One noisy threshold, and any number of comparisons up to the first that is above."""

    threshold_scale: float
    value_scale: float
    """Of the noise on the threshold, and on each value."""
    sensitivity: int
    monotonic: bool
    """As in `Selection`, of the values."""


@dataclass(frozen=True, kw_only=True)
class EpsilonDelta(Event):
    """Any mechanism that is (epsilon, delta)-DP."""

    epsilon: float
    delta: float


@dataclass(frozen=True, kw_only=True)
class PoissonSampled(Event):
    """Noise on a sample in which each unit takes part by a coin of its own."""

    sampling_rate: float
    """Probability to take part, at most 1."""
    event: DiscreteGaussian
    """A count inside is on one and the same sample."""

    def parts(self) -> Sequence[Event]:
        """Return the noise."""
        return (self.event,)


@dataclass(frozen=True, kw_only=True)
class LocalReport(Event):
    """Noise that a device adds to its own report: no block of central rows pays for it, so it is never composed.

    Neighbours are any two tables of a device, not one row more. A reader of what the server makes of reports
    learns no more of a device than its report tells.
    """

    whole: Noise
    """Of all weights together."""
    one_weight: Noise
    """Of the noisy value of one weight, by itself."""


@dataclass(frozen=True, kw_only=True)
class Several(Event):
    """Several events."""

    events: tuple[Event, ...]

    def parts(self) -> Sequence[Event]:
        """Return them."""
        return self.events


@dataclass(frozen=True, kw_only=True)
class Composed(Several):
    """All of several events, each of them chosen in the light of earlier outputs."""


@dataclass(frozen=True, kw_only=True)
class Parallel(Several):
    """Events on disjoint parts of the data; each unit is in one of them, by itself alone."""


@dataclass(frozen=True, kw_only=True)
class OneOf(Several):
    """One of several events, chosen by earlier outputs."""


def composed(events: Sequence[Event]) -> Event:
    """Return events as one; a single event stays as it is."""
    return events[0] if len(events) == 1 else Composed(events=tuple(events))


_KINDS = {
    kind.__name__: kind
    for kind in (
        DiscreteLaplace,
        DiscreteGaussian,
        ThresholdedLaplace,
        ThresholdedGaussian,
        PermuteAndFlip,
        ExponentialMechanism,
        AboveThreshold,
        EpsilonDelta,
        PoissonSampled,
        LocalReport,
        Composed,
        Parallel,
        OneOf,
    )
}


def _text(value: object) -> str:
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError):
        raise PrivacyParameterError("the event of a loss must consist of JSON values") from None


def _plain(value: Any) -> Any:
    if isinstance(value, Event):
        return value.to_json()
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _any_number(value: object, name: str) -> float:
    finite_number(value, f"{name} of an event")
    return value.item() if isinstance(value, np.generic) else value  # type: ignore[return-value]


def _not_negative(value: object, name: str) -> float:
    number = _any_number(value, name)
    if number < 0:
        raise PrivacyParameterError(f"{name} of an event must not be negative")
    return number


def _positive(value: object, name: str) -> float:
    number = _not_negative(value, name)
    if number == 0:
        raise PrivacyParameterError(f"{name} of an event must be positive")
    return number


def _rate(value: object, name: str) -> float:
    rate = _positive(value, name)
    if rate > 1:
        raise PrivacyParameterError(f"{name} of an event must be at most 1")
    return rate


def _whole(value: object, name: str) -> int:
    if not is_integer(value) or value < 0:
        raise PrivacyParameterError(f"{name} of an event must be an integer, not negative")
    return int(value)


def _count(value: object, name: str) -> int:
    if not is_integer(value) or value < 1:
        raise PrivacyParameterError(f"the {name} of an event must be a positive integer")
    return int(value)


def _truth(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise PrivacyParameterError(f"{name} of an event must be a boolean")
    return value


def _string(value: object, _: str) -> str:
    return str(value)


def _sizes(value: object, name: str) -> tuple[int, ...]:
    if not isinstance(value, list | tuple):
        raise PrivacyParameterError(f"{name} of an event must be a list")
    return tuple(_whole(size, name) for size in value)


def _events(value: object, _: str) -> tuple[Event, ...]:
    if not isinstance(value, list | tuple):
        raise PrivacyParameterError("a composed event needs a list of events")
    return tuple(Event.of(one) for one in value)


def _gaussian(value: object, _: str) -> DiscreteGaussian:
    noise = Event.of(value)
    if not isinstance(noise, DiscreteGaussian):
        raise PrivacyParameterError("a Poisson-sampled event needs an event of discrete Gaussian noise")
    return noise


def _noise(value: object, name: str) -> Noise:
    noise = Event.of(value)
    if not isinstance(noise, DiscreteLaplace | DiscreteGaussian):
        raise PrivacyParameterError(f"{name} of a local report needs an event of discrete noise")
    return noise


_CHECKS: Mapping[str, Callable[[object, str], object]] = {
    "count": _count,
    "text": _string,
    "scale": _positive,
    "shape": _sizes,
    "l1_sensitivity": _positive,
    "l2_sensitivity": _positive,
    "scale_beside_diagonal": _positive,
    "threshold": _any_number,
    "delta": _not_negative,
    "epsilon": _not_negative,
    "sensitivity": _positive,
    "monotonic": _truth,
    "threshold_scale": _positive,
    "value_scale": _positive,
    "sampling_rate": _rate,
    "event": _gaussian,
    "whole": _noise,
    "one_weight": _noise,
    "events": _events,
}
"""How each field is checked: one name means the same in all events."""
