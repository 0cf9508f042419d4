"""Stages versions, flips to them and withdraws them, in an open session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ptkstore.adapters.feast import online, versions
from ptkstore.adapters.feast.names import PROJECT, computed_name, filled_name, view_name
from ptkstore.adapters.feast.publishing import computed, flips
from ptkstore.adapters.feast.publishing.default_views import FilledView, drop
from ptkstore.adapters.feast.publishing.history import History
from ptkstore.adapters.feast.publishing.state_rows import StateRows
from ptkstore.adapters.feast.publishing.views import bare_view, entities_of, ptk_view
from ptkstore.adapters.feast.session import Session
from ptkstore.adapters.feast.tables import ViewTable, view_tables
from ptkstore.adapters.feast.tags import PTK_TAG
from ptkstore.domain.ptks.serving import Serving
from ptkstore.errors import Conflict, CorruptObject, SchemaMismatch, Unavailable
from ptkstore.ports.features import PublishedState

if TYPE_CHECKING:
    from feast import FeatureView


class Publisher:
    """See `FeastFeatureStore`, which opens the sessions."""

    def __init__(
        self, history: History, state: StateRows, *, keep_versions: int, keep_seconds: float
    ) -> None:
        self._history = history
        self._state = state
        self._keep_versions = keep_versions
        self._keep_seconds = keep_seconds

    def stage(self, session: Session, state: PublishedState, earlier: Iterable[PublishedState]) -> None:
        """Write all rows of a version where no reader looks yet; repeatable; no effect if a newer is served."""
        tables = view_tables(state)
        views = [table.view for table in tables]
        if all(versions.served_version(session, view) is None for view in views):
            self._recall(session, views, earlier)
        for table in tables:
            served = versions.served_version(session, table.view)
            if served is None or served <= state.version:
                self._stage_table(session, table, state, served)

    def flip(self, session: Session, state: PublishedState) -> None:
        """Make a staged version the served one; needs the write lock; no effect if a newer is served."""
        views = [table.view for table in view_tables(state)]
        base = view_name(state.ptk_id, "", 1)
        recorded = self._state.version(session, state.ptk_id)
        served = {view: versions.served_version(session, view) or 0 for view in views}
        if max([recorded or 0, *served.values()]) > state.version:
            return
        computes = bool(state.computed) and computed_name(base) not in views
        if not computes:
            flips.withdraw_on_demand(session, computed_name(base))  # a table may have its name
        for view in views:
            if served[view] < state.version:
                if not self._history.path(view, state.version).exists():
                    raise Conflict(f"{view} v{state.version} is not staged; stage it first")
                flips.serve(session, self._view(view, state))
        for view in views:
            if (serving := _serving(state, view)) is None:
                flips.withdraw_on_demand(session, filled_name(view))
            else:
                columns = self._history.columns(view, state.version)
                FilledView(columns, state, serving, self._history).serve(session)
        # Views of tables that this version no longer has would go on serving an old version, or keep a name.
        for view in set(self._registered(session, state.ptk_id)) - set(views):
            self._remove(session, view)
        if computes:
            computed.serve(session, base, state)
        flips.serve_together(session, state, [self._view(view, state) for view in views])
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

    def withdraw(self, session: Session, ptk_id: str) -> None:
        """Take the views of a PTK away, rows and history too; needs the write lock; repeatable."""
        base = view_name(ptk_id, "", 1)
        flips.forget_service(session, base)
        flips.withdraw_on_demand(session, computed_name(base))
        self._state.erase(session, ptk_id)
        for view in {*self._registered(session, ptk_id), *self._history.views(base)}:
            self._remove(session, view)

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
            FilledView(table, state, serving, self._history).stage(session)

    def _recall(self, session: Session, views: Sequence[str], earlier: Iterable[PublishedState]) -> None:
        """Write the history of versions that lookups never see; one that cannot be served is skipped."""
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
            after = versions.version_before(session, table.view, served)
        try:
            with (
                self._history.written(
                    table, state.version, as_of=state.as_of, published_at=state.published_at, after=after
                ) as put,
                session.database.exclusive(),
            ):
                if versions.served_version(session, table.view) == served:
                    put()
                    return True
        except CorruptObject:  # or of a version whose time was over meanwhile
            if versions.served_version(session, table.view) == served:
                raise
        now = versions.served_version(session, table.view)
        if now is None or now < state.version:
            raise Conflict(f"another version of {table.view} came before v{state.version}; stage it again")
        return now == state.version

    def _registered(self, session: Session, ptk_id: str) -> list[str]:
        return [view.name for view in session.registry.list_feature_views(PROJECT, tags={PTK_TAG: ptk_id})]

    def _remove(self, session: Session, view: str) -> None:
        flips.withdraw_on_demand(session, filled_name(view))
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
        drop(session, tables, version)
        for table in tables:
            online.drop_rows(session, bare_view(table, version, self._history), table)


def _serving(state: PublishedState, view: str) -> Serving | None:
    named = {view_name(state.ptk_id, table, len(state.tables)): one for table, one in state.serving.items()}
    return named.get(view)
