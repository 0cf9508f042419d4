"""Declared events beside the draws that were made."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

from ptklib.mechanisms.recording import Draw

Expected = Counter[tuple[str, str]]


def drawn(draws: Iterable[Draw]) -> Counter[tuple[str, str]]:
    """Return how many values each mechanism noised at each scale."""
    return _counted((draw.mechanism, draw.scale, draw.size) for draw in draws)


def differences(event: Mapping[str, Any], draws: Iterable[Draw]) -> list[str]:
    """Return what an event declares and was not drawn, or was drawn and is not declared; empty when they agree.

    Notes
    -----
    Scales are compared to nine digits, sizes exactly. A symmetric matrix of n rows declares one scale on its
    diagonal and one beside it. `AboveThreshold` declares one noisy threshold, and comparisons without number. Of
    `OneOf`, the event that agrees best is compared.
    """
    made = drawn(draws)
    return min((_differences(one, made) for one in _ways(event)), key=len)


def _ways(event: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the event once for each way in which the choices inside it may fall."""
    parts = event.get("events", [])
    if event.get("name") == "OneOf":
        for part in parts:
            yield from _ways(part)
    elif parts:
        for chosen in product(*map(_ways, parts)):
            yield {**event, "events": list(chosen)}
    else:
        yield event


def _differences(event: Mapping[str, Any], made: Counter[tuple[str, str]]) -> list[str]:
    promised: Counter[tuple[str, str]] = Counter()
    free: set[tuple[str, str]] = set()
    said = []
    for part, count in leaves(event):
        if not _known(part):
            said.append(f"the event declares {part.get('name')!r}, which is no draw of ptklib.mechanisms")
            continue
        promised.update(_promised(part, count))
        if part["name"] == "AboveThreshold":
            free.add(("DiscreteLaplace", _digits(part["value_scale"])))
    for key in sorted((promised.keys() | made.keys()) - (free - promised.keys())):
        enough = made[key] >= promised[key] if key in free else made[key] == promised[key]
        if not enough:
            name, scale = key
            said.append(f"{name} at scale {scale}: declared {promised[key]} values, drew {made[key]}")
    return said


def leaves(event: Mapping[str, Any], count: int = 1) -> Iterable[tuple[Mapping[str, Any], int]]:
    """Yield the parts of an event that are no composition, and how often each is used."""
    times = count * int(event.get("count", 1))
    if "events" in event:
        for part in event["events"]:
            yield from leaves(part, times)
    elif isinstance(event.get("event"), Mapping):
        yield from leaves(event["event"], times)
    else:
        yield event, times


def _known(event: Mapping[str, Any]) -> bool:
    return ("scale" in event and "shape" in event) or event.get("name") == "AboveThreshold"


def _promised(event: Mapping[str, Any], count: int) -> Counter[tuple[str, str]]:
    name = event["name"]
    if name == "AboveThreshold":
        return _counted([("DiscreteLaplace", event["threshold_scale"], count)])
    size, beside = prod(event["shape"]), event.get("scale_beside_diagonal")
    if beside is None:
        return _counted([(name, event["scale"], size * count)])
    n = int((2 * size) ** 0.5)  # n (n + 1) / 2 entries
    return _counted([(name, event["scale"], n * count), (name, beside, (size - n) * count)])


def _counted(draws: Iterable[tuple[str, float, int]]) -> Counter[tuple[str, str]]:
    total: Counter[tuple[str, str]] = Counter()
    for name, scale, size in draws:
        total[name, _digits(scale)] += size
    return total


def _digits(scale: float) -> str:
    return f"{scale:.9g}"
