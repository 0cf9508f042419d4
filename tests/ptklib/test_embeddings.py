"""User embeddings: what they learn, what they let out, and what they do with odd rows."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone

from ptklib import DPEstimator, ReleasedState, UserEmbeddings
from ptklib.arrays import Floats
from ptklib.checks.contract import CONTRACT, Case
from ptklib.embeddings import factors
from ptklib.embeddings.measure import Measurements
from ptklib.embeddings.plan import WEIGHT
from ptklib.exceptions import (
    CorruptStateError,
    InvalidDomainError,
    InvalidParameterError,
    SchemaError,
    UnboundedSensitivityError,
)
from ptklib.mechanisms import additive

N_USERS, N_ITEMS, TASTES = 6000, 120, 6


def events(taste: float, n_users: int = N_USERS, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return events to learn from and hidden ones; with `taste` 0 all users draw by popularity."""
    random = np.random.default_rng(seed)
    popularity = np.exp(random.normal(0, 1.0, N_ITEMS))
    own = np.arange(N_ITEMS) % TASTES == random.integers(0, TASTES, n_users)[:, None]
    law = np.log(popularity * np.where(own, 1.0, 1 - taste) + 1e-9) + random.gumbel(size=(n_users, N_ITEMS))
    order = np.argsort(-law, axis=1)[:, :15]
    users = np.repeat(np.arange(n_users), 15)
    pairs = pd.DataFrame({"user": users, "item": order.ravel()})
    hidden = np.tile(np.arange(15) % 5 == 4, n_users)
    return pairs[~hidden], pairs[hidden]


def model(**parameters: Any) -> UserEmbeddings:
    usual: dict[str, Any] = {
        "users": range(N_USERS),
        "items": range(N_ITEMS),
        "n_factors": TASTES,
        "max_rows_per_user": 12,
        "epsilon": 4.0,
        "delta": 1e-6,
    }
    return UserEmbeddings(**{**usual, **parameters})


def recall(scores: Floats, known: pd.DataFrame, hidden: pd.DataFrame) -> float:
    """Return the share of hidden items among the ten best of each user."""
    scores[known["user"], known["item"]] = -np.inf
    best = np.argsort(-scores, axis=1)[:, :10]
    wanted = np.zeros(scores.shape, dtype=np.bool_)
    wanted[hidden["user"], hidden["item"]] = True
    return float(np.take_along_axis(wanted, best, axis=1).sum() / len(hidden))


def by_popularity(known: pd.DataFrame, hidden: pd.DataFrame) -> float:
    counts = np.bincount(known["item"], minlength=N_ITEMS).astype(np.float64)
    return recall(np.tile(counts, (N_USERS, 1)), known, hidden)


@pytest.fixture(scope="module")
def learned() -> tuple[UserEmbeddings, pd.DataFrame, pd.DataFrame]:
    known, hidden = events(taste=0.95)
    return model().fit(known), known, hidden


def test_factors_recommend_far_better_than_popularity_where_users_have_tastes(learned: Any) -> None:
    fitted, known, hidden = learned
    vectors = fitted.embed(known)
    assert vectors["user"].tolist() == list(range(N_USERS))
    scores = vectors.drop(columns="user").to_numpy() @ fitted.item_factors_.T
    # 2.75 times as much on average, with a deviation below .1.
    assert recall(scores, known, hidden) > 1.5 * by_popularity(known, hidden)


def test_factors_of_events_without_tastes_do_not_lose_to_popularity() -> None:
    known, hidden = events(taste=0.0, seed=1)
    base = by_popularity(known, hidden)
    for _ in range(3):
        fitted = model(rounds=3).fit(known)
        scores = fitted.embed(known).drop(columns="user").to_numpy() @ fitted.item_factors_.T
        assert recall(scores, known, hidden) > 0.97 * base  # .998 on average, with a deviation of .004


@pytest.mark.parametrize("epsilon", [0.02, 0.3])
def test_with_too_few_users_for_the_budget_all_of_it_measures_popularity(
    epsilon: float, learned: Any
) -> None:
    _, known, _ = learned
    few = known[known["user"] < 400]
    fitted = model(epsilon=epsilon).fit(few)
    assert fitted.privacy_spent_ == model(epsilon=epsilon).declared_loss()
    first = model(epsilon=epsilon)._plan().counts.scale / 2**20 * 12**0.5
    assert fitted.noise_std_["items"]["count"] < 0.3 * first
    assert factors.alike(fitted.item_factors_)


