"""Publishes states to Feast and answers lookups from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptkstore.adapters.feast import computed, default_views, flips, online
from ptkstore.adapters.feast.history import History
from ptkstore.adapters.feast.lookup import grouped, look_up, resolved, through_feast
from ptkstore.adapters.feast.names import PROJECT, STATE_VIEW, checked_column, view_name
from ptkstore.adapters.feast.session import Session, Sessions
from ptkstore.adapters.feast.state import StateRows
from ptkstore.adapters.feast.tables import ViewTable, view_tables
from ptkstore.adapters.feast.views import PTK_TAG, bare_view, entities_of, ptk_view
from ptkstore.domain.ptks.serving import COMPUTED, Serving
from ptkstore.domain.versions.provenance import Provenance
from ptkstore.errors import Conflict, CorruptObject, InvalidRequest, RowsLost, SchemaMismatch, Unavailable
from ptkstore.ports.features import Answers, PublishedState

if TYPE_CHECKING:
    from feast import FeatureView
    from feast.protos.feast.types.EntityKey_pb2 import EntityKey

    from ptkstore.adapters.feast.packed import PackedRedisOnlineStore
    from ptkstore.adapters.feast.packed.direct import DirectReads, Part


class FeastFeatureStore:
    """Versioned views in a Feast repository; implements `ports.features.FeatureStore`.

    Parameters
    ----------
    repo : Path
        Folder that holds the `feature_store.yaml` of `write_repo`.
    keep_versions : int
        How many of the newest versions can be pinned; more while readers' caches may name them.
    keep_seconds : float
        How long a version stays after its successor came, however many there are by then.

    Notes
    -----
    Feast is loaded on first use (seconds), not here. Safe to share between threads; a fork opens anew.
    Any number of processes may publish at once: staging goes on side by side, flips take turns.
    """

    def __init__(self, repo: Path, *, keep_versions: int = 3, keep_seconds: float = 0.0) -> None:
        if keep_versions < 1:
            raise InvalidRequest("keep_versions must be at least 1: the served version stays")
        self._keep_versions = keep_versions
        self._keep_seconds = keep_seconds
        self._history = History(repo)
        self._sessions = Sessions(repo)
        self._state = StateRows(self._history)
        self._direct: DirectReads | None = None

    def check_names(self, ptk_id: str, columns: Mapping[str, tuple[str, ...]]) -> None:
        """`SchemaMismatch` for a table or column that no reference could name, or that no new PTK may have."""
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

        Where no version is served, the history begins with the `earlier` ones.

        Raises `SchemaMismatch` if a table cannot be served, `Unavailable` if a store does not answer, `Conflict` if
        another version came to be served meanwhile, `CorruptObject` if the history of the served one is damaged.
        """
        tables = view_tables(state)
        with self._sessions.use() as session:
            views = [table.view for table in tables]
            if all(flips.served_version(session, view) is None for view in views):
                self._recall(session, views, earlier)
            for table in tables:
                served = flips.served_version(session, table.view)
                if served is None or served <= state.version:
                    self._stage_table(session, table, state, served)

    def flip(self, state: PublishedState) -> None:
        """Make a staged version the served one, `ptk_state` last; repeatable; no effect if a newer is served.

        Raises `Conflict` if it is not staged, `OutcomeUnknown` if the registry does not show it afterwards.
        """
        views = [table.view for table in view_tables(state)]
        with self._sessions.use() as session, session.database.exclusive():
            self._flip(session, state, views)

    def look_up(self, features: Sequence[str], entities: Sequence[Mapping[str, Any]]) -> Answers:
        """One mapping of feature name to value per entity row; see the port.

        Raises `InvalidRequest` for a malformed reference or key, or if two references share a feature name.
        """
        with self._sessions.use() as session:
            answer = None
            if session.packed is not None:
                answer = self._look_up_directly(session, session.packed, features, entities)
            if answer is not None:
                return answer
            if _on_demand(views := grouped(features)):
                self._check_sources(session, [name for name, _ in views])
                return through_feast(session, features, entities)
            return look_up(session, features, entities, partial(self._check_rows, session))

    def lost(self, ptk_ids: Sequence[str]) -> frozenset[str]:
        """Those of these PTKs, all of them served, whose newest version has no rows any more."""
        with self._sessions.use() as session:
            told = dict(zip(ptk_ids, self._state.versions(session, ptk_ids), strict=True))
            gone = {ptk_id for ptk_id, version in told.items() if version is None}
            if session.packed is not None:
                for view in session.registry.list_feature_views(PROJECT):
                    ptk_id = view.tags.get(PTK_TAG)
                    if ptk_id in told and ptk_id not in gone and not online.has_hash(session, view):
                        gone.add(ptk_id)
            return frozenset(gone)

    def untold(self, ptk_ids: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """Versions of these PTKs whose views do not tell how their values were made."""
        with self._sessions.use() as session:
            from ptkstore.adapters.feast import backfill

            return backfill.untold(session.database, ptk_ids)

    def tell(self, ptk_id: str, made: Mapping[int, Provenance]) -> None:
        """Let views and rows of `ptk_state` of these versions tell it, the views last; repeatable."""
        with self._sessions.use() as session, session.database.exclusive():
            from ptkstore.adapters.feast import backfill

            self._state.tell(session, ptk_id, {number: one.assured for number, one in made.items()})
            backfill.tell(session.database, ptk_id, made)

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
        """The same of the views that others fill: what stands in for a row must not stand in for all of them."""
        for name in names:
            view = (
                flips.served_view(session, default_views.source_of(name))
                if default_views.is_filled(name)
                else None
            )
            if view is not None:
                self._check_rows(session, view, ())

    def _is_served(self, session: Session, ptk_id: str) -> bool:
        with suppress(InvalidRequest):  # no PTK is named so
            views = self._history.views(view_name(ptk_id, "", 1))
            return any(flips.served_version(session, view) is not None for view in views)
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
            packed, session.config, features, entities, lambda: _parts(session, packed, features)
        )

    def withdraw(self, ptk_id: str) -> None:
        """Take the views of a PTK away, rows and history too; repeatable."""
        base = view_name(ptk_id, "", 1)
        with self._sessions.use() as session, session.database.exclusive():
            flips.forget_service(session, base)
            computed.withdraw(session, base)
            self._state.erase(session, ptk_id)
            for view in {*self._registered(session, ptk_id), *self._history.views(base)}:
                self._remove(session, view)

    def close(self) -> None:
        """Give connections back; the next call opens them again."""
        self._sessions.close()

    def _stage_table(
        self, session: Session, table: ViewTable, state: PublishedState, served: int | None
    ) -> None:
        # The file first: it names what lies online, so that a version never flipped can be cleaned up.
        wanted = served != state.version or not self._history.path(table.view, state.version).exists()
        if wanted and not self._write_history(session, table, state, served):
            return
        online.write_rows(session, ptk_view(table, state, self._history), table, state.as_of)
        with session.database.exclusive():
            flips.declare(session, entities_of(table))
        if (serving := _serving(state, table.view)) is not None:
            default_views.stage(session, table, state, serving, self._history)

    def _recall(self, session: Session, views: Sequence[str], earlier: Iterable[PublishedState]) -> None:
        """Write the history of versions that lookups never see; one that cannot be served is left out."""
        for state in earlier:
            with suppress(SchemaMismatch):
                for table in view_tables(state):
                    if table.view in views and not self._history.path(table.view, state.version).exists():
                        self._write_history(session, table, state, None)

    def _write_history(
        self, session: Session, table: ViewTable, state: PublishedState, served: int | None
    ) -> bool:
        """Write it aside, and put it in place in turn; what is served by then has readers and stays as it is.

        False if a newer version is served by then; `Conflict` if this one would go on from another one.
        """
        after = served
        if served is None:  # the newest of those that were recalled, if any
            older = (number for number in self._history.versions(table.view) if number < state.version)
            after = max(older, default=None)
        elif served == state.version:
            after = flips.version_before(session, table.view, served)
        try:
            with (
                self._history.written(
                    table, state.version, as_of=state.as_of, published_at=state.published_at, after=after
                ) as put,
                session.database.exclusive(),
            ):
                if flips.served_version(session, table.view) == served:
                    put()
                    return True
        except CorruptObject:  # or of a version whose time was over meanwhile
            if flips.served_version(session, table.view) == served:
                raise
        now = flips.served_version(session, table.view)
        if now is None or now < state.version:
            raise Conflict(f"another version of {table.view} came before v{state.version}; stage it again")
        return now == state.version

    def _flip(self, session: Session, state: PublishedState, views: Sequence[str]) -> None:
        base = view_name(state.ptk_id, "", 1)
        told = self._state.version(session, state.ptk_id)
        served = {view: flips.served_version(session, view) or 0 for view in views}
        if max([told or 0, *served.values()]) > state.version:
            return
        computes = bool(state.computed) and computed.computed_name(base) not in views
        if not computes:
            computed.withdraw(session, base)  # a table may have its name
        for view in views:
            if served[view] < state.version:
                if not self._history.path(view, state.version).exists():
                    raise Conflict(f"{view} v{state.version} is not staged; stage it first")
                flips.serve(session, self._view(view, state))
        for view in views:
            if (serving := _serving(state, view)) is None:
                default_views.withdraw(session, view)
            else:
                columns = self._history.columns(view, state.version)
                default_views.serve(session, columns, state, serving, self._history)
        # Views of tables that this version no longer has would go on serving an old version, or keep a name.
        for view in set(self._registered(session, state.ptk_id)) - set(views):
            self._remove(session, view)
        if computes:
            computed.serve(session, base, state)
        flips.serve_together(
            session,
            base,
            [self._view(view, state) for view in views],
            state.made.described(f"All of {state.ptk_id} at its newest version."),
            {PTK_TAG: state.ptk_id, **state.made.tags()},
        )
        self._state.write(session, state)
        for view in views:
            online.mark_served(session, view, state.version, state.sha256, self._history.versions(view))
        for view in views:
            self._prune(session, view, state.version)

    def _view(self, view: str, state: PublishedState) -> FeatureView:
        return ptk_view(self._history.columns(view, state.version), state, self._history)

    def _prune(self, session: Session, view: str, version: int) -> None:
        """Forget old versions now; delete their rows at a later flip, when no reader's cache names them."""
        # Twice the time readers cache the registry; registry times are whole seconds.
        grace_seconds = 2 * session.config.registry.cache_ttl_seconds + 1
        remaining, forgotten = flips.forget_versions(
            session,
            view,
            below=version - self._keep_versions + 1,
            superseded_for_seconds=max(grace_seconds, self._keep_seconds),
        )
        for old in forgotten:
            self._history.mark_forgotten(view, old)
            online.mark_forgotten(session, view, old)
        for old in self._history.versions(view):
            nobody_names = old < version and old not in remaining
            if nobody_names and self._history.unchanged_seconds(view, old) > grace_seconds:
                # The version is served: a file that cannot be read or deleted now waits for the next flip.
                with suppress(CorruptObject, Unavailable):
                    self._drop_rows(session, view, old)
                    self._history.delete(view, old)

    def _registered(self, session: Session, ptk_id: str) -> list[str]:
        return [view.name for view in session.registry.list_feature_views(PROJECT, tags={PTK_TAG: ptk_id})]

    def _remove(self, session: Session, view: str) -> None:
        default_views.withdraw(session, view)
        flips.forget_view(session, view)
        versions = self._history.versions(view)
        for version in versions:
            self._drop_rows(session, view, version)
        for version in versions:  # after all rows: a damaged one's are known from the others
            self._history.delete(view, version)
        self._history.delete_view(view)

    def _drop_rows(self, session: Session, view: str, version: int) -> None:
        """Delete the rows online; on Feast's own Redis, of a damaged version, the cells that `erasable` names."""
        tables = self._history.erasable(view, version)
        default_views.drop(session, tables, version)
        for table in tables:
            online.drop_rows(session, bare_view(table, version, self._history), table)


def _serving(state: PublishedState, view: str) -> Serving | None:
    named = {view_name(state.ptk_id, table, len(state.tables)): one for table, one in state.serving.items()}
    return named.get(view)


def _parts(
    session: Session, packed: PackedRedisOnlineStore, features: Sequence[str]
) -> tuple[Part, ...] | None:
    """A request as the registry resolves it now; None if one of its views is not to be read directly."""
    from ptkstore.adapters.feast.packed.direct import part_of

    views = grouped(features)
    if _on_demand(views):
        return None
    parts = []
    for (name, version), wanted in views.items():
        view = resolved(session, name, version, wanted)
        part = part_of(packed.hash_key(session.config, view), view, wanted, newest=version is None)
        if part is None:
            return None
        parts.append(part)
    return tuple(parts)


def _rows_lost(view: str) -> RowsLost:
    return RowsLost(
        f"the online store has lost the rows of {view}; workers write those of the newest version again within"
        " minutes, or at once after `ptk materialize PTK`"
    )


def _on_demand(views: Iterable[tuple[str, int | None]]) -> bool:
    """Whether one of the views is computed by Feast where it is read."""
    return any(default_views.is_filled(name) or computed.is_computed(name) for name, _ in views)
