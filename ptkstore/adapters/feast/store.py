"""Publishes states to Feast and answers lookups from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptkstore.adapters.feast import online, versions
from ptkstore.adapters.feast.names import (
    PROJECT,
    STATE_VIEW,
    checked_column,
    is_filled,
    source_of,
    view_name,
)
from ptkstore.adapters.feast.publishing.history import History
from ptkstore.adapters.feast.publishing.publisher import Publisher
from ptkstore.adapters.feast.publishing.state_rows import StateRows
from ptkstore.adapters.feast.reading.lookup import grouped, look_up, on_demand, parts_of, through_feast
from ptkstore.adapters.feast.session import Session, Sessions
from ptkstore.adapters.feast.tags import PTK_TAG
from ptkstore.domain.ptks.serving import COMPUTED
from ptkstore.domain.versions.provenance import Provenance
from ptkstore.errors import InvalidRequest, RowsLost, SchemaMismatch
from ptkstore.ports.features import Answers, PublishedState

if TYPE_CHECKING:
    from feast import FeatureView
    from feast.protos.feast.types.EntityKey_pb2 import EntityKey

    from ptkstore.adapters.feast.packed import PackedRedisOnlineStore
    from ptkstore.adapters.feast.packed.direct import DirectReads


class FeastFeatureStore:
    """Versioned views in a Feast repository; implements `ports.features.FeatureStore`.

    Parameters
    ----------
    repo : Path
        Folder with the `feature_store.yaml` of `write_repo`.
    keep_versions : int
        How many of the newest versions can be pinned; more while readers' caches may name them.
    keep_seconds : float
        How long a version stays after its successor came, however many there are by then.

    Notes
    -----
    Feast is loaded on first use (seconds), not here. Safe to share between threads; a fork opens anew. Any number of
    processes may publish at once: staging runs side by side, flips take turns.
    """

    def __init__(self, repo: Path, *, keep_versions: int = 3, keep_seconds: float = 0.0) -> None:
        if keep_versions < 1:
            raise InvalidRequest("keep_versions must be at least 1: the served version stays")
        self._history = History(repo)
        self._sessions = Sessions(repo)
        self._state = StateRows(self._history)
        self._publisher = Publisher(
            self._history, self._state, keep_versions=keep_versions, keep_seconds=keep_seconds
        )
        self._direct: DirectReads | None = None

    def check_names(self, ptk_id: str, columns: Mapping[str, tuple[str, ...]]) -> None:
        """Raise `SchemaMismatch` for a table or column that no reference could name, or that no new PTK may have."""
        if len(columns) > 1 and COMPUTED in columns:  # PTKs of before this rule are served with theirs
            raise SchemaMismatch(
                f"of several tables none may be named {COMPUTED!r}: another view has that name"
            )
        for table, names in columns.items():
            view = view_name(ptk_id, table, len(columns))
            for name in names:
                checked_column(view, name)

    def stage(self, state: PublishedState, *, earlier: Iterable[PublishedState] = ()) -> None:
        """Write all rows of a version where no reader looks yet; repeatable; no effect if a newer is served.

        Raises `SchemaMismatch` if a table cannot be served, and `Unavailable` if a store does not answer. Raises
        `Conflict` if another version came to be served meanwhile, and `CorruptObject` if the history of the served one
        is damaged.
        """
        with self._sessions.use() as session:
            self._publisher.stage(session, state, earlier)

    def flip(self, state: PublishedState) -> None:
        """Make a staged version the served one, `ptk_state` last; repeatable; no effect if a newer is served.

        Raises `Conflict` if it is not staged, `OutcomeUnknown` if the registry does not show it afterwards.
        """
        with self._sessions.use() as session, session.database.exclusive():
            self._publisher.flip(session, state)

    def look_up(self, features: Sequence[str], entities: Sequence[Mapping[str, Any]]) -> Answers:
        """Return one mapping of feature name to value per entity row; see the port.

        Raises `InvalidRequest` for a malformed reference or key, or if two references share a feature name.
        """
        with self._sessions.use() as session:
            answer = None
            if session.packed is not None:
                answer = self._look_up_directly(session, session.packed, features, entities)
            if answer is not None:
                return answer
            if on_demand(views := grouped(features)):
                self._check_sources(session, [name for name, _ in views])
                return through_feast(session, features, entities)
            return look_up(session, features, entities, partial(self._check_rows, session))

    def lost(self, ptk_ids: Sequence[str]) -> frozenset[str]:
        """Name those of these PTKs, all of them served, whose newest version has no rows any more."""
        with self._sessions.use() as session:
            stored = dict(zip(ptk_ids, self._state.versions(session, ptk_ids), strict=True))
            gone = {ptk_id for ptk_id, version in stored.items() if version is None}
            if session.packed is not None:
                for view in session.registry.list_feature_views(PROJECT):
                    ptk_id = view.tags.get(PTK_TAG)
                    if ptk_id in stored and ptk_id not in gone and not online.has_hash(session, view):
                        gone.add(ptk_id)
            return frozenset(gone)

    def without_provenance(self, ptk_ids: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """Find the versions of these PTKs whose views do not say how their values were made."""
        with self._sessions.use() as session:
            from ptkstore.adapters.feast.publishing import backfill

            return backfill.without_provenance(session.database, ptk_ids)

    def add_provenance(self, ptk_id: str, made: Mapping[int, Provenance]) -> None:
        """Add it to the rows of `ptk_state` and to the views of these versions, the views last; repeatable."""
        with self._sessions.use() as session, session.database.exclusive():
            from ptkstore.adapters.feast.publishing import backfill

            self._state.add_assurance(session, ptk_id, {number: one.assured for number, one in made.items()})
            backfill.add_provenance(session.database, ptk_id, made)

    def _check_rows(self, session: Session, view: FeatureView, keys: Sequence[EntityKey]) -> None:
        """`RowsLost` if a view without a row of these keys has none at all, because the online store lost them.

        Each version has a row in `ptk_state`, in the same store. Nothing is asked where any row was found.
        """
        ptk_id = view.tags.get(PTK_TAG)
        if ptk_id is not None:
            if self._state.versions(session, [ptk_id]) == [None] or not online.has_hash(session, view):
                raise _rows_lost(view.name)
        elif view.name == STATE_VIEW:
            for key in keys:
                if self._is_served(session, key.entity_values[0].string_val):
                    raise _rows_lost(STATE_VIEW)

    def _check_sources(self, session: Session, names: Iterable[str]) -> None:
        """Check the rows behind views with defaults: a default must not replace all rows of a view."""
        for name in names:
            view = versions.served_view(session, source_of(name)) if is_filled(name) else None
            if view is not None:
                self._check_rows(session, view, ())

    def _is_served(self, session: Session, ptk_id: str) -> bool:
        with suppress(InvalidRequest):  # no PTK is named so
            views = self._history.views(view_name(ptk_id, "", 1))
            return any(versions.served_version(session, view) is not None for view in views)
        return False

    def _look_up_directly(
        self,
        session: Session,
        packed: PackedRedisOnlineStore,
        features: Sequence[str],
        entities: Sequence[Mapping[str, Any]],
    ) -> Answers | None:
        if self._direct is None:
            from ptkstore.adapters.feast.packed.direct import DirectReads

            self._direct = DirectReads()
        return self._direct.look_up(
            packed, session.config, features, entities, lambda: parts_of(session, packed, features)
        )

    def withdraw(self, ptk_id: str) -> None:
        """Take the views of a PTK away, rows and history too; repeatable."""
        with self._sessions.use() as session, session.database.exclusive():
            self._publisher.withdraw(session, ptk_id)

    def close(self) -> None:
        """Give connections back; the next call opens them again."""
        self._sessions.close()


def _rows_lost(view: str) -> RowsLost:
    return RowsLost(
        f"the online store has lost the rows of {view}; workers write those of the newest version again within"
        " minutes, or at once after `ptk materialize PTK`"
    )
