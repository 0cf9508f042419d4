"""The view `<view>__filled`: a PTK's declared defaults and derived columns, computed where a consumer reads.

An on-demand view of Feast over a copy of the rows that the declaration needs. The copy has a name of its own per
version, `<view>__filled__v3`, because Feast 0.67 loses the version of a view that an on-demand view reads. One commit
of the registry makes the next version's copy the one that is read.

Consumers run a text that is written here from a checked declaration; it needs pandas alone. It travels as text only:
Feast would put a pickle beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ptkstore.adapters.feast import online
from ptkstore.adapters.feast.names import (
    AS_OF_COLUMN,
    PROJECT,
    PUBLISHED_COLUMN,
    VERSION_FEATURE,
    filled_name,
)
from ptkstore.adapters.feast.publishing import flips
from ptkstore.adapters.feast.publishing.default_view_text import FUNCTION, text_of
from ptkstore.adapters.feast.publishing.history import History
from ptkstore.adapters.feast.publishing.views import entities_of, sourced_view
from ptkstore.adapters.feast.session import Session
from ptkstore.adapters.feast.tables import ViewTable
from ptkstore.adapters.feast.tags import FILLS_TAG
from ptkstore.adapters.feast.values import feast_type
from ptkstore.adapters.feast.versions import served_view
from ptkstore.domain.ptks.serving import FILLED, VERSION, Serving
from ptkstore.ports.features import PublishedState

if TYPE_CHECKING:
    from feast import FeatureView
    from feast.on_demand_feature_view import OnDemandFeatureView


@dataclass(frozen=True, slots=True)
class FilledView:
    """`<view>__filled` at one version.

    `table` has the view's columns, and its rows too where they are staged; `history` knows the event times.
    """

    table: ViewTable
    state: PublishedState
    serving: Serving
    history: History

    def stage(self, session: Session) -> None:
        """Write the rows that the version's answers are computed from; repeatable."""
        view = self._rows_view()
        online.write_rows(session, view, self._copied(), self.state.as_of)
        with session.database.exclusive():
            flips.declare(session, entities_of(self.table))
            session.registry.apply_feature_view(view, PROJECT)

    def serve(self, session: Session) -> None:
        """Make the view answer from the version; needs the session's write lock; repeatable."""
        flips.serve_on_demand(session, self._on_demand())

    def _copied(self) -> ViewTable:
        table, names = self.table, [*self.serving.defaults, VERSION_FEATURE]
        rows = table.rows.select([*table.keys, *names])
        renamed = rows.rename_columns([*table.keys, *(_unfilled(table.view, name) for name in names)])
        return ViewTable(_rows_name(table.view, self.state.version), table.keys, renamed)

    def _rows_view(self) -> FeatureView:
        from feast import FileSource

        copied, name, made = self._copied(), self.table.view, self.state.made
        source = FileSource(
            name=f"{copied.view}__history",
            path=self.history.relative_path(name, self.state.version),
            timestamp_field=AS_OF_COLUMN,
            created_timestamp_column=PUBLISHED_COLUMN,
            field_mapping={one: _unfilled(name, one) for one in (*self.serving.defaults, VERSION_FEATURE)},
        )
        description = made.described(f"What {filled_name(name)} computes its answers from.")
        tags = {FILLS_TAG: name, **made.tags()}
        return sourced_view(copied, source, tags=tags, owner="ptkstore", description=description)

    def _on_demand(self) -> OnDemandFeatureView:
        from feast import Field, RequestSource
        from feast.on_demand_feature_view import OnDemandFeatureView
        from feast.types import Float64, Int64

        from ptkstore.adapters.feast.publishing.text_transformation import TextTransformation

        name, schema, serving, made = self.table.view, self.table.rows.schema, self.serving, self.state.made
        kinds = {column: schema.field(column).type for column in serving.defaults}
        types = {column: str(kind) for column, kind in kinds.items()}
        text = source_text(name, types, serving, self.history.ends(name, self.state.version))
        sources: list[Any] = [self._rows_view()]
        if serving.request:
            sent = [Field(name=column, dtype=Float64) for column in serving.request]
            sources.append(RequestSource(name=f"{filled_name(name)}__request", schema=sent))
        fields = [Field(name=f"{column}_{FILLED}", dtype=feast_type(kind)) for column, kind in kinds.items()]
        fields += [
            Field(name=d.name, dtype=Int64 if d.form == "bucket" else Float64) for d in serving.derived
        ]
        return OnDemandFeatureView(
            name=filled_name(name),
            sources=sources,
            schema=[*fields, Field(name=VERSION, dtype=Int64)],
            mode="pandas",
            feature_transformation=TextTransformation.of(text, FUNCTION),
            description=made.described(f"{name} with its declared defaults."),
            owner="ptkstore",
            tags={FILLS_TAG: name, **made.tags()},
        )


def drop(session: Session, tables: Sequence[ViewTable], version: int) -> None:
    """Delete the copy of one version, if there is one; repeatable."""
    view = served_view(session, _rows_name(tables[0].view, version))
    if view is None:
        return
    view.current_version_number = None
    for table in tables:
        keys = table.rows.select(list(table.keys))
        online.drop_rows(session, view, ViewTable(view.name, table.keys, keys))
    flips.forget_view(session, view.name)
    session.database.delete_snapshots(view.name)


def source_text(view: str, types: Mapping[str, str], serving: Serving, ends: Mapping[int, datetime]) -> str:
    """Write the function that consumers run, with the declaration as literals in it."""
    defaults = {n: (_unfilled(view, n), default, types[n]) for n, default in serving.defaults.items()}
    return text_of(
        {
            "defaults": defaults,
            "derived": [(d.name, d.form, list(d.operands), list(d.edges)) for d in serving.derived],
            "version_column": _unfilled(view, VERSION_FEATURE),
            "ends": {number: end.timestamp() for number, end in sorted(ends.items())},
            "fresh_seconds": None if serving.fresh is None else serving.fresh.total_seconds(),
        }
    )


def _unfilled(view: str, feature: str) -> str:
    """Name a feature in the copy: no other view of a request has a feature of that name."""
    return f"{view}__{feature}__unfilled"


def _rows_name(view: str, version: int) -> str:
    return f"{filled_name(view)}__v{version}"  # with a third "__" it is the name of no table
