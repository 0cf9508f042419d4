"""A directed graph as numbers that a template draws: layers from the top down, arrows that cross no node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

WIDTH = 340.0
HEIGHT, GAP = 46.0, 36.0
MARGIN, BETWEEN = 4.0, 10.0
WIDEST, BEND = 290.0, 8.0
TITLE_LETTER, NOTE_LETTER = 7.6, 6.4  # widths, at the sizes of their texts
HEAD = 6.0


@dataclass(frozen=True, slots=True)
class Node:
    """One thing; `note` says more about it, and `href` leads to its page, where it has one."""

    key: str
    kind: str
    title: str
    note: str = ""
    href: str = ""
    here: bool = False


@dataclass(frozen=True, slots=True)
class Box:
    """A node as drawn: its place, and its words as far as they fit."""

    node: Node
    x: float
    y: float
    width: float
    title: str
    note: str


@dataclass(frozen=True, slots=True)
class Arrow:
    """An edge as drawn: the path of its line, and that of its head."""

    line: str
    head: str


@dataclass(frozen=True, slots=True)
class Graph:
    """A drawing of a height, and its text form: each node with the titles of those that it comes from."""

    height: float
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    rows: tuple[tuple[Node, tuple[str, ...]], ...]


def drawn(nodes: Sequence[Node], edges: Iterable[tuple[str, str]]) -> Graph:
    """Draw nodes and the edges between them, pairs of keys.

    An edge of an unknown node, one that is there twice and one that would close a circle are left out.
    """
    known = {one.key: one for one in nodes}
    before = _acyclic(list(known), [(a, b) for a, b in edges if a in known and b in known])
    layer_of = _layers(list(known), before)
    layers, chains = _with_bends(list(known), before, layer_of)
    _untangle(layers, chains)
    boxes, places = _placed(layers, known)
    arrows = tuple(_arrow(chain, places) for chain in chains)
    order = [key for layer in layers for key in layer if key in known]
    rows = tuple((known[key], tuple(known[one].title for one in before[key])) for key in order)
    height = len(layers) * (HEIGHT + GAP) - GAP + 2 * MARGIN if layers else 0.0
    return Graph(round(height, 2), boxes, arrows, rows)


def _acyclic(keys: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """The nodes that lead to each node, without circles."""
    before: dict[str, list[str]] = {key: [] for key in keys}
    for a, b in edges:
        if a not in before[b] and not _leads_to(b, a, before):
            before[b].append(a)
    return before


def _leads_to(start: str, end: str, before: Mapping[str, Sequence[str]]) -> bool:
    """Whether there is a way from one node to another, or they are one."""
    waiting, seen = [end], {end}
    while waiting:
        key = waiting.pop()
        if key == start:
            return True
        new = [one for one in before[key] if one not in seen]
        seen.update(new)
        waiting += new
    return False


def _layers(keys: Sequence[str], before: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """The layer of each node: below all that lead to it, and sources just above what they lead to."""
    layer: dict[str, int] = {}
    while len(layer) < len(keys):  # each round settles one layer at least
        for key in keys:
            if key not in layer and all(one in layer for one in before[key]):
                layer[key] = max((layer[one] + 1 for one in before[key]), default=0)
    after: dict[str, list[str]] = {key: [] for key in keys}
    for key in keys:
        for one in before[key]:
            after[one].append(key)
    for key in keys:
        if not before[key] and after[key]:
            layer[key] = min(layer[one] for one in after[key]) - 1
    return layer


def _with_bends(
    keys: Sequence[str], before: Mapping[str, Sequence[str]], layer_of: Mapping[str, int]
) -> tuple[list[list[str]], list[list[str]]]:
    """The layers with a bend in each that an edge passes through, and each edge as the chain of its bends."""
    layers: list[list[str]] = [[] for _ in range(max(layer_of.values(), default=-1) + 1)]
    for key in keys:
        layers[layer_of[key]].append(key)
    chains = []
    for key in keys:
        for one in before[key]:
            bends = [
                f"{one}\n{key}\n{number}" for number in range(layer_of[one] + 1, layer_of[key])
            ]  # no key has a line break
            for number, bend in enumerate(bends, layer_of[one] + 1):
                layers[number].append(bend)
            chains.append([one, *bends, key])
    return layers, chains


def _untangle(layers: list[list[str]], chains: Sequence[Sequence[str]]) -> None:
    """Order each layer by where the ends of its edges are, so that few edges cross."""
    above: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for chain in chains:
        for a, b in pairwise(chain):
            above.setdefault(b, []).append(a)
            below.setdefault(a, []).append(b)
    for _ in range(4):
        for some, beside in ((layers[1:], above), (layers[-2::-1], below)):
            for layer in some:
                place = {
                    key: number / max(len(one) - 1, 1) for one in layers for number, key in enumerate(one)
                }
                centre = {
                    key: sum(place[one] for one in beside[key]) / len(beside[key])
                    if key in beside
                    else place[key]
                    for key in layer
                }
                layer.sort(key=lambda key: centre[key])


def _placed(
    layers: Sequence[Sequence[str]], known: Mapping[str, Node]
) -> tuple[tuple[Box, ...], dict[str, tuple[float, float, float]]]:
    """Boxes in rows, and of each node and bend the middle and its upper and lower end."""
    boxes, places = [], {}
    for number, layer in enumerate(layers):
        y = MARGIN + number * (HEIGHT + GAP)
        n_nodes = sum(key in known for key in layer)
        free = WIDTH - 2 * MARGIN - BETWEEN * (len(layer) - 1) - BEND * (len(layer) - n_nodes)
        width = min(free / max(n_nodes, 1), WIDEST)
        x = (WIDTH - (width * n_nodes + BEND * (len(layer) - n_nodes) + BETWEEN * (len(layer) - 1))) / 2
        for key in layer:
            wide = width if key in known else BEND
            if key in known:
                node = known[key]
                box = Box(
                    node,
                    round(x, 2),
                    y,
                    round(wide, 2),
                    _cut(node.title, wide / TITLE_LETTER),
                    _cut(node.note, wide / NOTE_LETTER),
                )
                boxes.append(box)
            places[key] = (x + wide / 2, y, y + HEIGHT)
            x += wide + BETWEEN
    return tuple(boxes), places


def _cut(text: str, letters: float) -> str:
    most = max(int(letters) - 1, 2)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _arrow(chain: Sequence[str], places: Mapping[str, tuple[float, float, float]]) -> Arrow:
    """A line from the lower end of the first node to the upper end of the last, through all bends."""
    x, _, y = places[chain[0]]
    parts = [f"M{x:.1f} {y:.1f}"]
    for key in chain[1:]:
        to_x, top, bottom = places[key]
        is_last = key == chain[-1]
        end = top - HEAD if is_last else top
        half = (end - y) / 2
        parts.append(f"C{x:.1f} {y + half:.1f} {to_x:.1f} {end - half:.1f} {to_x:.1f} {end:.1f}")
        if not is_last:
            parts.append(f"V{bottom:.1f}")
        x, y = to_x, bottom
        tip = top
    return Arrow(
        "".join(parts),
        f"M{x - 4:.1f} {tip - HEAD - 1:.1f}L{x:.1f} {tip:.1f}L{x + 4:.1f} {tip - HEAD - 1:.1f}Z",
    )
