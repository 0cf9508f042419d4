"""Facts get columns of their own: what a notice is about was one text."""

from __future__ import annotations

import re
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "7"
down_revision = "6"

_AT_ONCE = 1_000
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
