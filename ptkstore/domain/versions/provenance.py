"""How the values of a version were made, in one form and one wording for whoever reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ptkstore.domain.accounting.assurances import UNKNOWN, Assured, assured_in

UNKNOWN_TAG = "unknown"
"""What a tag says where a manifest does not tell."""

_UNITS = {"record": "one record", "user": "one user", "user-in-window": "one user in one window"}


@dataclass(frozen=True, slots=True)
class Shown:
    """Which target of which metric a version was shown to meet, how surely, in how many looks; None without a test."""

    metric: str | None = None
    target: float | None = None
    confidence: float | None = None
    looks: int | None = None

    def document(self) -> dict[str, str | float | int | None]:
        """Return it as plain values, by name."""
        return {
            "metric": self.metric,
            "target": self.target,
            "confidence": self.confidence,
            "looks": self.looks,
        }


@dataclass(frozen=True, slots=True)
class Provenance:
    """Loss, assurance, privacy unit, windows and verdict of one version, as its manifest tells them.

    None stands for what the manifest does not tell. `oldest` and `newest` are start and end of the first and the last
    window in the state, as ISO 8601 writes them.
    """

    epsilon: float | None = None
    delta: float | None = None
    assured: Assured = UNKNOWN
    privacy_unit: str | None = None
    unit_column: str | None = None
    max_rows_per_unit: int | None = None
    oldest: tuple[str, str] | None = None
    newest: tuple[str, str] | None = None
    shown: Shown = Shown()

    def tags(self) -> dict[str, str]:
        """Say it as tags of a view; these names are all there, and `unknown` is told as such."""
        assured = self.assured.document()
        tags = {
            "dp.epsilon": UNKNOWN_TAG if self.epsilon is None else repr(self.epsilon),
            "dp.delta": UNKNOWN_TAG if self.delta is None else repr(self.delta),
            "dp.assurance": assured["assurance"] or UNKNOWN_TAG,
            "dp.privacy_unit": self.privacy_unit or UNKNOWN_TAG,
            "dp.oldest_window": _interval(self.oldest),
            "dp.newest_window": _interval(self.newest),
        }
        if assured["asserted_by"]:
            tags["dp.asserted_by"] = assured["asserted_by"]
        if self.unit_column is not None:
            tags["dp.unit_column"] = self.unit_column
        if self.max_rows_per_unit is not None:
            tags["dp.max_rows_per_unit"] = str(self.max_rows_per_unit)
        return tags

    def sentence(self) -> str:
        """Privacy unit and windows in a sentence each, for descriptions."""
        unit = _UNITS.get(self.privacy_unit or "", UNKNOWN_TAG)
        if self.unit_column is not None:
            most = (
                ""
                if self.max_rows_per_unit is None
                else f", at most {self.max_rows_per_unit} rows per window"
            )
            unit = f"{unit} (column {self.unit_column}{most})"
        windows = UNKNOWN_TAG
        if self.oldest is not None and self.newest is not None:
            windows = f"{self.oldest[0]} to {self.newest[1]}"
        return f"Privacy unit: {unit}. Windows: {windows}."

    def described(self, text: str) -> str:
        """Add it to a description; what that says already is not said twice."""
        for sentence in (self.assured.sentence(), self.sentence()):
            if sentence not in text:
                text = f"{text.rstrip('. ')}. {sentence}"
        return text


def provenance_in(manifest: Mapping[str, Any], ptk_id: str) -> Provenance:
    """Return what the manifest of a version tells."""
    guarantee = manifest.get("guarantee", {})
    return Provenance(
        epsilon=guarantee.get("epsilon"),
        delta=guarantee.get("delta"),
        assured=assured_in(manifest, ptk_id),
        privacy_unit=guarantee.get("privacy_unit"),
        unit_column=guarantee.get("unit_column"),
        max_rows_per_unit=guarantee.get("max_rows_per_unit"),
        oldest=_span(manifest.get("oldest_contributing_window")),
        newest=_span(manifest.get("newest_contributing_window")),
        shown=_shown(manifest.get("verdict")),
    )


def _shown(verdict: Mapping[str, Any] | None) -> Shown:
    """What the verdict of a version says; one that repeats an older version has that one's."""
    if verdict is None:
        return Shown()
    return Shown(verdict.get("metric"), verdict.get("target"), verdict.get("confidence"), verdict.get("look"))


def _span(window: Mapping[str, Any] | None) -> tuple[str, str] | None:
    if window is None or not {"start", "end"} <= set(window):
        return None
    return str(window["start"]), str(window["end"])


def _interval(span: tuple[str, str] | None) -> str:
    return UNKNOWN_TAG if span is None else "/".join(span)
