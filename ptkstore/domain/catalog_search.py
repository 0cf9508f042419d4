"""Search of the catalog: words that a PTK has, and what a search that finds nothing may have meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ptkstore.domain.near_names import near_names
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.ptks.views import columns_of, views_of

WORDS_MOST = 10
"""Words of a search that are looked for."""
LETTERS_LEAST = 4
"""A shorter word is corrected to nothing: too many are near it."""


def words_of(text: str) -> list[str]:
    """Return the words of a search, in small letters."""
    return text.lower().split()[:WORDS_MOST]


def has_words(spec: PtkSpec, words: Sequence[str]) -> bool:
    """Return whether a PTK has all of these words; its text is made once, and only where something is looked for."""
    if not words:
        return True
    text = _text(spec)
    return all(word in text for word in words)


def features_in(spec: PtkSpec) -> list[str]:
    """Return the features of a PTK, in all its views."""
    return [name for table in views_of(spec).values() for name in columns_of(spec, table)]


def near_ptks(text: str, specs: Sequence[PtkSpec]) -> list[str]:
    """Return ids of PTKs that a text may have been meant to find: by their names, then by those of their features."""
    by_name: dict[str, str] = {}
    for spec in specs:
        by_name |= {spec.ptk_id: spec.ptk_id, spec.name: spec.ptk_id}
    by_feature = {name: spec.ptk_id for spec in reversed(specs) for name in features_in(spec)}
    for names in (by_name, by_feature):
        if close := near_names(text, names):
            return list(dict.fromkeys(names[one] for one in close))
    return []


def corrected(words: Sequence[str], specs: Sequence[PtkSpec]) -> list[str]:
    """Return words with which a search that found nothing finds a PTK; none if no such words are near.

    Only a word that no PTK has is replaced, by a word that is in the text of one.
    """
    texts = [_text(spec) for spec in specs]
    used = sorted({word for text in texts for word in _parts(text)})
    better = [word if any(word in text for text in texts) else _near_word(word, used) for word in words]
    if better == list(words) or not all(better):
        return []
    return better if any(all(word in text for word in better) for text in texts) else []


def _near_word(word: str, used: Iterable[str]) -> str:
    return next(iter(near_names(word, used)), "") if len(word) >= LETTERS_LEAST else ""


def _parts(text: str) -> list[str]:
    """The words in a text, and those that a name is made of."""
    return [part for part in re.split(r"[\W_]+", text) if len(part) >= LETTERS_LEAST]


def _text(spec: PtkSpec) -> str:
    """What a search looks at, in small letters: names, description, tags, columns, owner, stream, family."""
    keys = [key for form in spec.tables.values() for key in form["keys"]]
    words = [spec.ptk_id, *views_of(spec), spec.description, spec.stream, spec.team, spec.family]
    return "\n".join([*words, *spec.tags, *keys, *features_in(spec)]).lower()
