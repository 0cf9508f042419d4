"""The online feature store, seen from a publisher and from a reader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from ptkstore.domain.accounting.assurances import Assured
from ptkstore.domain.ptks.serving import Serving
from ptkstore.domain.versions.provenance import Provenance

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Computed:
    """Columns computed from what a request sends along and numbers that a version released.

    `form` says how, `columns` are sent along (name, kind), `outputs` come back; `parameters` are plain values.
    """

    form: str
    columns: tuple[tuple[str, str], ...]
    outputs: tuple[str, ...]
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PublishedState:
    """One version as the feature store shows it.

    `tables` maps a table's name to its rows, `keys` to its join keys. `as_of` is the event time of every row: the end
    of the newest contributing window (`window_end`), or later for a version that repeats an older one. `made` says how
    the values were made. `serving` has the values for a table without a fresh answer, if its PTK declares them.
    `computed` is its declared computation at this version. `tags` are words that the PTK is found by.
    """

    ptk_id: str
    version: int
    tables: Mapping[str, pa.Table]
    keys: Mapping[str, tuple[str, ...]]
    as_of: datetime
    window_end: datetime
    published_at: datetime
    made: Provenance
    manifest_url: str
    sha256: str
    owner: str
    description: str
    serving: Mapping[str, Serving] = field(default_factory=dict)
    computed: tuple[Computed, ...] = ()
    tags: tuple[str, ...] = ()


class Answers(list[dict[str, Any]]):
    """The rows of a lookup; `assured` says of each view that was asked why its guarantee is believed."""

    def __init__(
        self, rows: Iterable[dict[str, Any]] = (), assured: Mapping[str, Assured] | None = None
    ) -> None:
        super().__init__(rows)
        self.assured: Mapping[str, Assured] = {} if assured is None else assured


class FeatureStore(Protocol):
    """Versioned views: staged out of sight, flipped in one step, read by anyone."""

    def check_names(self, ptk_id: str, columns: Mapping[str, tuple[str, ...]]) -> None:
        """Raise `InvalidRequest` unless every table and column (by table) has a name that can be served."""

    def stage(self, state: PublishedState, *, earlier: Iterable[PublishedState] = ()) -> None:
        """Write all rows of a version where no reader looks yet; repeatable.

        `earlier` are the versions before, oldest first. They are read only if no version is served, as after
        `withdraw`: joins in time then answer from them, and lookups do not.
        """

    def flip(self, state: PublishedState) -> None:
        """Make a staged version the one that readers get, `ptk_state` last; repeatable, also after a crash half way."""

    def look_up(self, features: Sequence[str], entities: Sequence[Mapping[str, Any]]) -> Answers:
        """Return one mapping of feature name to value (None where nothing was released) per entity row.

        Features are `view:feature` or `view@vN:feature`. Raises `UnknownName` for an unknown view or feature,
        `RowsLost` where a version that is served has no rows any more.
        """

    def lost(self, ptk_ids: Sequence[str]) -> frozenset[str]:
        """Name those of these PTKs, all of them served, whose newest version has no rows any more."""

    def without_provenance(self, ptk_ids: Sequence[str]) -> Mapping[str, tuple[int, ...]]:
        """Find the versions of these PTKs whose views do not say how their values were made; each can be looked up."""

    def add_provenance(self, ptk_id: str, made: Mapping[int, Provenance]) -> None:
        """Add it to the views of these versions; what they say already stays as it is. Repeatable."""

    def withdraw(self, ptk_id: str) -> None:
        """Take the views of a deregistered PTK away; repeatable."""
