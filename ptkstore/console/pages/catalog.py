"""The catalog: PTKs of all visible streams, to be searched and filtered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from ptkstore.console.pages.reads import Reads
from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.catalog_search import corrected, features_in, has_words, near_ptks, words_of
from ptkstore.domain.identity import Principal
from ptkstore.domain.near_names import near_names
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.sdk.documents.times import age_in_words

PTKS_SHOWN = 500
QUERY_MOST = 100
AGES = {"1": "in the last day", "7": "in the last 7 days", "30": "in the last 30 days", "older": "longer ago"}
"""What the age of the newest version may be asked for; numbers are days."""
OLD = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Search:
    """The question of a search. An empty field restricts nothing."""

    text: str = ""
    family: str = ""
    assurance: str = ""
    stream: str = ""
    epsilon: float | None = None
    versions: str = ""
    tag: str = ""
    age: str = ""

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
            said.get("tag", ""),
            said["age"] if said.get("age") in AGES else "",
        )

    @property
    def restricts(self) -> bool:
        """Whether anything is asked for."""
        return self != Search()

    @property
    def words(self) -> list[str]:
        """What is looked for in texts, in small letters."""
        return words_of(self.text)

    def since(self, now: datetime) -> datetime:
        """Return since when versions are new, for the age that is asked for."""
        return now - (timedelta(days=int(self.age)) if self.age.isdigit() else OLD)

    def finds(self, spec: PtkSpec, newest: int | None, *, is_new: bool = False) -> bool:
        """Return whether a PTK is among those looked for.

        Parameters
        ----------
        newest : int or None
            Its newest version, None if that is not told.
        is_new : bool
            Whether that version is newer than `since`.
        """
        return (
            (not self.family or spec.family == self.family)
            and (not self.assurance or spec.assurance.value == self.assurance)
            and (not self.stream or spec.stream == self.stream)
            and (self.epsilon is None or spec.loss.epsilon <= self.epsilon)
            and (
                self.versions not in _HAS_VERSION
                or (newest is not None and bool(newest) is _HAS_VERSION[self.versions])
            )
            and (not self.tag or self.tag in spec.tags)
            and (not self.age or (bool(newest) and is_new is self.age.isdigit()))
            and has_words(spec, self.words)
        )


_HAS_VERSION = {"some": True, "none": False}


class Catalog(Reads):
    """PTKs, to be searched."""

    def ptks(self, who: Principal, asked: Mapping[str, Sequence[str]] | None = None) -> dict[str, Any]:
        """Show the PTKs of all visible streams that a search finds."""
        search = Search.of(asked or {})
        specs = self._ptks(who)
        placed = self._newest(who, specs)
        new = self._new(search, placed)
        found = [
            spec for spec in specs if search.finds(spec, placed.get(spec.ptk_id), is_new=spec.ptk_id in new)
        ]
        times = self._service.newest_times()
        tags = sorted({tag for spec in specs for tag in spec.tags})
        return {
            "ptks": [
                {**line, "features": features_in(spec), "age": self._age(times, line)}
                for spec, line in zip(found, self._lines(found[:PTKS_SHOWN], placed), strict=False)
            ],
            "n_ptks": len(specs),
            "n_found": len(found),
            "search": search,
            "families": sorted({spec.family for spec in specs}),
            "assurances": [one.value for one in Assurance],
            "streams": sorted({spec.stream for spec in specs}),
            "tags": tags,
            "ages": AGES,
            "near": _near(search, specs, tags) if not found and self._seeks() else [],
        }

    def _age(self, times: Mapping[str, datetime], line: Mapping[str, Any]) -> str:
        """How long ago the newest version was published; empty for who is told of none."""
        at = times.get(line["ptk_id"]) if line["newest"] else None
        return "" if at is None else age_in_words(at, self._service.clock.now())

    def _new(self, search: Search, placed: Mapping[str, int]) -> frozenset[str]:
        """Name the PTKs whose newest version is as new as a search asks; none where it asks for no age."""
        if not search.age:
            return frozenset()
        elected = self._service.elected_since(search.since(self._service.clock.now()))
        return frozenset(ptk_id for ptk_id, number, _ in elected if placed.get(ptk_id) == number)


def _near(search: Search, specs: Sequence[PtkSpec], tags: Sequence[str]) -> list[dict[str, str]]:
    """Links to what a search that finds nothing may have meant: tags and PTKs."""
    words = [word for word in (search.tag, search.text) if word and word not in tags]
    close = dict.fromkeys(tag for word in words for tag in near_names(word, tags))
    links = [{"name": f"the tag {tag}", "href": f"/ptks?{urlencode({'tag': tag})}"} for tag in close]
    ptks = near_ptks(search.text, specs) if search.text else []
    links += [{"name": one, "href": f"/ptks/{one}"} for one in ptks]
    if search.words and not links and (better := " ".join(corrected(search.words, specs))):
        links.append({"name": better, "href": f"/ptks?{urlencode({'q': better})}"})
    return links


def _positive(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0.0 < number < float("inf") else None
