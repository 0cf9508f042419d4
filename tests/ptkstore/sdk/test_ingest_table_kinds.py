"""Rows of every kind of table are stored by the names of their columns, at home and over HTTP."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from ptkstore import errors as e
from ptkstore.domain.streams.windows import WindowId
from ptkstore.sdk import Store
from tests.support.cases import case
from tests.support.tables import NAMED
from tests.support.world import STREAM, World, trips

NO_INTEGERS = {"whole floats", "short floats", "whole decimals"}
"""Kinds whose hours have a type that a column of integers does not take."""


def stored(world: World) -> list[dict[str, Any]]:
    """The rows of the first window."""
    with world.service.begin() as uow:
        tokens = uow.streams.tokens_for(WindowId(STREAM, 0))
    key = world.service.keys.sealing_key(WindowId(STREAM, 0))
    tables = world.service.raw.read_batches(WindowId(STREAM, 0), tokens, key)
    return [row for table in tables for row in table.to_pylist()]


def given() -> pd.DataFrame:
    frame = trips([0.1, 0.2, 0.3, 0.4, 0.5]).to_pandas()
    frame["at"] = frame["at"].dt.tz_localize(None)
    return frame[["zone", "long", "speed", "at", "hour"]]  # another order than the stream's


def test_tables_of_all_kinds_are_stored_by_name(store: Store, world: World) -> None:
    world.stream()
    for number, (kind, made) in enumerate(NAMED.items()):
        if kind in NO_INTEGERS:
            with pytest.raises(e.SchemaMismatch, match="column 'hour' "):
                store.ingest(STREAM, made(given()), f"batch-{number}")
            continue
        assert store.ingest(STREAM, made(given()), f"batch-{number}").accepted == 5, kind
    rows = stored(world)
    expected = trips([0.1, 0.2, 0.3, 0.4, 0.5]).to_pylist()
    found = sorted(({n: row[n] for n in expected[0]} for row in rows), key=lambda row: row["at"])
    times = len(NAMED) - len(NO_INTEGERS)
    assert found == [row for row in expected for _ in range(times)]


def test_what_cannot_be_read_is_refused_with_what_to_do(store: Store, world: World) -> None:
    world.stream()
    for table, message in [
        (np.zeros((2, 5)), "no column names"),
        ([[1, 2], [3, 4]], "no column names"),
        (pl.DataFrame({"hour": [1]}).lazy(), "collect it first"),
        ({"hour": [1, 2], "speed": [1.0]}, "different lengths"),
        (pd.DataFrame({"hour": [1, "secret"]}), "'hour' has values that are not of one type"),
    ]:
        with case(message):
            with pytest.raises(e.SchemaMismatch, match=message) as told:
                store.ingest(STREAM, table)
            assert "secret" not in str(told.value)
