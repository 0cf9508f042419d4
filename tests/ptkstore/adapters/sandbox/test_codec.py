from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import pytest

from ptkstore.adapters.sandbox.messages.codec import from_json, to_json


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Leaf:
    value: str | int | float | bool


@dataclass(frozen=True)
class Tree:
    name: str
    key: bytes
    share: float
    colour: Colour
    leaves: tuple[Leaf, ...]
    pair: tuple[str, int]
    files: Mapping[str, bytes] | None
    params: Mapping[str, Any]


TREE = Tree(
    "t",
    b"\0\xff",
    0.5,
    Colour.RED,
    (Leaf("1"), Leaf(1), Leaf(1.0), Leaf(True), Leaf(2**64)),
    ("a", 1),
    {"f": b""},
    {"a": [1, None, {"b": 0.1}]},
)


@pytest.mark.parametrize("tree", [TREE, replace(TREE, leaves=(), files=None, share=1)])
def test_a_value_comes_back_with_the_types_it_had(tree: Tree) -> None:
    back = from_json(Tree | None, to_json(tree))
    assert repr(back) == repr(tree)  # 1 == 1.0 == True
    assert from_json(Tree | None, to_json(None)) is None


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_is_no_number_is_not_written(number: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        to_json(replace(TREE, share=number))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", 7),
        ("name", None),
        ("key", "canary"),
        ("key", ["canary"]),
        ("share", "canary"),
        ("share", True),
        ("colour", "canary"),
        ("colour", ["canary"]),
        ("leaves", "canary"),
        ("leaves", [{"value": None}]),
        ("leaves", [{"value": 1, "canary": 2}]),
        ("leaves", [{}]),
        ("pair", ["canary"]),
        ("pair", ["canary", 1, 2]),
        ("pair", ["canary", True]),
        ("files", {"f": 1}),
        ("files", []),
        ("params", "canary"),
        ("canary", 1),
    ],
)
def test_what_has_another_form_is_refused_without_a_word_of_it(field: str, value: object) -> None:
    document = {**json.loads(to_json(TREE)), field: value}
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - it has no text
        from_json(Tree, json.dumps(document).encode())
    assert "canary" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "document", [b"", b"canary", b"\xff", b"[" * 100_000, b"[]", b"7", b"null", b"NaN", b"1e999"]
)
def test_what_is_no_document_is_refused_without_a_word_of_it(document: bytes) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - it has no text
        from_json(Tree, document)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
def test_what_is_no_number_is_not_read(number: bytes) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        from_json(float, number)
