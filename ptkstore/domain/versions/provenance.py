"""How the values of a version were made, in one form and one wording for whoever reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ptkstore.domain.accounting.assurances import UNKNOWN, Assured, assured_in

CENTRAL, LOCAL = "central", "local"
"""Models of guarantees: blocks of rows in the store pay for a central one; a local one holds for each report of a
device. A manifest that names none is central."""

UNKNOWN_TAG = "unknown"
"""What a tag says where a manifest does not tell."""

_UNITS = {
    "record": "one record",
    "user": "one user",
    "user-in-window": "one user in one window",
    "device": "one device, all of its rows",
}


def unit_words(privacy_unit: str | None) -> str:
    """Return in words whose presence a privacy unit hides."""
    return _UNITS.get(privacy_unit or "", UNKNOWN_TAG)


@dataclass(frozen=True, slots=True)
class Shown:
    """The target of a metric that a version was shown to meet, how surely, in how many looks; None without a test."""

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
class LocalShown:
    """The local guarantee beside the loss of one report, which is not the loss of a version."""

    one_weight_epsilon: float
    reports_per_window: int
    reports_in_all: int
    in_all_epsilon: float
    in_all_delta: float
    clip: str
    noise: str

    def sentence(self, epsilon: float | None) -> str:
        """Say it, with the epsilon of one report."""
        return (
            f"Guarantee: local, of each report of a device. The whole report loses epsilon {epsilon}, one weight of it "
            f"{self.one_weight_epsilon}. A device sends at most {self.reports_per_window} in a window and "
            f"{self.reports_in_all} in all, which lose epsilon {self.in_all_epsilon} together"
        )


@dataclass(frozen=True, slots=True)
class Provenance:
    """Loss, assurance, privacy unit, windows and verdict of one version, as its manifest tells them.

    `local` is there where the guarantee is local: `epsilon` and `delta` are then of one report of a device. None means
    that the manifest does not tell. `oldest` and `newest` are start and end of the first and the last window in the
    state, as ISO 8601 writes them.
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
    local: LocalShown | None = None

    @property
    def model(self) -> str | None:
        """Whether the guarantee is central or local; None where it is not told."""
        if self.local is not None:
            return LOCAL
        return None if self.epsilon is None else CENTRAL

    def tags(self) -> dict[str, str]:
        """Say it as tags of a view; these names are all there, and `unknown` appears as such."""
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
        if self.local is not None:
            tags["dp.model"] = LOCAL
            tags |= {f"dp.{name}": str(value) for name, value in asdict(self.local).items()}
        return tags

    def sentence(self, windows: str = "") -> str:
        """Privacy unit and windows in a sentence each, for descriptions; `windows` says which there are, gaps too.

        By default it tells the end of the newest window alone: after a rollback there may be gaps before it.
        """
        unit = unit_words(self.privacy_unit)
        if self.unit_column is not None:
            most = (
                ""
                if self.max_rows_per_unit is None
                else f", at most {self.max_rows_per_unit} rows per window"
            )
            unit = f"{unit} (column {self.unit_column}{most})"
        if self.local is not None:
            unit = f"{unit}. {self.local.sentence(self.epsilon)}"
        if not windows:
            windows = UNKNOWN_TAG
        if windows == UNKNOWN_TAG and self.newest is not None:
            windows = f"up to {self.newest[1]}"
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
        local=_local(guarantee) if is_local(manifest) else None,
    )


def is_local(manifest: Mapping[str, Any]) -> bool:
    """Return whether the guarantee of a manifest is local: of each report of a device, and of no block."""
    return bool(manifest.get("guarantee", {}).get("model") == LOCAL)


def instances_in(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a manifest says of the instances that were averaged; that of an early program says their epoch."""
    found: Mapping[str, Any] = manifest.get("instances", {"epoch": manifest.get("epoch")})
    return found


def _local(guarantee: Mapping[str, Any]) -> LocalShown:
    return LocalShown(
        one_weight_epsilon=guarantee["one_weight"]["epsilon"],
        reports_per_window=guarantee["reports_per_window"],
        reports_in_all=guarantee["reports_in_all"],
        in_all_epsilon=guarantee["in_all"]["epsilon"],
        in_all_delta=guarantee["in_all"]["delta"],
        clip=guarantee["clip"],
        noise=guarantee["noise"],
    )


def _shown(verdict: Mapping[str, Any] | None) -> Shown:
    """The verdict of a version; one that repeats an older version has that one's."""
    if verdict is None:
        return Shown()
    return Shown(verdict.get("metric"), verdict.get("target"), verdict.get("confidence"), verdict.get("look"))


def _span(window: Mapping[str, Any] | None) -> tuple[str, str] | None:
    if window is None or not {"start", "end"} <= set(window):
        return None
    return str(window["start"]), str(window["end"])


def _interval(span: tuple[str, str] | None) -> str:
    return UNKNOWN_TAG if span is None else "/".join(span)