def test_a_vector_depends_on_the_rows_of_its_user_only(learned: Any) -> None:
    fitted, known, _ = learned
    some = known[known["user"].isin([3, 70, 71])]
    together = fitted.embed(some)
    assert together["user"].tolist() == [3, 70, 71]
    for user in (3, 70, 71):
        alone = fitted.embed(known[known["user"] == user])
        assert np.array_equal(alone.to_numpy(), together[together["user"] == user].to_numpy())


def test_transform_gives_each_row_the_vector_of_its_user(learned: Any) -> None:
    fitted, known, _ = learned
    some = known[known["user"].isin([3, 70])].sample(frac=1.0, random_state=1)
    vectors = fitted.embed(some).set_index("user")
    assert np.array_equal(fitted.transform(some), vectors.loc[some["user"]].to_numpy())
    odd = pd.DataFrame({"user": [3, -1, 5], "item": [4, 4, -1]})  # known, unknown user, user without items
    strange = fitted.transform(odd)
    assert np.array_equal(strange[1], strange[2])
    assert not np.array_equal(strange[0], strange[1])


def test_a_user_without_rows_is_recommended_what_is_popular(learned: Any) -> None:
    fitted, known, _ = learned
    scores = fitted.transform(pd.DataFrame({"user": [5], "item": [-1]}))[0] @ fitted.item_factors_.T
    counts = np.bincount(known["item"], minlength=N_ITEMS)
    assert len(set(np.argsort(-scores)[:10]) & set(np.argsort(-counts)[:10])) >= 7


def test_recommendations_are_the_best_items_a_user_does_not_have(learned: Any) -> None:
    fitted, known, _ = learned
    some = known[known["user"].isin([3, 70])]
    found = fitted.recommend(some, n=4)
    assert found["user"].tolist() == [3] * 4 + [70] * 4
    vectors = fitted.embed(some).set_index("user")
    for user, mine in found.groupby("user"):
        scores = vectors.loc[user].to_numpy() @ fitted.item_factors_.T
        scores[some["item"][some["user"] == user]] = -np.inf
        assert mine["item"].tolist() == np.argsort(-scores)[:4].tolist()
        assert mine["score"].to_numpy() == pytest.approx(np.sort(scores)[::-1][:4])
    everything = pd.DataFrame({"user": 1, "item": range(N_ITEMS)})
    assert len(fitted.recommend(everything)) == 0
    assert list(fitted.recommend(some[:0]).columns) == ["user", "item", "score"]
    with pytest.raises(InvalidParameterError):
        fitted.recommend(some, n=0)


def test_released_vectors_of_users_need_no_rows_and_carry_their_taste() -> None:
    known, hidden = events(taste=0.95)
    fitted = model(guarantee="record", epsilon=10.0, delta=1e-4, rounds=4).fit(known)
    assert fitted.tables_["users"].num_rows == N_USERS
    vectors = fitted.transform(pd.DataFrame({"user": range(N_USERS)}))
    assert np.array_equal(
        vectors[7], [fitted.tables_["users"][f"user_factor_{i}"][7].as_py() for i in range(TASTES)]
    )
    assert recall(vectors @ fitted.item_factors_.T, known, hidden) > 1.5 * by_popularity(known, hidden)
    unknown = fitted.transform(pd.DataFrame({"user": [-3]}))[0]
    assert unknown == pytest.approx(vectors.mean(axis=0))
    assert "users" not in model().table_schemas()


