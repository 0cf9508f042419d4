"""The parts of user embeddings: sensitivity of each measurement, the local step, what is made of noise."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.special import psi

from ptklib.arrays import Floats, Ints
from ptklib.embeddings import factors, measure, training
from ptklib.embeddings.measure import Measurements
from ptklib.embeddings.plan import CANDIDATES, LOADING, UNIT, WEIGHT, FitPlan, Measurement, Shape, plan_rounds
from ptklib.embeddings.poisson import ACTIVITY_SHAPE, FACTOR_SHAPE, Items, local_step
from ptklib.embeddings.spectrum import GRID, common_taste, hidden_below, largest_of_noise, rounding
from ptklib.embeddings.users import Users
from ptklib.embeddings.vectors import noisy_loadings, vectors
from ptklib.mechanisms import additive

N_ITEMS, K = 12, 3
PLAN = plan_rounds(Shape(40, N_ITEMS, K, 2, 0.5, "user"), 1.0, 1e-6)


def some_rows(n_users: int = 30, seed: int = 3) -> Ints:
    random = np.random.default_rng(seed)
    n = 20 * n_users
    weights = np.where(random.random(n) < 0.1, 50 * WEIGHT, random.integers(0, WEIGHT, n))
    return np.column_stack([random.integers(0, n_users, n), random.integers(0, N_ITEMS, n), weights])


def some_items(seed: int = 4) -> Items:
    random = np.random.default_rng(seed)
    return Items.posterior(random.gamma(0.5, 1.0, (N_ITEMS, K)) + 0.01, random.gamma(2.0, 1.0, K) + 0.5)


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> list[Ints]:
    """Take noise away, keep what was going to be noised, and let every coin fall on the side of training."""
    seen: list[Ints] = []

    def without_noise(units: Ints, *, scale: float) -> Ints:
        seen.append(units.copy())
        return units

    monkeypatch.setattr(additive, "gaussian", without_noise)
    monkeypatch.setattr(Users, "coins", lambda self, rate: np.full(len(self), rate == 0.5))
    return seen


def taken(users: Users, measure: Callable[[Measurements], object], exact: list[Ints]) -> Ints:
    exact.clear()
    measure(Measurements(users, N_ITEMS, PLAN))
    return np.concatenate(exact)


MEASURES: dict[str, Callable[[Measurements], object]] = {
    "counts": lambda m: m.counts(1.5),
    "usual counts": lambda m: m.usual_counts(0.9),
    "counts in place of directions": lambda m: m.more_counts(0.9, sampled=False),
    "counts in place of a round": lambda m: m.more_counts(0.9, sampled=True),
    "directions": lambda m: m.directions(
        np.linalg.qr(np.random.default_rng(1).standard_normal((N_ITEMS, K)))[0],
        np.linspace(0.1, 5, N_ITEMS),
        0.3,
    ),
    "statistics of all": lambda m: m.statistics(some_items(), 0.7, sampled=False),
    "statistics of a sample": lambda m: m.statistics(some_items(), 0.7, sampled=True),
}


@pytest.mark.parametrize("name", list(MEASURES))
def test_a_user_adds_an_integer_vector_of_bounded_length_and_changes_nothing_else(
    name: str, exact: list[Ints]
) -> None:
    rows, take = some_rows(), MEASURES[name]
    whole = taken(Users.of(rows, 1 / WEIGHT, N_ITEMS), take, exact)
    longest = 0.0
    for user in range(30):
        mine = rows[:, 0] == user
        without = taken(Users.of(rows[~mine], 1 / WEIGHT, N_ITEMS), take, exact)
        alone = taken(Users.of(rows[mine], 1 / WEIGHT, N_ITEMS), take, exact)
        assert np.array_equal(whole - without, alone)  # bit by bit: no rounding depends on other users
        longest = max(longest, float(np.linalg.norm(alone.astype(np.float64))))
    assert 0.99 * UNIT < longest <= UNIT


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("weight", [np.nan, np.inf, 1e200, 1e308])
@pytest.mark.parametrize("name", [name for name in MEASURES if name != "directions"])
def test_a_user_without_a_finite_length_adds_nothing(name: str, weight: float, exact: list[Ints]) -> None:
    rows, take = some_rows(), MEASURES[name]
    users = Users.of(rows, 1 / WEIGHT, N_ITEMS)
    users.weights[users.starts[4] + 1] = weight
    without = taken(Users.of(rows[rows[:, 0] != 4], 1 / WEIGHT, N_ITEMS), take, exact)
    assert np.array_equal(taken(users, take, exact), without)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("weight", [np.nan, np.inf, 1e200, 1e308])
def test_directions_stay_bounded_for_a_user_without_a_finite_length(weight: float, exact: list[Ints]) -> None:
    users = Users.of(some_rows(1), 1 / WEIGHT, N_ITEMS)
    users.weights[1] = weight
    moved = taken(users, MEASURES["directions"], exact)
    assert np.linalg.norm(moved.astype(np.float64)) <= UNIT


@pytest.mark.parametrize("theirs", [None, 1e-170, 1.0, 1e307, np.nan])
def test_no_clipping_length_lets_a_user_add_more(theirs: float | None) -> None:
    own = None if theirs is None else np.array([[theirs], [3.0]])
    owners = np.array([0, 0, 1])
    lengths = [0.0, 1e-320, 1e-170, 1e-150, 1e170, 1e307, np.inf, np.nan]
    for longest, weight in product(lengths, [1e-320, 1e-170, 1.0, 1e170, 1e307]):
        parts = np.array([[weight, 0.0], [weight, -weight], [1.0, 2.0]])
        with np.errstate(all="ignore"):
            units, rest = measure._clipped(parts, owners, 2, longest, own)
        for user in range(2):
            moved = np.linalg.norm(np.append(units[owners == user].ravel(), rest[user]))
            assert moved <= UNIT, (longest, weight, user)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 0.0, 1e308, 1e-320, -1.0])
def test_a_user_is_bounded_whatever_the_factors(number: float, exact: list[Ints]) -> None:
    rows = some_rows()
    for cells in (np.s_[:, 0], np.s_[2, 1], np.s_[:]):
        mean = some_items().mean.copy()
        mean[cells] = number
        items = Items(mean, mean, np.full(K, FACTOR_SHAPE))
        for user in (3, 8):
            users = Users.of(rows[rows[:, 0] == user], 1 / WEIGHT, N_ITEMS)
            moved = taken(users, lambda m: m.statistics(items, 0.7, sampled=False), exact)  # noqa: B023
            assert np.linalg.norm(moved.astype(np.float64)) <= UNIT


def test_a_user_kept_apart_moves_the_comparison_by_a_bounded_length(
    exact: list[Ints], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Users, "coins", lambda self, rate: np.full(len(self), rate != 0.5))
    monkeypatch.setattr("ptklib.embeddings.measure.tossed", lambda n, rate: np.arange(n) % 2 == 0)
    rows = some_rows()
    candidates = [Items.known(some_items(seed).mean) for seed in range(CANDIDATES)]
    popularity = np.linspace(1, 2, N_ITEMS)
    moved = []
    for user in range(30):
        users = Users.of(rows[rows[:, 0] == user], 1 / WEIGHT, N_ITEMS)
        gains = taken(users, lambda m: m.gains(candidates, popularity), exact)
        moved.append(np.linalg.norm(gains.astype(np.float64)))
    assert 0 < max(moved) <= UNIT


def test_users_train_or_compare_and_never_both() -> None:
    users = Users.of(some_rows(200), 1.0, N_ITEMS)
    measured = Measurements(users, N_ITEMS, PLAN)
    train, apart = set(measured._train.ids.tolist()), set(measured._apart.ids.tolist())
    assert train | apart == set(range(200))
    assert not train & apart
    assert 0 < len(apart) < 60  # 20 expected; outside with probability below 1e-9


def test_without_a_comparison_everybody_is_counted_and_nobody_compares(exact: list[Ints]) -> None:
    users = Users.of(some_rows(200), 1 / WEIGHT, N_ITEMS)
    measured = Measurements(users, N_ITEMS, PLAN)
    measured._train, measured._apart = users.take(np.arange(150)), users.take(np.arange(150, 200))
    some = measured.more_counts(1e6, sampled=False).items
    measured.no_comparison()
    counted = np.bincount(users.items, weights=users.weights, minlength=N_ITEMS)
    assert measured.more_counts(1e6, sampled=False).items == pytest.approx(counted, rel=0.2)
    assert measured.more_counts(1e6, sampled=False).items.sum() > 1.2 * some.sum()
    measured.gains([Items.known(some_items().mean)] * CANDIDATES, np.ones(N_ITEMS))
    assert not exact[-1].any()


def directions_of(users: list[Ints]) -> tuple[Ints, Ints, Ints]:
    """Return dense users as entries, items and starts."""
    starts = np.arange(len(users) + 1) * N_ITEMS
    return (
        np.concatenate([*users, np.zeros(0, dtype=np.int64)]),
        np.tile(np.arange(N_ITEMS), len(users)),
        starts,
    )


def unit_users(n: int, seed: int = 8) -> list[Ints]:
    """Return users of full length, half of them of one taste and some the longest there can be."""
    random = np.random.default_rng(seed)
    taste = random.standard_normal(N_ITEMS)
    found = [random.standard_normal(N_ITEMS) + (4 * taste if i % 2 else 0) for i in range(n)]
    return [np.trunc(x / np.linalg.norm(x) * GRID).astype(np.int64) for x in found]


@pytest.mark.parametrize("usual", [np.zeros(N_ITEMS), np.ones(N_ITEMS), np.eye(N_ITEMS)[2] * 1e200])
def test_a_user_moves_the_taste_in_common_by_one_at_most(usual: Floats) -> None:
    users = unit_users(25)
    usual = usual / max(float(usual.max()), 1.0)
    whole, moved = common_taste(*directions_of(users), usual, K), []
    for i in range(25):
        without = common_taste(*directions_of(users[:i] + users[i + 1 :]), usual, K)
        other = common_taste(*directions_of([*users[:i], -users[i - 1], *users[i + 1 :]]), usual, K)
        moved.append(abs(whole - without))
        assert abs(whole - without) <= 1 + rounding(25, N_ITEMS)
        assert abs(whole - other) <= 2 + rounding(25, N_ITEMS)
    assert max(moved) > 0.5  # users of the taste move it by nearly all they can


def test_the_taste_in_common_is_what_eigenvalues_say() -> None:
    users, usual = unit_users(30), np.linspace(1, 2, N_ITEMS)
    x = np.asarray(users) / GRID
    away = np.eye(N_ITEMS) - np.outer(usual, usual) / (usual @ usual)
    gram = away @ x.T @ x @ away
    values = np.sort(np.linalg.eigvalsh(gram - np.diag(np.diag(gram))))[::-1]
    expected = np.sqrt((np.maximum(values[:K], 0) ** 2).sum())
    assert common_taste(*directions_of(users), usual, K) == pytest.approx(expected, rel=1e-9)
    alone = [np.eye(N_ITEMS, dtype=np.int64)[i % N_ITEMS] * GRID for i in range(30)]
    assert common_taste(*directions_of(alone), np.zeros(N_ITEMS), K) == 0  # nothing is shared by two items
    assert common_taste(*directions_of([]), usual, K) == 0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("weight", [0.0, 1e-320, 1.0, 1e200, np.nan, np.inf])
def test_a_user_of_any_weights_enters_the_taste_in_common_with_a_bounded_length(
    weight: float, exact: list[Ints], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[float] = []

    def lengths(entries: Ints, items: Ints, starts: Ints, usual: Floats, k: int) -> float:
        seen.extend(float(np.linalg.norm(part)) for part in np.split(entries, starts[1:-1]))
        return common_taste(entries, items, starts, usual, k)

    monkeypatch.setattr(measure, "common_taste", lengths)
    users = Users.of(some_rows(), 1 / WEIGHT, N_ITEMS)
    users.weights[users.starts[4] : users.starts[5]] = weight
    share, scale = np.full(N_ITEMS, 1 / N_ITEMS), np.linspace(0.5, 2, N_ITEMS)
    found, deviation = Measurements(users, N_ITEMS, PLAN).common_taste(share, scale, K)
    assert len(seen) == 30
    assert 0.99 * GRID < max(seen) <= GRID
    assert seen[4] == 0 or np.isfinite(weight)
    assert exact[-1].tolist() == [round(found * UNIT)]
    assert deviation == PLAN.spectrum.scale / UNIT
    assert PLAN.spectrum.sensitivity == UNIT + 2


@pytest.mark.parametrize(("n", "k"), [(60, 5), (200, 2), (30, 1)])
def test_noise_alone_rarely_shows_a_direction(n: int, k: int) -> None:
    random = np.random.default_rng(n)
    values = np.linalg.svd(random.standard_normal((4000, n, k)), compute_uv=False)[:, 0]
    limit = largest_of_noise(n, k)
    assert np.mean(values > limit) < 2e-3
    assert np.mean(values > 0.95 * limit) > 1e-3  # not far above what noise shows


def test_a_direction_shows_above_the_noise_that_hides_it_and_not_below() -> None:
    n, k = 900, 30
    random = np.random.default_rng(3)
    noise, u, v = (random.standard_normal(shape) for shape in ((n, k), n, k))
    direction = np.outer(u / np.linalg.norm(u), v / np.linalg.norm(v))
    for times, seen in ((0.5, False), (2.0, True)):
        left, values, _ = np.linalg.svd(noise + times * hidden_below(n, k) * direction, full_matrices=False)
        overlap = abs(float(left[:, 0] @ u)) / np.linalg.norm(u)
        assert (values[0] > largest_of_noise(n, k)) == seen
        assert (overlap > 0.5) == seen


def test_rows_of_a_user_are_bounded_and_rows_of_a_pair_are_added() -> None:
    rows = np.array(
        [[2, 1, WEIGHT], [0, 1, WEIGHT], [2, 0, 3], [2, 1, 5]] + [[7, i % N_ITEMS, 1] for i in range(99)]
    )
    users = Users.of(rows, 1.0, N_ITEMS)
    assert users.ids.tolist() == [0, 2, 7]
    assert users.starts.tolist() == [0, 1, 3, 3 + N_ITEMS]
    assert users.items.tolist()[:3] == [1, 0, 1]
    assert users.weights.tolist()[:3] == [WEIGHT, 3, WEIGHT + 5]
    bounded = Users.bounded(rows, 1.0, N_ITEMS, 2)
    assert [
        int(bounded.weights[a:b].sum()) for a, b in zip(bounded.starts, bounded.starts[1:], strict=False)
    ][2] == 2
    assert bounded.starts[-1] <= 5


def test_pieces_of_users_are_the_whole() -> None:
    rows = some_rows(400)
    users = Users.of(rows, 1.0, N_ITEMS)
    monster = Users.of(
        np.column_stack([np.zeros(70_000), np.arange(70_000), np.ones(70_000)]).astype(np.int64), 1.0, 70_000
    )
    for whole in (users, monster, users.take(np.zeros(0, dtype=np.int64))):
        pieces = list(whole.chunks())
        assert np.array_equal(np.concatenate([p.ids for p in pieces] or [whole.ids]), whole.ids)
        assert np.array_equal(np.concatenate([p.items for p in pieces] or [whole.items]), whole.items)
        assert all(np.array_equal(np.unique(p.owners), np.arange(len(p))) for p in pieces)


def test_the_local_step_is_coordinate_ascent_of_hierarchical_poisson_factorization() -> None:
    items, k = some_items(), K
    users = Users.of(np.array([[5, 0, 2], [5, 3, 1], [5, 7, 4], [9, 2, 1]]), 1.0, N_ITEMS)
    found = local_step(users, items, steps=7)
    for place, entries in enumerate([[(0, 2.0), (3, 1.0), (7, 4.0)], [(2, 1.0)]]):
        shape = np.full(k, FACTOR_SHAPE + sum(y for _, y in entries) / k)
        rate = items.mean.sum(axis=0)
        for step in range(8):
            phi = []
            for item, _ in entries:
                part = np.exp(psi(shape) - np.log(rate)) * items.geometric[item]
                phi.append(part / part.sum())
            if step == 7:
                break
            shape = FACTOR_SHAPE + sum(y * p for (_, y), p in zip(entries, phi, strict=True))
            activity = (ACTIVITY_SHAPE + k * FACTOR_SHAPE) / (ACTIVITY_SHAPE + (shape / rate).sum())
            rate = activity + items.mean.sum(axis=0)
        assert found.mean[place] == pytest.approx(shape / rate, rel=1e-9)
        mine = found.parts[users.starts[place] : users.starts[place + 1]]
        expected = np.asarray([y * p for (_, y), p in zip(entries, phi, strict=True)])
        assert mine == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("x", [-40.0, -3.0, 0.0, 2.0, 60.0])
@pytest.mark.parametrize("prior", [0.05, 1.0, 30.0])
def test_shrunken_values_are_posterior_means(x: float, prior: float) -> None:
    grid = np.linspace(0, 120, 2_000_001)
    log_density = -grid / prior - (x - grid) ** 2 / (2 * 2.0**2)
    density = np.exp(log_density - log_density.max())
    expected = (grid * density).sum() / density.sum()
    found = factors.shrunken(np.asarray([x]), np.asarray([prior]), 2.0)[0]
    assert found == pytest.approx(expected, rel=2e-2 if prior < 1 else 1e-3, abs=1e-4)


def test_shrunken_values_follow_the_data_without_noise_and_the_prior_without_data() -> None:
    x, prior = np.asarray([-1e9, -5.0, 3.0, 1e9]), np.asarray([2.0, 0.5, 1e-6, 7.0])
    assert factors.shrunken(x, prior, 1e-9)[2:] == pytest.approx(x[2:])
    assert (factors.shrunken(x, prior, 1.0) > 0).all()
    assert factors.shrunken(np.asarray([1.0, -3.0]), prior[:2], 1e9) == pytest.approx(prior[:2], rel=1e-3)
    assert np.isfinite(factors.shrunken(x * 1e9, prior, 1e-9)).all()


@pytest.mark.filterwarnings("error")
def test_shrunken_values_are_next_to_nothing_where_nothing_is_expected() -> None:
    for prior in (0.0, 1e-320, 1e-200):
        for deviation in (1e-90, 1.0, 1e110):
            found = factors.shrunken(np.asarray([-1.0, 0.0, 1.0]), np.full(3, prior), deviation)
            assert (found > 0).all()
            assert (found < 1e-11).all()


def test_a_blend_without_factors_is_popularity_for_everybody() -> None:
    share = np.random.default_rng(0).dirichlet(np.ones(N_ITEMS))
    blend = factors.blended(some_items().mean, share, 0.0)
    for user in (np.array([1.0, 0, 0]), np.array([0.2, 3, 1])):
        assert np.argsort(blend @ user).tolist() == np.argsort(share).tolist()
    assert factors.alike(blend)
    assert not factors.alike(factors.blended(some_items().mean, share, 0.25))


def test_varimax_finds_sparse_columns_behind_a_rotation() -> None:
    random = np.random.default_rng(2)
    sparse = np.linalg.qr(np.kron(np.eye(4), random.uniform(1, 2, (25, 1))))[0]
    turned = sparse @ np.linalg.qr(random.standard_normal((4, 4)))[0]
    found = factors.varimax(turned)
    assert np.sort(np.abs(found.T @ sparse).max(axis=0)) == pytest.approx(np.ones(4), abs=1e-3)
    assert (found.sum(axis=0) > 0).all()


def chosen(gains: list[float], prior: Floats | None) -> Floats:
    share = np.full(N_ITEMS, 1 / N_ITEMS)
    blends = [Items.known(some_items(seed).mean, share) for seed in range(CANDIDATES)]
    return training._chosen(blends, np.asarray(gains), share, prior)


def test_factors_are_released_only_when_they_clearly_beat_popularity() -> None:
    assert np.array_equal(chosen([0, 9, 5, 0], None), Items.known(some_items(1).mean).mean)
    assert factors.alike(chosen([1.9, 1.5, -4, 0], None))
    previous = some_items(9).mean
    assert np.array_equal(chosen([1.9, 0, 0, 0], previous), previous)
    assert factors.alike(chosen([-9, -4, -5, -6], previous))


def test_a_row_moves_the_loadings_of_its_user_only_and_by_a_bounded_length(exact: list[Ints]) -> None:
    rows, mean = some_rows(), some_items().mean
    rows[:, 2] = np.minimum(rows[:, 2], WEIGHT)
    mean[0] = [1.0, 1e-12, 1e-12]  # the longest loadings there are
    rows[0] = [4, 0, WEIGHT]
    plan = Measurement(30 * K, 1.0, LOADING * WEIGHT)
    noisy_loadings(rows, 30, mean, plan)
    whole = exact.pop().reshape(30, K)
    for i in range(5):
        noisy_loadings(np.delete(rows, i, axis=0), 30, mean, plan)
        moved = whole - exact.pop().reshape(30, K)
        assert np.flatnonzero(moved.any(axis=1)).tolist() == [rows[i, 0]]
        assert np.linalg.norm(moved.astype(np.float64)) <= plan.sensitivity
        if i == 0:
            assert np.linalg.norm(moved.astype(np.float64)) > 0.999 * plan.sensitivity


def test_vectors_of_users_follow_their_loadings_and_are_all_alike_in_pure_noise() -> None:
    random = np.random.default_rng(5)
    mean = np.maximum(np.kron(np.eye(K), np.ones((4, 1))) * random.uniform(1, 2, (N_ITEMS, 1)), 1e-3)
    mean /= mean.sum(axis=0)
    truth = random.gamma(0.3, 20.0, (500, K))
    loadings = truth @ (mean.T @ (mean / mean.sum(axis=1, keepdims=True)))
    found = vectors(loadings + random.normal(0, 0.5, loadings.shape), 0.5, mean)
    assert np.corrcoef(found.ravel(), truth.ravel())[0, 1] > 0.99
    assert (found >= 0).all()
    same = vectors(5 + random.normal(0, 3.0, loadings.shape), 3.0, mean)
    assert np.ptp(same, axis=0) == pytest.approx(np.zeros(K), abs=1e-9)


def test_a_fit_takes_the_measurements_of_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[tuple[float, int]] = []

    def recorded(units: Ints, *, scale: float) -> Ints:
        sizes.append((scale, units.size))
        return units

    monkeypatch.setattr(additive, "gaussian", recorded)
    for n_users in (0, 1, 30):
        for previous in (None, some_items().mean):
            sizes.clear()
            users = Users.of(
                some_rows(n_users) if n_users else np.zeros((0, 3), dtype=np.int64), 1.0, N_ITEMS
            )
            training.train(users, N_ITEMS, K, PLAN, 1.0, 20, previous)
            assert sizes == _planned(PLAN)


def _planned(plan: FitPlan) -> list[tuple[float, int]]:
    parts: list[Any] = [
        plan.counts,
        plan.usual,
        plan.spectrum,
        plan.directions,
        plan.rounds,
        plan.gain,
    ]
    return [(part.scale, part.size) for part in parts for _ in range(part.count)]


def test_the_prior_of_a_user_is_the_mixture_of_factors_that_is_popularity() -> None:
    mean = np.kron(np.diag([1.0, 5.0, 0.2]), np.ones((4, 1))) + 1e-6
    share = np.repeat([0.1, 0.2, 0.7], 4) / 4
    items = Items.known(mean, share)
    expected = (items.prior / mean.sum(axis=0)) @ mean.T
    assert expected / expected.sum() == pytest.approx(share, rel=1e-3)
