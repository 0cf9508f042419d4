"""The catalog: PTKs of all visible streams, to be searched and filtered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ptkstore.console.pages.reads import Reads
from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.identity import Principal
from ptkstore.domain.near_names import near_names
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.ptks.views import columns_of, views_of

PTKS_SHOWN = 500
WORDS_MOST = 10
QUERY_MOST = 100


@dataclass(frozen=True, slots=True)
class Search:
    """The question of a search. An empty field restricts nothing."""

    text: str = ""
    family: str = ""
    assurance: str = ""
    stream: str = ""
    epsilon: float | None = None
    versions: str = ""

    @classmethod
    def of(cls, asked: Mapping[str, Sequence[str]]) -> Search:
        """Read the fields of the form; a value that is none of the form is no restriction."""
        said = {name: values[0].strip()[:QUERY_MOST] for name, values in asked.items() if values}
        return cls(
            said.get("q", ""),
            said.get("family", ""),
            said.get("assurance", ""),
            said.get("stream", ""),
            _positive(said.get("epsilon", "")),
            said.get("versions", ""),
        )

    @property
    def restricts(self) -> bool:
        """Whether anything is asked for."""
        return self != Search()

    def finds(self, spec: PtkSpec, newest: int | None) -> bool:
        """Return whether a PTK with this newest version, None if that is not told, is among those looked for."""
        return (
            (not self.family or spec.family == self.family)
            and (not self.assurance or spec.assurance.value == self.assurance)
            and (not self.stream or spec.stream == self.stream)
            and (self.epsilon is None or spec.loss.epsilon <= self.epsilon)
            and (
                self.versions not in _HAS_VERSION
                or (newest is not None and bool(newest) is _HAS_VERSION[self.versions])
            )
            and all(word in _text(spec) for word in self.text.lower().split()[:WORDS_MOST])
        )


_HAS_VERSION = {"some": True, "none": False}


class Catalog(Reads):
    """PTKs, to be searched."""

    def ptks(self, who: Principal, asked: Mapping[str, Sequence[str]] | None = None) -> dict[str, Any]:
        """Show the PTKs of all visible streams that a search finds."""
        search = Search.of(asked or {})
        specs = self._ptks(who)
        placed = self._newest(who, specs)
        found = [spec for spec in specs if search.finds(spec, placed.get(spec.ptk_id))]
        return {
            "ptks": [
                {**line, "features": _features(spec)}
                for spec, line in zip(found, self._lines(found[:PTKS_SHOWN], placed), strict=False)
            ],
            "n_ptks": len(specs),
            "n_found": len(found),
            "search": search,
            "families": sorted({spec.family for spec in specs}),
            "assurances": [one.value for one in Assurance],
            "streams": sorted({spec.stream for spec in specs}),
            "near": _near(search.text, specs) if search.text and not found else [],
        }


def _near(text: str, specs: Sequence[PtkSpec]) -> list[str]:
    """Ids of PTKs that a text may have been meant to find: by their names, then by those of their features."""
    by_name: dict[str, str] = {}
    for spec in specs:
        by_name |= {spec.ptk_id: spec.ptk_id, spec.name: spec.ptk_id}
    by_feature = {name: spec.ptk_id for spec in reversed(specs) for name in _features(spec)}
    for names in (by_name, by_feature):
        if close := near_names(text, names):
            return list(dict.fromkeys(names[one] for one in close))
    return []


def _features(spec: PtkSpec) -> list[str]:
    return [name for table in views_of(spec).values() for name in columns_of(spec, table)]


def _text(spec: PtkSpec) -> str:
    """All of a PTK that a search looks at, in small letters: names, description, columns, owner, stream, family."""
    keys = [key for form in spec.tables.values() for key in form["keys"]]
    words = [spec.ptk_id, *views_of(spec), spec.description, spec.stream, spec.team, spec.family]
    return "\n".join([*words, *keys, *_features(spec)]).lower()


def _positive(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0.0 < number < float("inf") else None