def test_a_continued_state_keeps_its_factors_when_new_rows_tell_nothing(
    learned: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, _, _ = learned
    state = ReleasedState.from_files(before.to_state().to_files())
    monkeypatch.setattr(Measurements, "gains", lambda self, candidates, share: (np.zeros(4), 1.0))
    again = model(epsilon=0.1).finalize([], previous_state=state)
    assert again.n_releases_ == 2
    assert np.array_equal(again.item_factors_, before.item_factors_)


def test_a_continued_state_starts_from_its_factors(learned: Any) -> None:
    before, known, hidden = learned
    more, _ = events(taste=0.95, n_users=1500, seed=0)
    again = model(epsilon=2.0, rounds=2).fit(
        more, previous_state=ReleasedState.from_files(_with(before.to_state(), rounds=2).to_files())
    )
    scores = again.embed(known).drop(columns="user").to_numpy() @ again.item_factors_.T
    assert recall(scores, known, hidden) > 1.5 * by_popularity(known, hidden)  # 2.7, deviation below .1


def _with(state: ReleasedState, **parameters: Any) -> ReleasedState:
    meta = json.loads(
        json.dumps({**state.meta, "params": {**state.meta["params"], **parameters}}, default=dict)
    )
    return ReleasedState(dict(state.tables), meta)


def small(**parameters: Any) -> UserEmbeddings:
    usual: dict[str, Any] = {"users": range(9), "items": range(8), "n_factors": 2, "rounds": 2}
    return model(**{**usual, **parameters})


@pytest.mark.parametrize("number", [0.0, -1.0, 1e-200, 1e200, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("cells", [slice(None), slice(3, 4)])
def test_a_state_with_factors_that_are_never_released_is_refused(number: float, cells: slice) -> None:
    _assert_refused(small(), "items", "factor_1", cells, number)


@pytest.mark.parametrize("number", [-1.0, np.nan, np.inf])
def test_a_state_with_vectors_that_are_never_released_is_refused(number: float) -> None:
    _assert_refused(small(guarantee="record"), "users", "user_factor_1", slice(2, 3), number)


def _assert_refused(estimator: UserEmbeddings, table: str, column: str, cells: slice, number: float) -> None:
    state = clone(estimator).finalize([]).to_state()
    found = state.tables[table]
    place, numbers = found.column_names.index(column), found[column].to_numpy().copy()
    numbers[cells] = number
    broken = found.set_column(place, found.schema.field(place), pa.array(numbers))

    def crafted() -> ReleasedState:
        return ReleasedState({**state.tables, table: broken}, state.meta)

    with pytest.raises(CorruptStateError):
        estimator.fit(pd.DataFrame({"user": [1], "item": [2]}), previous_state=crafted())
    with pytest.raises(CorruptStateError):
        DPEstimator.from_state(crafted())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("guarantee", ["user", "record"])
@pytest.mark.parametrize("high", [1e-100, 1e100])
def test_the_most_extreme_bounds_give_numbers_that_can_be_continued(high: float, guarantee: str) -> None:
    rated = model(rating="stars", bounds=(0, high), guarantee=guarantee, rounds=2, max_rows_per_user=10_000)
    known, _ = events(taste=0.95, n_users=2000)
    rows = known.assign(stars=high)
    state = rated.fit(rows).to_state()
    again = rated.fit(rows, previous_state=ReleasedState.from_files(state.to_files()))
    assert np.isfinite(again.embed(rows[:100]).to_numpy()).all()
    assert DPEstimator.from_state(again.to_state()).transform(rows[:9]).shape == (9, TASTES)


@pytest.fixture
def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(additive, "gaussian", lambda units, *, scale: units)


@pytest.mark.usefixtures("without_noise")
def test_rows_of_a_user_are_bounded_when_all_shards_are_there() -> None:
    shard = pd.DataFrame({"user": [1] * 60 + [2], "item": [*range(60), 3]})
    small = model(max_rows_per_user=10, rounds=1)
    whole = small.finalize([small.partial_statistics(shard), small.partial_statistics(shard)])
    assert sum(whole.tables_["items"]["count"].to_pylist()) <= 12 / 0.9 * 2 + 1e-3
    exact = model(max_rows_per_user=10, rounds=1)._release(
        {
            "rows": small.merge(
                [small.partial_statistics(shard[:5]), small.partial_statistics(shard[-1:])]
            ).arrays["rows"]
        },
        None,
    )
    assert exact.tables["items"].num_rows == N_ITEMS


def test_partial_statistics_are_quantised_rows_of_declared_users_and_items() -> None:
    rated = model(rating="stars", bounds=(1, 5))
    table = pd.DataFrame(
        {
            "user": [0, 5, -1, 7, 8, 9, 10, 11],
            "item": [3, 0, 1, N_ITEMS, 2, 2, 2, 2],
            "stars": [5.0, 2.5, 4, 4, np.nan, np.inf, -3, 1e300],
        }
    )
    found = rated.partial_statistics(table).arrays["rows"].reshape(-1, 3)
    one, half = WEIGHT // 5, WEIGHT // 2
    assert found.tolist() == [[0, 3, WEIGHT], [5, 0, half], [10, 2, one], [11, 2, WEIGHT]]
    counted = model().partial_statistics(table).arrays["rows"].reshape(-1, 3)
    assert counted[:, 2].tolist() == [WEIGHT] * 6


def test_the_error_is_the_share_of_hidden_rows_that_are_not_recommended(learned: Any) -> None:
    fitted, known, _ = learned
    error = fitted.error_from_true_value(fitted.partial_statistics(known[known["user"] < 500]))
    popular = model().finalize([])
    worse = popular.error_from_true_value(popular.partial_statistics(known[known["user"] < 500]))
    assert 0 <= error < 0.9 * worse <= 1


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"delta": 0}, InvalidParameterError),
        ({"n_factors": 0}, InvalidParameterError),
        ({"n_factors": True}, InvalidParameterError),
        ({"n_factors": N_ITEMS}, InvalidParameterError),
        ({"n_factors": 257}, InvalidParameterError),
        ({"items": [4]}, InvalidDomainError),
        ({"items": None}, InvalidDomainError),
        ({"users": "abc"}, InvalidDomainError),
        ({"max_rows_per_user": 0}, InvalidParameterError),
        ({"max_rows_per_user": 2.0}, InvalidParameterError),
        ({"rounds": 0}, InvalidParameterError),
        ({"batch_rate": 0}, InvalidParameterError),
        ({"batch_rate": 1.1}, InvalidParameterError),
        ({"batch_rate": "half"}, InvalidParameterError),
        ({"guarantee": "row"}, InvalidParameterError),
        ({"guarantee": "record", "batch_rate": 0.5}, InvalidParameterError),
        ({"bounds": (0, 5)}, InvalidParameterError),
        ({"rating": "stars"}, UnboundedSensitivityError),
        ({"rating": "stars", "bounds": (-1, 5)}, InvalidParameterError),
        ({"rating": "stars", "bounds": (0, 1e-170)}, InvalidParameterError),
        ({"rating": "stars", "bounds": (0, 0.99e-100)}, InvalidParameterError),
        ({"rating": "stars", "bounds": (0, 1.01e100)}, InvalidParameterError),
        ({"rating": "stars", "bounds": (0, 1e307)}, InvalidParameterError),
        ({"user": "item"}, InvalidParameterError),
        ({"item": "count"}, InvalidParameterError),
    ],
)
def test_unusable_parameters_are_refused_before_data_are_read(
    parameters: dict[str, Any], error: type[Exception]
) -> None:
    for use in (lambda m: m.declared_loss(), lambda m: m.fit(object())):
        with pytest.raises(error):
            use(model(**parameters))


