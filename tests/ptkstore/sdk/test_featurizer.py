"""Published PTKs as a scikit-learn transformer: tables of four kinds, pipelines, clones, and new versions."""

from __future__ import annotations

import gc
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline

import ptkstore
from ptklib.exceptions import SchemaError
from ptkstore import Featurizer, featurize
from ptkstore.domain.identity import Role
from ptkstore.errors import InvalidRequest, UnknownName
from ptkstore.sdk import Store
from tests.support.api_server import Api
from tests.support.cases import case
from tests.support.waiting import until
from tests.support.world import World

PTK = "taxi.speed"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "home")
    made.stream()
    made.register()
    made.publish(0)
    yield made
    made.service.close()


@pytest.fixture
def store(world: World) -> Store:
    return Store(world.service)


@pytest.fixture
def rows() -> pd.DataFrame:
    """Two known hours and one that no state has; the index says nothing about the place."""
    return pd.DataFrame({"hour": [3, 99, 4], "other": ["a", "b", "c"]}, index=[30, 10, 20])


def names_of(store: Store) -> list[str]:
    return list(Featurizer(store, [PTK]).fit().get_feature_names_out())


def test_features_are_those_of_featurize_and_unknown_keys_get_declared_defaults(
    store: Store, rows: pd.DataFrame
) -> None:
    values = Featurizer(store, [PTK]).fit().transform(rows)
    table = next(featurize([rows], [store.ptk(PTK)]))
    names = names_of(store)
    assert [f"taxi__speed__{name}" for name in store.ptk(PTK).estimator.get_feature_names_out()] == names
    assert np.array_equal(values, table.select(names).to_pandas().to_numpy())
    unknown = store.ptk(PTK).estimator.transform(pd.DataFrame({"hour": [99]}))
    assert np.array_equal(values[1], unknown[0])
    assert not np.isnan(values).any()


@pytest.mark.parametrize("container", ["default", "pandas", "polars"])
def test_the_output_is_of_the_container_that_was_asked_for(
    store: Store, rows: pd.DataFrame, container: Any
) -> None:
    made = Featurizer(store, [PTK]).set_output(transform=container).fit_transform(rows)
    kinds = {"default": np.ndarray, "pandas": pd.DataFrame, "polars": pl.DataFrame}
    assert isinstance(made, kinds[container])
    if container != "default":
        assert list(made.columns) == names_of(store)
    if container == "pandas":
        assert list(made.index) == [30, 10, 20]


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "batch", "array"])
def test_every_kind_of_table_gives_the_same_features(store: Store, rows: pd.DataFrame, kind: str) -> None:
    arrow = pa.Table.from_pandas(rows, preserve_index=False)
    table: Any = {
        "pandas": rows,
        "polars": pl.DataFrame(rows),
        "pyarrow": arrow,
        "batch": arrow.to_batches()[0],
        "array": rows[["hour"]].to_numpy(),
    }[kind]
    made = Featurizer(store, [PTK]).fit()
    assert np.array_equal(made.transform(table), made.transform(rows))


def test_append_gives_back_the_kind_of_table_that_it_took(store: Store, rows: pd.DataFrame) -> None:
    made, names = Featurizer(store, [PTK]).fit(), names_of(store)
    frame = made.append(rows)
    assert list(frame.columns) == ["hour", "other", *names]
    assert list(frame.index) == [30, 10, 20]
    polars = made.append(pl.DataFrame(rows))
    assert isinstance(polars, pl.DataFrame)
    assert polars.equals(pl.DataFrame(frame.reset_index(drop=True)))
    arrow = made.append(pa.Table.from_pandas(rows, preserve_index=False))
    assert arrow.to_pandas().equals(frame.reset_index(drop=True))
    for other in ([[1]], np.array([[1]]), "x"):
        with pytest.raises(InvalidRequest):
            made.append(other)
    with pytest.raises(InvalidRequest, match="hour"):
        made.append(pd.DataFrame({"other": [1]}))
    with pytest.raises(SchemaError, match="collect"):
        made.transform(pl.DataFrame(rows).lazy())


def test_texts_of_polars_are_keys_too(world: World, store: Store) -> None:
    from ptklib import CountFeaturizer

    world.register(
        "zones",
        estimator=CountFeaturizer(
            features=["zone"],
            label="long",
            classes=[False, True],
            domains={"zone": ["z", "y"]},
            epsilon=0.1,
        ).to_spec(),
    )
    world.publish(1)
    made = Featurizer(store, ["taxi.zones"]).fit()
    frame = pd.DataFrame({"zone": ["z", "y", "nowhere"]})
    assert np.array_equal(made.transform(pl.DataFrame(frame)), made.transform(frame))
    assert np.array_equal(
        next(featurize([pl.DataFrame(frame)], made.ptks_)).column(1), made.transform(frame)[:, 0]
    )


