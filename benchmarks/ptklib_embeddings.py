"""User embeddings of generated events and of real ratings, against DP popularity and against hpfrec.

Generated: 20,000 users, 2,000 items, about 1e6 training events, at most one of a user and an item. Popularity is
log-normal (the best known item has .8 % of all events), tastes are 20, an item belongs to few of them and a user to
one or two; a tenth of a user's events follow popularity alone. Without privacy, a factorization finds 2.8 times as many
hidden events as popularity does, about what it finds in the real sets below (2.0 on MovieLens, 3.1 on Amazon).
"""

import os
import statistics
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.measuring import Row, measured, seconds
from benchmarks.peers import HERE, ask_peer
from ptklib import UserEmbeddings
from ptklib.accounting import gaussian_sigma
from ptklib.arrays import Bools, Floats, Ints
from ptklib.embeddings.users import Users
from ptklib.mechanisms import gaussian

Score = Callable[[Ints], Floats]
"""Gives the score of each item, for some users."""

DATA = Path(os.environ.get("PTK_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
EPSILON, DELTA, FACTORS, MAX_ROWS = 2.0, 1e-6, 20, 50
HIDDEN = 0.2
ASKED = 3000
"""Users whose recommendations are compared."""

FINE = 2**10
"""Integers in one event, where counts are noised by themselves."""

FITS, CURVE_FITS = 10, 2
REAL = {
    "movielens_100k_ratings": ("movie_id", 10, 100),
    "amazon_ratings": ("item_id", 10, 30),
    "douban_music_ratings": ("item_id", 10, 30),
}


@dataclass(frozen=True, eq=False)
class Events:
    """Pairs of user and item codes: to learn from, and hidden ones of the same users."""

    known: pd.DataFrame
    hidden: pd.DataFrame
    n_users: int
    n_items: int

    @classmethod
    def of(cls, pairs: pd.DataFrame, n_users: int, n_items: int) -> "Events":
        hidden = np.random.default_rng(1).random(len(pairs)) < HIDDEN
        return cls(pairs[~hidden], pairs[hidden], n_users, n_items)

    def recall(self, score: Score, users: Ints) -> float:
        """Return the mean share of hidden items among the 20 best; `score` gives users x items."""
        known, hidden = (_matrix(part, users, self.n_items) for part in (self.known, self.hidden))
        scores = np.where(known, -np.inf, score(users))
        best = np.argpartition(-scores, 20, axis=1)[:, :20]
        hits, all_of_them = np.take_along_axis(hidden, best, axis=1).sum(axis=1), hidden.sum(axis=1)
        there = all_of_them > 0
        return float((hits[there] / all_of_them[there]).mean())


def rows() -> list[Row]:
    events = generated()
    users = np.sort(np.random.default_rng(2).choice(events.n_users, ASKED, replace=False))
    model = _model(events, EPSILON, FACTORS, MAX_ROWS)
    ours, usual, times = [], [], []
    for _ in range(FITS):
        times.append(seconds(lambda: model.fit(events.known)))
        ours.append(events.recall(_embedded(model, events), users))
        usual.append(events.recall(_popularity(events, EPSILON), users))
    mine, baseline = statistics.mean(ours), statistics.mean(usual)
    name = (
        f"{len(events.known):.3g} events, {events.n_users} users, {events.n_items} items, epsilon {EPSILON:g}"
    )
    found = [
        measured(
            "embeddings-recall",
            f"{name}: recall@20",
            unit="share",
            ours=mine,
            theirs=baseline,
            judged=mine / baseline,
            against="DP popularity, judged: ours over it",
            goal=1.3,
            direction="max",
        )
    ]
    peer, theirs, score = _peer(events)
    reference = events.recall(score, users)
    found += [
        measured(
            "embeddings-seconds",
            f"{name}: fit with {FACTORS} factors",
            unit="s",
            ours=statistics.median(times),
            theirs=theirs,
            judged=statistics.median(times) / theirs,
            against=f"{peer}, judged: ours over it",
            goal=2.0,
            direction="min",
        ),
        measured(
            "embeddings-recall-without-privacy",
            f"{name}: recall@20",
            unit="share",
            ours=mine,
            theirs=reference,
            judged=mine / reference,
            against=f"{peer} without privacy, judged: ours over it",
            goal=0.6,
            direction="max",
        ),
    ]
    return [*found, *_curve(events, users), *_real()]


def generated(n_users: int = 20_000, n_items: int = 2_000, tastes: int = 20, seed: int = 0) -> Events:
    """Return the events the module describes."""
    random = np.random.default_rng(seed)
    popularity = np.exp(random.normal(0.0, 1.2, n_items))
    items = (random.gamma(0.1, 1.0, (tastes, n_items)) + 1e-3) * popularity
    items /= items.sum(axis=1, keepdims=True)
    users = (
        random.gamma(0.02 * tastes * random.dirichlet(np.full(tastes, 3.0)), size=(n_users, tastes)) + 1e-12
    )
    users /= users.sum(axis=1, keepdims=True)
    lengths = np.clip(random.lognormal(np.log(62.5) - 0.32, 0.8, n_users).astype(np.int64), 5, n_items // 4)
    parts = []
    for start in range(0, n_users, 500):
        some = slice(start, start + 500)
        law = np.log(0.9 * users[some] @ items + 0.1 * popularity / popularity.sum())
        order = np.argsort(-(law + random.gumbel(size=law.shape)), axis=1)  # without replacement
        chosen = np.arange(n_items) < lengths[some, None]
        owners = np.broadcast_to(np.arange(n_users)[some, None], order.shape)
        parts.append(np.column_stack([owners[chosen], order[chosen]]))
    pairs = pd.DataFrame(np.concatenate(parts), columns=["user", "item"])
    return Events.of(pairs, n_users, n_items)


def real(name: str, item: str) -> Events | None:
    """Return the pairs of a real set of ratings, numbered, or None where it is not there."""
    path = DATA / f"{name}.parquet"
    if not path.exists():
        print(f"skipped: {path.name} is not there")
        return None
    ratings = pd.read_parquet(path, columns=["user_id", item]).drop_duplicates()
    users, items = (pd.factorize(ratings[column])[0] for column in ("user_id", item))
    return Events.of(pd.DataFrame({"user": users, "item": items}), users.max() + 1, items.max() + 1)


def _model(events: Events, epsilon: float, factors: int, max_rows: int) -> UserEmbeddings:
    return UserEmbeddings(
        users=range(events.n_users),
        items=range(events.n_items),
        n_factors=factors,
        max_rows_per_user=max_rows,
        epsilon=epsilon,
        delta=DELTA,
    )


def _embedded(model: UserEmbeddings, events: Events) -> Score:
    """Return the scores of users by the vectors their known events give them."""

    def score(users: Ints) -> Floats:
        rows = events.known[np.isin(events.known["user"], users)]
        vectors = model.embed(rows).set_index("user").reindex(users).fillna(1.0)
        return np.asarray(vectors.to_numpy() @ model.item_factors_.T)

    return score


def _alike(items: Floats) -> Score:
    """Return the same scores for all users."""
    return lambda users: np.tile(items, (len(users), 1))


def _popularity(events: Events, epsilon: float, max_rows: int = MAX_ROWS) -> Score:
    """Return scores by noisy counts that take the whole budget: no user is counted twice for an item."""
    rows = events.known.assign(weight=1)[["user", "item", "weight"]].to_numpy(dtype=np.int64)
    users = Users.bounded(rows, 1.0, events.n_items, max_rows)
    exact = np.bincount(users.items, minlength=events.n_items) * FINE
    scale = gaussian_sigma(epsilon, DELTA, FINE * max_rows**0.5)
    return _alike(gaussian(exact.astype(np.int64), scale=scale) / FINE)


def _exact(events: Events) -> Score:
    return _alike(np.bincount(events.known["item"], minlength=events.n_items).astype(np.float64))


def _peer(events: Events) -> tuple[str, float, Score]:
    """Return name, seconds and scores of hpfrec, or of scikit-learn's NMF where hpfrec cannot be built."""
    try:
        found = ask_peer(
            "hpfrec",
            HERE / "hpfrec_fit.py",
            {"users": events.known["user"].to_numpy(), "items": events.known["item"].to_numpy()},
            k=FACTORS,
        )
    except subprocess.CalledProcessError:
        print("hpfrec needs a C compiler and cannot be built here; measured instead: scikit-learn's NMF")
        return _nmf(events)
    users, items = np.asarray(found["users"]), np.asarray(found["items"])
    return "hpfrec", float(found["seconds"]), lambda some: users[some] @ items.T


def _nmf(events: Events) -> tuple[str, float, Score]:
    """The same likelihood, one for each entry of a Poisson, fitted without priors."""
    from scipy.sparse import csr_matrix
    from sklearn.decomposition import NMF

    ones, shape = np.ones(len(events.known)), (events.n_users, events.n_items)
    table = csr_matrix((ones, (events.known["user"], events.known["item"])), shape)
    peer = NMF(
        FACTORS, solver="mu", beta_loss="kullback-leibler", init="random", max_iter=100, random_state=1
    )
    taken = seconds(lambda: peer.fit(table))
    users = peer.transform(table)
    return "scikit-learn's NMF", taken, lambda some: users[some] @ peer.components_


def _curve(events: Events, users: Ints) -> list[Row]:
    """Return recall over that of popularity without privacy, for several budgets: the table of the guide."""
    most = events.recall(_exact(events), users)
    found = []
    for epsilon in (0.25, 0.5, 1.0, 4.0, 8.0):
        mine, theirs = [], []
        for _ in range(CURVE_FITS):
            model = _model(events, epsilon, FACTORS, MAX_ROWS).fit(events.known)
            mine.append(events.recall(_embedded(model, events), users))
            theirs.append(events.recall(_popularity(events, epsilon), users))
        found.append(
            _beside_popularity(
                f"generated-{epsilon:g}",
                f"epsilon {epsilon:g}",
                statistics.mean(mine),
                statistics.mean(theirs),
                most,
            )
        )
    return found


def _real() -> list[Row]:
    found = []
    for name, (item, factors, max_rows) in REAL.items():
        events = real(name, item)
        if events is None:
            continue
        users = np.arange(events.n_users)[:ASKED]
        most = events.recall(_exact(events), users)
        for epsilon in (2.0, 8.0):
            ours, theirs = [], []
            for _ in range(FITS):
                model = _model(events, epsilon, factors, max_rows).fit(events.known)
                ours.append(events.recall(_embedded(model, events), users))
                theirs.append(events.recall(_popularity(events, epsilon, max_rows), users))
            what = f"{name}, {events.n_users} users, {events.n_items} items, epsilon {epsilon:g}"
            found.append(
                _beside_popularity(
                    f"{name}-{epsilon:g}", what, statistics.mean(ours), statistics.mean(theirs), most
                )
            )
    return found


def _beside_popularity(id: str, what: str, ours: float, theirs: float, most: float) -> Row:
    return measured(
        f"embeddings-{id}",
        f"{what}: recall@20 over that of popularity without privacy",
        unit="ratio",
        ours=ours / most,
        theirs=theirs / most,
        judged=ours / theirs,
        against="DP popularity, judged: ours over it",
        goal=0.98,
        direction="max",
    )


def _matrix(pairs: pd.DataFrame, users: Ints, n_items: int) -> Bools:
    there = pairs[np.isin(pairs["user"], users)]
    found = np.zeros((len(users), n_items), dtype=np.bool_)
    found[np.searchsorted(users, there["user"]), there["item"]] = True
    return found
