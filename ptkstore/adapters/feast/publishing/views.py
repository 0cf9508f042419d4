"""Feast's definitions of our views: entities, schemas, tags.

An entity is named after its join key and type (`hour__int64`), so that two PTKs may use one key name with different
types. Readers never see entity names, they pass `{"hour": 8}`. (Feast keeps one type per key name within a request:
views whose `hour` differs in type need two requests.)
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ptkstore.adapters.feast.names import (
    AS_OF_COLUMN,
    PUBLISHED_COLUMN,
    STATE_KEY,
    STATE_VIEW,
    VERSION_FEATURE,
)
from ptkstore.adapters.feast.publishing.history import History
from ptkstore.adapters.feast.tables import TIMESTAMP, ViewTable
from ptkstore.adapters.feast.tags import FOUND_BY, PTK_SHA256_TAG, PTK_TAG, PTK_VERSION_TAG
from ptkstore.adapters.feast.values import feast_type
from ptkstore.ports.features import PublishedState

if TYPE_CHECKING:
    from feast import Entity, FeatureView

_STATE_SCHEMA = pa.schema(
    [
        (STATE_KEY, pa.string()),
        ("version", pa.int64()),
        ("epsilon", pa.float64()),
        ("delta", pa.float64()),
        ("window_end", TIMESTAMP),
        ("manifest", pa.string()),
        ("sha256", pa.string()),
        ("assurance", pa.string()),
        ("asserted_by", pa.string()),
        ("metric", pa.string()),
        ("target", pa.float64()),
        ("confidence", pa.float64()),
        ("looks", pa.int64()),
        ("guarantee_model", pa.string()),
        (VERSION_FEATURE, pa.int64()),
    ]
)


def empty_state_table() -> ViewTable:
    """Return the columns of `ptk_state`."""
    return ViewTable(STATE_VIEW, (STATE_KEY,), _STATE_SCHEMA.empty_table())


def state_table(state: PublishedState) -> ViewTable:
    """Return the row of `ptk_state` about one PTK."""
    row = {
        STATE_KEY: state.ptk_id,
        "version": state.version,
        "epsilon": state.made.epsilon,
        "delta": state.made.delta,
        "window_end": state.window_end,
        "manifest": state.manifest_url,
        "sha256": state.sha256,
        **state.made.assured.document(),
        **state.made.shown.document(),
        "guarantee_model": state.made.model,
        VERSION_FEATURE: state.version,
    }
    return ViewTable(STATE_VIEW, (STATE_KEY,), pa.Table.from_pylist([row], schema=_STATE_SCHEMA))


def state_view(history: History) -> FeatureView:
    """Make `ptk_state`: one row per PTK, never versioned itself (Feast serves version 0 under the bare name)."""
    description = (
        "The newest version of every PTK, its guarantee and who vouches for it, the target that it was shown to meet, "
        "window and manifest; set after the PTK's views."
    )
    return _view(empty_state_table(), 0, history, tags={}, owner="ptkstore", description=description)


def ptk_view(table: ViewTable, state: PublishedState, history: History) -> FeatureView:
    """Make the view of one table at one version."""
    tags = {
        PTK_TAG: state.ptk_id,
        PTK_VERSION_TAG: str(state.version),
        "ptk.manifest": state.manifest_url,
        PTK_SHA256_TAG: state.sha256,
        **state.made.tags(),
        **{f"{FOUND_BY}{tag}": "true" for tag in state.tags},
    }
    description = state.made.described(state.description)
    return _view(table, state.version, history, tags=tags, owner=state.owner, description=description)


def bare_view(table: ViewTable, version: int, history: History) -> FeatureView:
    """Make the view of rows that are only to be deleted."""
    return _view(table, version, history, tags={}, owner="", description="")


def entities_of(table: ViewTable) -> list[Entity]:
    """Make one entity per join key, named after key and type."""
    from feast import Entity

    entities = []
    for key in table.keys:
        plain = table.rows.schema.field(key).type
        name = f"{key}__{'int64' if plain == pa.int64() else 'string'}"
        entities.append(Entity(name=name, join_keys=[key], value_type=feast_type(plain).to_value_type()))
    return entities


def sourced_view(
    table: ViewTable, source: Any, *, tags: dict[str, str], owner: str, description: str
) -> FeatureView:
    """Make a view that has no versions: its rows are under its bare name.

    Parameters
    ----------
    table : ViewTable
        Name, keys and columns.
    source : DataSource
        The source of joins in time.
    tags, owner, description
        The description of the view.
    """
    from feast import FeatureView, Field

    fields = {f.name: Field(name=f.name, dtype=feast_type(f.type)) for f in table.rows.schema}
    view = FeatureView(
        name=table.view,
        entities=entities_of(table),
        ttl=timedelta(0),
        schema=list(fields.values()),
        source=source,
        tags=tags,
        owner=owner,
        description=description,
    )
    # Feast fills these when it applies a view; the rows are written before.
    view.entity_columns = [fields[key] for key in table.keys]
    view.features = [fields[name] for name in table.features]
    return view


def _view(
    table: ViewTable, version: int, history: History, *, tags: dict[str, str], owner: str, description: str
) -> FeatureView:
    from feast import FileSource

    source = FileSource(
        name=f"{table.view}__history",
        path=history.relative_path(table.view, version),
        timestamp_field=AS_OF_COLUMN,
        created_timestamp_column=PUBLISHED_COLUMN,
    )
    view = sourced_view(table, source, tags=tags, owner=owner, description=description)
    view.version = f"v{version}"
    view.current_version_number = version
    return view
