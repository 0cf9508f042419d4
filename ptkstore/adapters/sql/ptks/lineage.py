"""The origin of versions, read out of their manifests."""

from __future__ import annotations

from typing import Any

import orjson
from sqlalchemy import Connection, bindparam, exists, select

from ptkstore.adapters.sql import tables as t
from ptkstore.domain.accounting.assurances import assured_in
from ptkstore.domain.streams.windows import WindowId
from ptkstore.domain.versions.versions import Lineage

AT_ONCE = 100
"""Versions that are read in one go: their manifests grow with every block that is in a state."""


def lineage_since(connection: Connection, ptk_id: str, since: WindowId) -> tuple[Lineage, ...]:
    """Read the lineage of a PTK's versions whose newest window is this one or a later one of its stream, by number.

    PostgreSQL parses no JSON here: one text of a manifest that it cannot hold would end the query for all rows.
    """
    query = (
        select(t.versions.c.number, t.versions.c.window_index, t.versions.c.manifest)
        .where(t.versions.c.ptk_id == ptk_id, t.versions.c.window_index >= since.index)
        .where(exists().where(t.jobs.c.id == t.versions.c.job_id, t.jobs.c.stream == since.stream))
        .where(t.versions.c.number > bindparam("after"))
        .order_by(t.versions.c.number)
        .limit(AT_ONCE)
    )
    found: list[Lineage] = []
    while rows := connection.execute(query, {"after": found[-1].number if found else 0}).all():
        found += (_lineage(ptk_id, number, index, manifest) for number, index, manifest in rows)
    return tuple(found)


def _lineage(ptk_id: str, number: int, window_index: int, manifest: str) -> Lineage:
    try:
        content = orjson.loads(manifest)
        end, decision, made_from, windows = _said(content)
        assured = assured_in(content, ptk_id)
    except (ValueError, TypeError, LookupError, AttributeError):
        return Lineage(ptk_id, number, window_index)  # others are told nevertheless
    return Lineage(ptk_id, number, window_index, end, decision, made_from, assured, windows)


def _said(content: Any) -> tuple[str, str, tuple[tuple[str, int], ...], tuple[int, ...]]:
    end, decision = content["newest_contributing_window"]["end"], content["release_decision"]
    made_from = tuple((one["ptk_id"], one["version"]) for one in content.get("made_from") or ())
    texts = [end, decision, *(ptk_id for ptk_id, _ in made_from)]
    windows = tuple(content.get("windows", ()))
    numbers = (*(number for _, number in made_from), *windows)
    if not all(type(one) is str for one in texts) or not all(type(number) is int for number in numbers):
        raise TypeError
    return end, decision, made_from, windows
