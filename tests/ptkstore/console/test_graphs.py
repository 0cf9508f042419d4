"""A drawing of a graph has each node once, arrows that go down, and a text form; whatever the graph is."""

from __future__ import annotations

import random
import re
from itertools import combinations

import pytest

from ptkstore.console.graphs import HEIGHT, WIDTH, Graph, Node, drawn


def nodes(*keys: str) -> list[Node]:
    return [Node(key, "thing", f"title of {key}") for key in keys]


def points(path: str) -> list[tuple[float, float]]:
    """Where a line ends after each of its parts; of a curve only that, of a vertical line with its x."""
    found: list[tuple[float, float]] = []
    for letter, numbers in re.findall(r"([MCV])([-0-9. ]+)", path):
        values = [float(one) for one in numbers.split()]
        found.append((found[-1][0], values[0]) if letter == "V" else (values[-2], values[-1]))
    return found


def along(path: str) -> list[tuple[float, float]]:
    """Many places on a line, its curves as they are drawn."""
    found: list[tuple[float, float]] = []
    for letter, numbers in re.findall(r"([MCV])([-0-9. ]+)", path):
        values = [float(one) for one in numbers.split()]
        if letter != "C":
            found.append((found[-1][0], values[0]) if letter == "V" else (values[0], values[1]))
            continue
        ends = [found[-1], *zip(values[::2], values[1::2], strict=True)]
        for step in range(1, 41):
            t = step / 40
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            x, y = (sum(w * end[axis] for w, end in zip(weights, ends, strict=True)) for axis in (0, 1))
            found.append((x, y))
    return found


def ends(graph: Graph) -> set[tuple[str, str]]:
    """The keys that each arrow leads from and to, by where it touches boxes."""
    found = set()
    for arrow in graph.arrows:
        (x, y), tip = points(arrow.line)[0], re.findall(r"L([-0-9.]+) ([-0-9.]+)L", arrow.head)[0]
        (start,) = (
            one for one in graph.boxes if one.x <= x <= one.x + one.width and abs(one.y + HEIGHT - y) < 0.1
        )
        (end,) = (
            one
            for one in graph.boxes
            if one.x <= float(tip[0]) <= one.x + one.width and abs(one.y - float(tip[1])) < 0.1
        )
        found.add((start.node.key, end.node.key))
    return found


def test_edges_go_down_from_node_to_node() -> None:
    edges = [("a", "b"), ("b", "c"), ("a", "c"), ("d", "c")]
    graph = drawn(nodes("a", "b", "c", "d"), edges)
    y = {box.node.key: box.y for box in graph.boxes}
    assert y["a"] < y["b"] == y["d"] < y["c"]  # d just above what it leads to
    assert ends(graph) == set(edges)
    assert [(node.key, titles) for node, titles in graph.rows if node.key in "bc"] == [
        ("b", ("title of a",)),
        ("c", ("title of b", "title of a", "title of d")),
    ]


def test_what_cannot_be_drawn_is_left_out() -> None:
    edges = [("a", "b"), ("a", "b"), ("b", "a"), ("a", "a"), ("a", "none"), ("none", "a")]
    assert ends(drawn(nodes("a", "b"), edges)) == {("a", "b")}
    assert len(drawn(nodes("a", "b"), edges).arrows) == 1
    circle = drawn(nodes("a", "b", "c"), [("a", "b"), ("b", "c"), ("c", "a")])
    assert ends(circle) == {("a", "b"), ("b", "c")}
    assert drawn([], []) == Graph(0.0, (), (), ())
    assert len(drawn(nodes("a"), []).boxes) == 1


@pytest.mark.parametrize("seed", range(20))
def test_boxes_stay_apart_and_no_arrow_crosses_one(seed: int) -> None:
    draw = random.Random(seed)
    keys = [f"n{number}" for number in range(draw.randint(2, 14))]
    edges = [pair for pair in combinations(keys, 2) if draw.random() < 0.25]
    graph = drawn(nodes(*keys), edges)
    assert {box.node.key for box in graph.boxes} == set(keys)
    assert ends(graph) == set(edges)
    for one in graph.boxes:
        assert one.x >= 0
        assert one.x + one.width <= WIDTH + 0.01
        assert one.y + HEIGHT <= graph.height
    for one, other in combinations(graph.boxes, 2):
        if one.y == other.y:
            assert one.x + one.width < other.x or other.x + other.width < one.x
    for arrow in graph.arrows:
        line = points(arrow.line)
        assert [y for _, y in line] == sorted(y for _, y in line)
        for x, y in along(arrow.line):
            inside = [one for one in graph.boxes if one.x <= x <= one.x + one.width]
            assert not any(one.y + 0.1 < y < one.y + HEIGHT - 0.1 for one in inside)


def test_layers_are_ordered_so_that_edges_do_not_cross() -> None:
    edges = [("a", "d"), ("b", "c"), ("c", "f"), ("d", "e")]
    graph = drawn(nodes("a", "b", "c", "d", "e", "f"), edges)
    x = {box.node.key: box.x for box in graph.boxes}
    assert (x["a"] < x["b"]) == (x["d"] < x["c"]) == (x["e"] < x["f"])


def test_long_words_are_cut_to_their_box() -> None:
    long = Node("a", "thing", "x" * 200, "y" * 200)
    (box,) = drawn([long], []).boxes
    assert box.title.endswith("…")
    assert box.note.endswith("…")
    assert len(box.title) * 7.6 < box.width > len(box.note) * 6.4
    assert drawn([Node("a", "thing", "short")], []).boxes[0].title == "short"
    assert box.node.title == "x" * 200
