"""`ptk_state`, the table of contents: one row per PTK, written after its views."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ptkstore.adapters.feast import online, versions
from ptkstore.adapters.feast.files import replace_file
from ptkstore.adapters.feast.names import AS_OF_COLUMN, STATE_KEY, STATE_VIEW
from ptkstore.adapters.feast.publishing import flips
from ptkstore.adapters.feast.publishing.history import History, dated, without_values
from ptkstore.adapters.feast.publishing.views import empty_state_table, entities_of, state_table, state_view
from ptkstore.adapters.feast.session import Session
from ptkstore.adapters.feast.tables import TIMESTAMP, ViewTable
from ptkstore.adapters.feast.values import entity_key, key_value
from ptkstore.domain.accounting.assurances import Assured
from ptkstore.ports.features import PublishedState

_FLOOR = datetime(1970, 1, 1, tzinfo=UTC)


class StateRows:
    """Reads and writes the rows of `ptk_state`; every call needs the session's write lock."""

    def __init__(self, history: History) -> None:
        self._history = history

    def version(self, session: Session, ptk_id: str) -> int | None:
        """Read the version in the row of a PTK; None without a row."""
        self._ensure(session)
        return self.versions(session, [ptk_id])[0]

    def versions(self, session: Session, ptk_ids: Sequence[str]) -> list[int | None]:
        """Read the version in the row of each PTK; needs no lock."""
        keys = [
            entity_key((STATE_KEY,), (key_value(STATE_VIEW, STATE_KEY, False, ptk_id),)) for ptk_id in ptk_ids
        ]
        rows = online.read_rows(session, state_view(self._history), keys, ["version"])
        cells = [row.get("version") for row in rows]
        return [cell.int64_val if cell is not None and cell.WhichOneof("val") else None for cell in cells]

    def write(self, session: Session, state: PublishedState) -> None:
        """Make the row tell this version; one step for every reader."""
        self._ensure(session)
        table = state_table(state)
        moment = pa.scalar(state.as_of, TIMESTAMP)
        history = self._rows()
        mine = pc.equal(history[STATE_KEY], state.ptk_id)
        replaced = pc.and_(mine, pc.equal(history[AS_OF_COLUMN], moment))
        parts = [history.filter(pc.invert(replaced)), dated(table.rows, state.as_of, state.published_at)]
        if not pc.any(mine, min_count=0).as_py():
            parts.append(without_values(parts[1], table.keys, _FLOOR, _FLOOR))
        self._put(pa.concat_tables(parts))
        online.write_rows(session, state_view(self._history), table, state.as_of)
        online.mark_served(session, STATE_VIEW, 0, "", ())

    def add_assurance(self, session: Session, ptk_id: str, assured: Mapping[int, Assured]) -> None:
        """Complete the rows of these versions that do not say yet why their guarantee is believed."""
        self._ensure(session)
        rows = self._rows().to_pylist()
        mine = [row for row in rows if row[STATE_KEY] == ptk_id and row["version"] is not None]
        changed = [row for row in mine if row["assurance"] is None and row["version"] in assured]
        for row in changed:
            row.update(assured[row["version"]].document())
        if not changed:
            return
        schema = dated(empty_state_table().rows, _FLOOR, _FLOOR).schema
        self._put(pa.Table.from_pylist(rows, schema=schema))
        newest = max(mine, key=lambda row: row[AS_OF_COLUMN])
        if self.versions(session, [ptk_id]) == [newest["version"]]:
            empty = empty_state_table()
            row = pa.Table.from_pylist([newest], schema=empty.rows.schema)
            table = ViewTable(STATE_VIEW, empty.keys, row)
            online.write_rows(session, state_view(self._history), table, newest[AS_OF_COLUMN])

    def erase(self, session: Session, ptk_id: str) -> None:
        """Take the row of a PTK away; repeatable."""
        self._ensure(session)
        history = self._rows()
        self._put(history.filter(pc.not_equal(history[STATE_KEY], ptk_id)))
        empty = empty_state_table()
        cells = [[ptk_id] if name == STATE_KEY else [None] for name in empty.rows.column_names]
        table = ViewTable(STATE_VIEW, empty.keys, pa.table(cells, schema=empty.rows.schema))
        online.write_rows(session, state_view(self._history), table, _FLOOR)

    def _ensure(self, session: Session) -> None:
        wanted, served = state_view(self._history), versions.served_view(session, STATE_VIEW)
        if served is not None:
            online.make_place(session, wanted)
            if {field.name for field in wanted.features} - {field.name for field in served.features}:
                self._put(self._rows())  # with empty cells in the columns that are new
                flips.widen(session, wanted)
            return
        empty = empty_state_table()
        path = self._history.path(STATE_VIEW, 0)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._put(dated(empty.rows, _FLOOR, _FLOOR))
        online.write_rows(session, wanted, empty, _FLOOR)
        flips.declare(session, entities_of(empty))
        flips.serve(session, wanted)

    def _rows(self) -> pa.Table:
        rows = pq.read_table(io.BytesIO(self._history.path(STATE_VIEW, 0).read_bytes()))
        columns = dated(empty_state_table().rows, _FLOOR, _FLOOR)
        return pa.concat_tables([columns, rows], promote_options="default")

    def _put(self, rows: pa.Table) -> None:
        buffer = io.BytesIO()
        pq.write_table(rows, buffer, compression="zstd")
        replace_file(self._history.path(STATE_VIEW, 0), buffer.getvalue(), mode=0o644)
