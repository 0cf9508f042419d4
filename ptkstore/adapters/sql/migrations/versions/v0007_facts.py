"""Facts get columns of their own: subjects of notices, parts of batches and positions of jobs said several things."""

from __future__ import annotations

import re
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "7"
down_revision = "6"

_AT_ONCE = 1_000
_POSITIONS = {
    "version": ("evaluate", "drift"),
    "facts_of": ("train",),
    "partial": ("partial",),
    "failures": ("prepare",),
    "until": ("expire",),
}
_MARK = "\x1f"
_NAME = r"[a-z][a-z0-9_]*"
_PTK = rf"(?P<ptk_id>{_NAME}\.{_NAME})"
_WINDOW = r"window (?P<window_index>0|[1-9][0-9]{0,17})"
_NUMBER = r"(?P<version>[1-9][0-9]{0,17})"
_SUBJECTS = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        rf"(?P<stream>{_NAME})( {_PTK}| {_WINDOW})?",
        rf"{_PTK}( {_WINDOW}| version {_NUMBER}| (?P<run>profile))?",
        rf"{_PTK} (?P<run>profile|drift|evaluate) of {_WINDOW}",
        rf"{_PTK} (?P<run>evaluat)ion of version {_NUMBER}",
        rf"{_PTK}( v{_NUMBER})? to (?P<subscription_id>\S+)",
    )
)
_FIRST_WORD = re.compile(rf"((?P<stream>{_NAME})|{_PTK})(?=\s)", re.ASCII)
_NUMBERS = ("window_index", "version")


def upgrade() -> None:
    """Add the columns, and fill them with what older programs wrote."""
    _move_notices(op.get_bind())
    _move_parts(op.get_bind())
    _move_positions(op.get_bind())


def _move_notices(connection: sa.Connection) -> None:
    for name in ("stream", "ptk_id", "run", "subscription_id"):
        op.add_column("notice", sa.Column(name, sa.String()))
    for name in _NUMBERS:
        op.add_column("notice", sa.Column(name, sa.BigInteger()))
    op.add_column("notice", sa.Column("text", sa.Text()))
    names = (
        "number",
        "subject",
        "stream",
        "ptk_id",
        "window_index",
        "version",
        "run",
        "subscription_id",
        "text",
    )
    notice = sa.table("notice", *map(sa.column, names))
    query = sa.select(notice.c.number, notice.c.subject).order_by(notice.c.number).limit(_AT_ONCE)
    change = sa.update(notice).where(notice.c.number == sa.bindparam("of"))
    change = change.values({name: sa.bindparam(f"new_{name}") for name in names[2:]})
    rows = connection.execute(query).all()
    while rows:
        connection.execute(
            change,
            [
                {"of": number, **{f"new_{name}": _facts(subject).get(name) for name in names[2:]}}
                for number, subject in rows
            ],
        )
        rows = connection.execute(query.where(notice.c.number > rows[-1].number)).all()
    with op.batch_alter_table("notice") as batch:  # SQLite drops a column in newer versions alone
        batch.drop_column("subject")
    op.create_index("notice_ptk", "notice", ["ptk_id", "window_index"])


def _facts(subject: str) -> dict[str, Any]:
    """The columns of a subject; one that cannot be read keeps its text, beside the stream or PTK it begins with."""
    found = next(filter(None, (pattern.fullmatch(subject) for pattern in _SUBJECTS)), None)
    if found is None:
        begun = _FIRST_WORD.match(subject)
        return {**(begun.groupdict() if begun else {}), "text": subject}
    facts: dict[str, Any] = found.groupdict()
    facts |= {name: int(facts[name]) for name in _NUMBERS if facts.get(name)}
    return facts if facts.get("run") != "evaluat" else {**facts, "run": "evaluate"}


def _move_parts(connection: sa.Connection) -> None:
    """A part was `<batch id><mark><part>/<parts>`, but the last one `<batch id>`; `<batch id><mark>` had no rows."""
    for name in ("part", "parts"):
        op.add_column("batch", sa.Column(name, sa.Integer(), nullable=False, server_default="1"))
    with op.batch_alter_table(
        "batch", naming_convention={"uq": "%(table_name)s_%(column_0_N_name)s_key"}
    ) as batch:
        batch.drop_constraint("batch_stream_batch_id_key", type_="unique")
        batch.create_unique_constraint("batch_stream_batch_id_part_key", ["stream", "batch_id", "part"])
    names = ("number", "stream", "batch_id", "part", "parts")
    table = sa.table("batch", *map(sa.column, names))
    query = sa.select(table.c.number, table.c.stream, table.c.batch_id)
    for number, stream, name in connection.execute(query.where(table.c.batch_id.contains(_MARK))).all():
        batch_id, _, cut = name.partition(_MARK)
        if not cut:
            connection.execute(sa.delete(table).where(table.c.number == number))
            continue
        if (
            "/" not in cut
        ):  # written before parts had a count: it stays a batch of its own, as it was taken for
            continue
        part, parts = map(int, cut.split("/"))
        last = sa.update(table).where(
            table.c.stream == stream, table.c.batch_id == batch_id, table.c.parts == 1
        )
        connection.execute(last.values(part=parts, parts=parts))
        this = sa.update(table).where(table.c.number == number)
        connection.execute(this.values(batch_id=batch_id, part=part, parts=parts))


def _move_positions(connection: sa.Connection) -> None:
    """Only the position of a cursor was one."""
    for name in _POSITIONS:
        op.add_column("job", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
    job = sa.table("job", sa.column("kind"), sa.column("position"), *map(sa.column, _POSITIONS))
    for name, kinds in _POSITIONS.items():
        moved = sa.update(job).where(job.c.kind.in_(kinds))
        connection.execute(moved.values({name: job.c.position, "position": 0}))