def test_it_is_a_step_of_pipelines_and_column_transformers(store: Store, rows: pd.DataFrame) -> None:
    columns = ColumnTransformer(
        [("speed", Featurizer(store, [PTK]), ["hour"]), ("kept", "passthrough", ["hour"])],
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    model = Pipeline([("features", columns), ("regression", LinearRegression())])
    fitted = clone(model).fit(rows, [1.0, 2.0, 3.0])
    assert list(fitted[0].get_feature_names_out()) == [*names_of(store), "hour"]
    assert fitted.predict(rows) == pytest.approx([1.0, 2.0, 3.0])


def test_a_clone_shares_the_store_and_keeps_what_was_given(store: Store) -> None:
    made = Featurizer(store, [PTK], refresh=None).fit()
    twin = clone(made)
    assert twin.get_params() == made.get_params()
    assert twin.store is store
    assert not hasattr(twin, "ptks_")


def test_a_featurizer_is_not_pickled_with_its_store(store: Store) -> None:
    with pytest.raises(TypeError):
        pickle.dumps(Featurizer(store, [PTK]))


def test_threads_of_a_cross_validation_share_the_store(store: Store) -> None:
    rows = pd.DataFrame({"hour": np.arange(60) % 24, "fare": np.arange(60.0)})
    model = make_pipeline(Featurizer(store, [PTK]), LinearRegression())
    alone = cross_val_score(model, rows[["hour"]], rows["fare"], cv=3)
    with joblib.parallel_config(backend="threading"):
        assert cross_val_score(model, rows[["hour"]], rows["fare"], cv=3, n_jobs=2) == pytest.approx(alone)


def test_a_pinned_version_stays_and_the_newest_is_taken_on_request(world: World, store: Store) -> None:
    newest, pinned = Featurizer(store, [PTK]).fit(), Featurizer(store, [f"{PTK}@v1"]).fit()
    in_hand = Featurizer(None, [store.ptk(PTK)]).fit()
    assert not newest.update()
    world.publish(1)
    assert newest.update()
    assert not newest.update()
    assert not pinned.update()
    assert [one.ptks_[0].version for one in (newest, pinned, in_hand)] == [2, 1, 1]
    assert Featurizer(store, [f"{PTK}@2"]).fit().ptks_[0].version == 2


def test_what_cannot_be_loaded_is_refused(store: Store) -> None:
    for ptks, error in [
        ([], InvalidRequest),
        (PTK, InvalidRequest),
        (["taxi"], InvalidRequest),
        ([f"{PTK}@latest"], InvalidRequest),
        ([f"{PTK}@"], InvalidRequest),
        ([f"{PTK}@v9"], UnknownName),
        (["taxi.other"], UnknownName),
    ]:
        with case(str((ptks, error))), pytest.raises(error):
            Featurizer(store, ptks).fit()


def test_other_ways_to_refresh_and_no_store_are_refused(store: Store) -> None:
    with pytest.raises(InvalidRequest):
        Featurizer(store, [PTK], refresh="always").fit()
    with pytest.raises(InvalidRequest):
        Featurizer(None, [PTK]).fit()


def test_several_ptks_stand_side_by_side(world: World, store: Store, rows: pd.DataFrame) -> None:
    world.register("again")
    world.publish(1)
    made = Featurizer(store, [PTK, "taxi.again"]).fit()
    values = made.transform(rows)
    assert values.shape == (3, 2 * len(names_of(store)))
    assert list(made.append(rows).columns) == ["hour", "other", *made.get_feature_names_out()]


def test_a_new_version_takes_the_place_of_the_old_one_by_itself(
    world: World, store: Store, rows: pd.DataFrame
) -> None:
    made = Featurizer(store, [PTK], refresh="event").fit()
    before = made.transform(rows)
    world.publish(1)
    until(lambda: made.ptks_[0].version == 2)
    assert not np.array_equal(made.transform(rows), before)
    made.close()
    world.publish(2)
    assert Featurizer(store, [PTK]).fit().ptks_[0].version == 3
    assert made.ptks_[0].version == 2


def test_nobody_follows_for_a_featurizer_that_is_gone(
    world: World, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptkstore.sdk.featurizer.WAIT_SECONDS", 0.05)

    earlier = set(threading.enumerate())  # of other tests, until their wait is over

    def followers() -> int:
        return sum(one.name == f"featurizer {PTK}" for one in set(threading.enumerate()) - earlier)

    made = Featurizer(store, [PTK], refresh="event").fit()
    assert followers() == 1
    del made
    gc.collect()
    until(lambda: followers() == 0)


@pytest.mark.long
def test_over_http_events_tell_of_new_versions(tmp_path: Path, rows: pd.DataFrame) -> None:
    with Api(tmp_path / "home") as api:
        api.world.stream()
        api.world.register()
        api.world.publish(0)
        url = str(api.client().base_url)
        token = api.acting(Role.CONSUMER).headers["Authorization"].removeprefix("Bearer ")
        with ptkstore.connect(url, token=token) as remote:
            assert remote.wait_for_version(PTK, 0, 30) == 1
            assert remote.wait_for_version(PTK, 1, 0.1) is None
            with pytest.raises(UnknownName):
                remote.wait_for_version("taxi.other", 0, 1)
            made = Featurizer(remote, [PTK], refresh="event").fit()
            assert made.ptks_[0].version == 1
            api.world.publish(1)
            until(lambda: made.ptks_[0].version == 2)
            made.close()
            assert np.array_equal(
                made.transform(rows), Featurizer(Store(api.world.service), [PTK]).fit().transform(rows)
            )


def test_a_version_to_come_is_waited_for_here_too(world: World, store: Store) -> None:
    assert store.wait_for_version(PTK, 0, 0) == 1
    assert store.wait_for_version(PTK, 1, 0.05) is None
    with pytest.raises(UnknownName):
        store.wait_for_version("taxi.other", 0, 1)
