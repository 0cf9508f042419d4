"""Every family travels the whole way: registered as data, trained on two windows, read back by Feast."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone

from ptklib import DPEstimator
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.streams.policies import Closing, Policy
from ptkstore.domain.streams.schemas import ColumnType, Schema
from ptkstore.domain.streams.streams import Stream
from ptkstore.errors import InvalidRequest
from ptkstore.sdk import Store, featurize
from tests.support.families import EXAMPLES, Example, rows
from tests.support.world import DAY, ORIGIN, STREAM, World

WINDOWS = 2
SCHEMA = Schema(
    (
        ("at", ColumnType.TIMESTAMP),
        ("zone", ColumnType.STRING),
        ("hour", ColumnType.INT64),
        ("speed", ColumnType.FLOAT64),
        ("fare", ColumnType.FLOAT64),
        ("long", ColumnType.BOOL),
    ),
    "at",
)
SERVED = [e for e in EXAMPLES if e.label is None and e.estimator.privacy_unit() == "record"]
REGISTERED = {f"p{i}": example for i, example in enumerate(SERVED)}


def trips(window: int) -> pa.Table:
    """Rows of one window, in the order of its time."""
    frame = rows(300, seed=window)
    times = np.datetime64(ORIGIN.replace(tzinfo=None) + window * DAY, "us") + np.arange(len(frame)) * 10**6
    return pa.table({"at": pa.array(times, pa.timestamp("us", tz="UTC")), **pa.table(frame).to_pydict()})


def shared(example: Example) -> DPEstimator:
    """The example with a loss that leaves room for all others."""
    estimator: DPEstimator = clone(example.estimator).set_params(epsilon=0.25)
    return estimator


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("families") / "home")
    del world.service.__dict__["features"]  # Feast itself
    policy = Policy(
        Loss.capacity(9, 1e-3),
        timedelta(days=1),
        ORIGIN,
        closing=Closing.OPERATOR,
        retention_windows=3,
        rows_per_window=300,
    )
    world.service.create_stream(Stream(STREAM, "taxi", SCHEMA, policy))
    for name, example in REGISTERED.items():
        world.register(name, estimator=shared(example).to_spec())
    for window in range(WINDOWS):
        world.service.ingest(STREAM, trips(window))
        world.close(window + 1)
        world.work("prepare", "allocate", "train", "place", "flip")
    yield world
    world.service.close()


@pytest.fixture(scope="module")
def store(world: World) -> Store:
    return Store(world.service)


@pytest.mark.long
@pytest.mark.parametrize("name", REGISTERED, ids=lambda name: REGISTERED[name].name)
def test_a_family_is_published_each_window_and_continues_its_state(store: Store, name: str) -> None:
    ptk = store.ptk(f"taxi.{name}")
    assert (ptk.version, ptk.model_state.meta["n_releases"]) == (WINDOWS, WINDOWS)
    assert type(DPEstimator.from_state(ptk.model_state)) is type(REGISTERED[name].estimator)


@pytest.mark.parametrize("name", REGISTERED, ids=lambda name: REGISTERED[name].name)
def test_feast_answers_with_the_released_rows(store: Store, name: str) -> None:
    state = store.ptk(f"taxi.{name}").model_state
    for table_name, table in state.tables.items():
        schema = state.schemas[table_name]
        view = f"taxi__{name}" if len(state.tables) == 1 else f"taxi__{name}__{table_name}"
        some = table.slice(0, 3).to_pylist()
        values = [column for column in table.column_names if column not in schema.keys]
        entities = [{key: row[key] for key in schema.keys} for row in some]
        found = store.look_up([f"{view}:{column}" for column in values], entities) if entities else []
        assert [_plain(row) for row in found] == [_plain({c: row[c] for c in values}) for row in some]


@pytest.mark.parametrize("name", REGISTERED, ids=lambda name: REGISTERED[name].name)
def test_a_published_state_featurizes_a_table(store: Store, name: str) -> None:
    data = trips(5)
    (made,) = featurize([data], [store.ptk(f"taxi.{name}")])
    model = DPEstimator.from_state(store.ptk(f"taxi.{name}").model_state)
    expected = np.asarray(model.transform(data))
    found = np.column_stack([column.to_numpy() for column in made.columns[data.num_columns :]])
    assert np.array_equal(found, expected, equal_nan=True)


def test_a_loss_towards_users_is_refused_where_records_are_accounted_for(world: World) -> None:
    towards_users = [e for e in EXAMPLES if e.estimator.privacy_unit() == "user"]
    bounded = clone(SERVED[0].estimator).set_params(unit="zone")
    for estimator in (*(e.estimator for e in towards_users), bounded):
        with pytest.raises(InvalidRequest, match="states its loss per user"):
            world.register("other", estimator=estimator.to_spec())
    assert towards_users


def test_nothing_is_lost_and_no_block_has_lost_more_than_it_may(world: World, store: Store) -> None:
    assert [n for n in world.notices() if n[1] != "published"] == []
    spent = [block["spent_epsilon"] for block in store.budget(STREAM)]
    assert 0.25 < max(spent) < 0.25 * len(REGISTERED)  # curves add up to less than epsilons do
    assert world.service.verify_ledger(STREAM).faults == ()


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Feast's protobuf keeps float64 and int64 exactly; numpy scalars become Python's."""
    return {key: value.item() if hasattr(value, "item") else value for key, value in row.items()}