def test_ids_may_be_strings_and_columns_have_any_name() -> None:
    table = pa.table({"who": ["a", "b", "zzz"], "what": ["x", "y", "x"]})
    named = UserEmbeddings(
        "who",
        "what",
        users=["a", "b"],
        items=["x", "y", "z"],
        n_factors=2,
        max_rows_per_user=5,
        epsilon=1.0,
        delta=1e-6,
    )
    fitted = named.fit(table)
    assert fitted.tables_["items"]["what"].to_pylist() == ["x", "y", "z"]
    assert fitted.embed(table)["who"].tolist() == ["a", "b"]
    with pytest.raises(SchemaError, match="'what' is missing"):
        named.fit(table.drop(["what"]))
    again = DPEstimator.from_state(fitted.to_state())
    assert np.array_equal(again.transform(table), fitted.transform(table))
    assert clone(named).get_params()["users"] == ["a", "b"]


@pytest.mark.parametrize("guarantee", ["user", "record"])
@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__.removeprefix("check_"))
def test_user_embeddings_keep_the_contract(check: Any, guarantee: str) -> None:
    small = UserEmbeddings(
        "user",
        "item",
        users=range(6),
        items=range(8),
        n_factors=2,
        max_rows_per_user=9,
        rounds=2,
        guarantee=guarantee,
        epsilon=1.0,
        delta=1e-6,
    )
    check(Case(small))
