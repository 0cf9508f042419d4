"""Assurance in one form and one wording: a declared loss is proven, or it is the word of a team."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ptkstore.domain.names import team_of


class Assurance(StrEnum):
    """Why a PTK's epsilon is believed (differences.md F7), weakest first."""

    ASSERTED = "asserted"
    COMPOSED = "composed"
    LIBRARY = "library"

    def at_least(self, other: Assurance) -> bool:
        """Tell whether this assurance is as strong as `other`."""
        order = list(Assurance)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True)
class Assured:
    """Why a declared loss is believed; `by` is the team whose word it is, empty where the library proves it.

    `assurance` is None where nothing is known of it: a view of before it was told, a PTK that is gone without versions.
    """

    assurance: Assurance | None
    by: str = ""

    @property
    def proven(self) -> bool:
        """Whether the library proves the loss."""
        return self.assurance is Assurance.LIBRARY

    def document(self) -> dict[str, str | None]:
        """Write it as documents, rows and tags have it."""
        value = None if self.assurance is None else self.assurance.value
        return {"assurance": value, "asserted_by": self.by or None}

    def words(self) -> str:
        """In few words, for a cell of a table."""
        if self.assurance is None:
            return "unknown"
        return f"{self.assurance.value} by {self.by}" if self.by else self.assurance.value

    def sentence(self) -> str:
        """In a sentence, for descriptions."""
        if self.assurance is None:
            return "Nothing is known of who vouches for its privacy loss."
        if self.by:
            return (
                f"{self.assurance.value.capitalize()} by team {self.by}: its privacy loss is that team's word, "
                "nobody has proven it."
            )
        return "Library: its privacy loss is proven for the library's own estimators."


UNKNOWN = Assured(None)


def assured(assurance: str | None, ptk_id: str) -> Assured:
    """Return what an assurance means for a PTK, whose team vouches for all that the library does not."""
    if assurance is None:
        return UNKNOWN
    level = Assurance(assurance)
    return Assured(level, "" if level is Assurance.LIBRARY else team_of(ptk_id))


def assured_in(manifest: Mapping[str, Any], ptk_id: str) -> Assured:
    """Return what the manifest of a version says."""
    level = manifest.get("guarantee", {}).get("assurance")
    return assured(None if level is None else str(level), ptk_id)


def assured_of(document: Mapping[str, Any]) -> Assured:
    """Return what `Assured.document` wrote, or nothing known if it is missing."""
    level = document.get("assurance")
    return UNKNOWN if not level else Assured(Assurance(level), document.get("asserted_by") or "")


def least(candidates: Iterable[Assured]) -> Assured:
    """Return the weakest of some, with all teams whose word it is; unknown is weaker than any, none is proven."""
    several = list(candidates)
    if any(one.assurance is None for one in several):
        return UNKNOWN
    order = list(Assurance)
    weakest = min((one.assurance for one in several), key=order.index, default=Assurance.LIBRARY)  # type: ignore[arg-type]
    teams = sorted({one.by for one in several if one.assurance is weakest and one.by})
    return Assured(weakest, ", ".join(teams))


SHARES = (
    "library and asserted: what the releases that the library proves, and all others, cost a block, each added up "
    "alone by the stream's filter. Under basic composition they add up to spent; under renyi and zcdp their sum may be "
    "more, so neither is the rest of the other"
)
"""What the two shares of a block's loss are; a PTK of which nothing is known counts as asserted."""


def budget_rests_on(minimum: Assurance, asserted: Iterable[str]) -> str:
    """Say why what was spent of a stream is believed; `asserted` are PTKs that the library does not prove."""
    if minimum is Assurance.LIBRARY:
        return "Only the library's own estimators spend it, and their losses are proven."
    return (
        f"This stream accepts {minimum.value} PTKs, whose losses are their teams' word. Registered now: "
        f"{', '.join(asserted) or 'none'}. The shares of each block, the odometers by PTK and the signed report tell "
        "what was spent on their word."
    )
