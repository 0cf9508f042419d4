"""Texts that cannot be stored or shown are found wherever they are in a document."""

from __future__ import annotations

import pytest

from ptkstore.domain.texts import check_texts
from ptkstore.errors import InvalidRequest


@pytest.mark.parametrize(
    "value", ["tab\tline\nend\r", {"a": [1, 2.5, True, None]}, ["é", "日本"], 7, ("x", {"y": ["z"]})]
)
def test_usual_documents_pass(value: object) -> None:
    check_texts("config", value)


@pytest.mark.parametrize(
    ("value", "character"),
    [
        ("nul\x00", "U+0000"),
        ({"ke\x1by": 1}, "U+001B"),
        ({"a": {"b": ["fine", "\ud800"]}}, "U+D800"),
        ([1, ("deep", "\x9b")], "U+009B"),
    ],
)
def test_an_odd_character_is_named_and_its_text_is_not(value: object, character: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_texts("config", value)
    assert str(refused.value) == (
        f"config: a text has the character {character}, which cannot be stored or shown"
    )
