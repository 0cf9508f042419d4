"""Declared events beside the draws that were made."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

from ptklib.events import AboveThreshold, DiscreteGaussian, Event, Noise, OneOf, Selection, Several
from ptklib.mechanisms.recording import Draw

Expected = Counter[tuple[str, str]]


def drawn(draws: Iterable[Draw]) -> Counter[tuple[str, str]]:
    """Return how many values each mechanism noised at each scale."""
    return _tally((draw.mechanism, draw.scale, draw.size) for draw in draws)


def differences(event: Event | Mapping[str, Any], draws: Iterable[Draw]) -> list[str]:
    """Return what an event declares and was not drawn, or was drawn and is not declared; empty when they agree.

    Notes
    -----
    Scales are compared to nine digits, sizes exactly. A symmetric matrix of n rows declares one scale on its
    diagonal and one beside it. `AboveThreshold` declares one noisy threshold, and comparisons without number. Of
    `OneOf`, the event that agrees best is compared.
    """
    made = drawn(draws)
    return min((_differences(one, made) for one in _ways(Event.of(event))), key=len)


def _ways(event: Event) -> Iterator[Event]:
    """Yield the event once for each way in which the choices inside it may fall."""
    if isinstance(event, OneOf):
        for part in event.events:
            yield from _ways(part)
    elif isinstance(event, Several):
        for chosen in product(*map(_ways, event.events)):
            yield replace(event, events=chosen)
    else:
        yield event


def _differences(event: Event, made: Counter[tuple[str, str]]) -> list[str]:
    promised: Counter[tuple[str, str]] = Counter()
    free: set[tuple[str, str]] = set()
    said = []
    for part, count in event.leaves():
        match part:
            case AboveThreshold():
                promised.update(_tally([("DiscreteLaplace", part.threshold_scale, count)]))
                free.add(("DiscreteLaplace", _digits(part.value_scale)))
            case Noise(shape=tuple()) | Selection(shape=tuple()):
                promised.update(_promised(part, count))
            case _:
                said.append(
                    f"the event declares {part.to_json()['name']!r}, which is no draw of ptklib.mechanisms"
                )
    for key in sorted((promised.keys() | made.keys()) - (free - promised.keys())):
        enough = made[key] >= promised[key] if key in free else made[key] == promised[key]
        if not enough:
            name, scale = key
            said.append(f"{name} at scale {scale}: declared {promised[key]} values, drew {made[key]}")
    return said


def _promised(event: Noise | Selection, count: int) -> Counter[tuple[str, str]]:
    name, size = type(event).__name__, prod(event.shape or ())
    beside = event.scale_beside_diagonal if isinstance(event, DiscreteGaussian) else None
    if beside is None:
        return _tally([(name, event.scale, size * count)])
    n = int((2 * size) ** 0.5)  # n (n + 1) / 2 entries
    return _tally([(name, event.scale, n * count), (name, beside, (size - n) * count)])


def _tally(draws: Iterable[tuple[str, float, int]]) -> Counter[tuple[str, str]]:
    total: Counter[tuple[str, str]] = Counter()
    for name, scale, size in draws:
        total[name, _digits(scale)] += size
    return total


def _digits(scale: float) -> str:
    return f"{scale:.9g}"
