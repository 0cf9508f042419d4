"""Noisy rounds of Lloyd over quantised rows, with offsets relative to their centre (any number of columns)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import isqrt, log, sqrt
from typing import Self

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.clustering import tree
from ptklib.clustering.centres import flat_centres, one_thread, unit_directions, weighted_centres
from ptklib.mechanisms.grid import count_by, sum_by
from ptklib.privacy import check_delta
from ptklib.release import Component, ReleasePlan, plan_shares

ROUNDS = 10
"""With fewer, centres that share a cluster find no time to part; with more, pure noise grows."""

_FEWER_ROUNDS, _MANY_COLUMNS = 6, 32
"""With Laplace noise and more columns, fewer rounds find better centres: noise grows with the numbers of both."""

OFFSET = 2**20
"""Units in the longest offset of a row from its centre; also in the largest squared offset."""

_SPREAD = {"count": 0.02, "sums": 0.05, "squares": 0.05}
_ROUND = {"count": 0.2, "sums": 0.65, "squares": 0.15}
"""Shares of the budget: of the whole for the spread of all rows, of what spread, tree and gain leave for each round."""

_GAIN = 0.15
"""Share of the whole for the last comparison with the centres without data."""

_SURE = 5.0
"""Standard deviations of noise by which rows must come nearer: noise alone exceeds it once in 2,000 releases."""

_LEAVES_PER_CENTRE = 3
"""With fewer, centres spread evenly start as well."""

_HIDDEN = 1.0
"""Noise of the mean of one centre's rows, over the radius of all rows, above which all rounds measure one mean."""

_ROWS_AT_ONCE = 2**14
_SMALL_PRODUCT = 900_000
"""OpenBLAS multiplies below 10**6 multiplications without threads, which wait for each other on busy cores."""

_RELOCATED_MAX = 256
"""With more centres, one beside another matters little and all pairs of them cost much memory."""


@dataclass(frozen=True, eq=False)
class Centres:
    """Released centres, in units, and noisy numbers of rows next to them."""

    units: Ints
    weights: Floats


def rounds_of(n_columns: int, gaussian: bool) -> int:
    """Return the number of rounds; what it depends on is public."""
    return _FEWER_ROUNDS if n_columns > _MANY_COLUMNS and not gaussian else ROUNDS


def plan_rounds(
    half_widths: Ints, k: int, epsilon: object, delta: object, rows_per_unit: int = 1
) -> ReleasePlan:
    """Return the whole release, spread and all rounds, before any data are read.

    Parameters
    ----------
    half_widths : ndarray of shape (dimension,), int64
        Of the box, in units.
    rows_per_unit : int
        Rows of one privacy unit, at most.

    Notes
    -----
    The measurement of a round depends on the released centres of the round before, so composition is
    adaptive. It is basic for Laplace noise (the shares of epsilon add up) and Gaussian for Gaussian noise
    (the shares of the squared sensitivity in units of the noise add up). With ``delta > 0`` the noise is
    Gaussian and offsets are clipped in L2, otherwise Laplace and L1.
    """
    widths = [int(w) for w in half_widths]
    gaussian = check_delta(delta) > 0
    whole = isqrt(sum(w * w for w in widths)) + 1 if gaussian else sum(widths)
    n_rounds = rounds_of(len(widths), gaussian)
    rest = (1 - sum(_SPREAD.values()) - _GAIN) / n_rounds
    parts = [
        (Component("spread_count", 1, 1), _SPREAD["count"]),
        (Component("spread_sums", len(widths), whole), _SPREAD["sums"]),
        (Component("spread_squares", len(widths), whole), _SPREAD["squares"]),
    ]
    if gaussian:
        parts += tree.components(len(widths), OFFSET)
        rest *= 1 - tree.SHARE / (1 - sum(_SPREAD.values()) - _GAIN)
    for i in range(n_rounds):
        parts += [
            (Component(f"round_{i}_count", k, 1), rest * _ROUND["count"]),
            (Component(f"round_{i}_sums", k * len(widths), OFFSET), rest * _ROUND["sums"]),
            (Component(f"round_{i}_squares", k, OFFSET), rest * _ROUND["squares"]),
        ]
    parts.append((Component("gain", 1, OFFSET), _GAIN))
    components, shares = zip(*parts, strict=True)
    return plan_shares(components, shares, epsilon, delta, rows_per_unit)


def noisy_centres(rows: Ints, half_widths: Ints, k: int, plan: ReleasePlan, start: Ints | None) -> Centres:
    """Return centres after all rounds of `plan`, from `start` or from centres without data.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, dimension), int64
        In units.
    half_widths : ndarray of shape (dimension,), int64
    start : ndarray of shape (k, dimension), int64, or None

    Notes
    -----
    The rounds are thrown away, for the centres without data or for `start`, unless a last noisy comparison says
    that they brought rows nearer. It counts all of what any row may lose, so a few rows far away weigh as much as
    they cost.

    If the noise hides the mean of one centre's rows, all rounds measure the mean of all rows instead, and the
    centres are those of a flat box around it. Rows per centre are judged by the noisy number of rows.
    """
    with one_thread():
        return _noisy_centres(rows, half_widths, k, plan, start)


def _noisy_centres(rows: Ints, half_widths: Ints, k: int, plan: ReleasePlan, start: Ints | None) -> Centres:
    rounds = _Rounds(rows, half_widths, k, plan)
    flat = 2 * flat_centres(k, half_widths.tolist()) - 1
    first = _on_grid(flat * half_widths, half_widths) if start is None else start
    middle, spread, n_rows = rounds.spread()
    leaves = rounds.leaves(_on_grid(middle, half_widths), spread, n_rows)
    units = _on_grid(middle + spread * flat, half_widths) if start is None else start
    if start is None and leaves is not None and len(leaves.points) >= _LEAVES_PER_CENTRE * k:
        places, weights = _on_grid(leaves.points, half_widths).astype(np.float64), leaves.weights
        units = _on_grid(weighted_centres(places, weights, k, places, weights)[0], half_widths)
    elif start is None and rounds.noise_of_a_mean(n_rows / k) > _HIDDEN:
        centre, width = rounds.mean(_on_grid(middle, half_widths), spread, n_rows)
        units = _on_grid(centre + width * flat, half_widths)
        return Centres(units if rounds.better(first, units) else first, np.full(k, n_rows / k))
    radius, weights = float(np.linalg.norm(spread)), np.zeros(k)
    for i in range(rounds.number):
        measured = rounds.measure(i, units, radius)
        weights = np.maximum(measured.counts, 0.0)
        moved = units + measured.displacements()
        if start is None and i < rounds.number - 2:
            moved = measured.relocated(moved)
        units, radius = _on_grid(moved, half_widths), measured.next_radius()
    if rounds.better(first, units):
        return Centres(units, weights)
    return Centres(first, np.full(k, weights.sum() / k))


@dataclass(frozen=True, eq=False)
class _Measured:
    """Noisy sums of one round, in units of rows, and the variance of their noise."""

    counts: Floats
    sums: Floats
    squares: Floats
    count_variance: float
    sum_variance: float
    square_variance: float
    radius: float

    def of(self, n: int) -> Self:
        """Return what was measured at the first n centres."""
        return replace(self, counts=self.counts[:n], sums=self.sums[:n], squares=self.squares[:n])

    def displacements(self) -> Floats:
        """Return how far each centre moves: the posterior mean of the mean offset of its rows.

        Notes
        -----
        The prior variance of a coordinate is estimated over all centres from the release itself. If noise may
        explain all of it, centres stay, so a release without signal keeps the centres it started from.
        """
        k, dimension = self.sums.shape
        sizes = np.maximum(self.counts, 0.0)
        signal = _above_noise(self.sums, self.sum_variance)
        scale = _above_noise(self.counts, self.count_variance) * dimension
        most = self.radius**2 / dimension
        if signal <= 0 or scale <= 0:
            return np.zeros((k, dimension))
        prior = min(signal / scale, most)
        return np.asarray(
            (sizes / (sizes**2 + self.count_variance + self.sum_variance / prior))[:, None] * self.sums
        )

    def relocated(self, centres: Floats) -> Floats:
        """Move centres that save little beside a neighbour to where offsets are long: a local optimum left.

        Notes
        -----
        A centre may go when its rows lose less by joining the nearest other centre than a wide cluster has
        above the lower quartile of mean squared offsets. Both sides have the largest of k noises to spare.
        """
        k, dimension = centres.shape
        if not 3 <= k <= _RELOCATED_MAX:
            return centres
        gaps = ((centres[:, None, :] - centres[None, :, :]) ** 2).sum(axis=-1)
        np.fill_diagonal(gaps, np.inf)
        spare = (1 + log(k)) / sqrt(2)
        sizes = np.maximum(self.counts, 1.0)
        price = (np.maximum(self.counts, 0.0) + spare * sqrt(self.count_variance)) * gaps.min(axis=1)
        means = np.maximum(self.squares, 0.0) / sizes
        usual = float(np.quantile(means, 0.25))
        excess = self.squares - usual * sizes - spare * sqrt(self.square_variance)
        moved, directions = centres.copy(), unit_directions(k, dimension)
        for _ in range(k // 4):
            source, target = int(price.argmin()), int(excess.argmax())
            if source == target or excess[target] <= price[source]:
                break
            step = directions[source] * sqrt(float(means[target])) / 2
            moved[source], moved[target] = centres[target] + step, centres[target] - step
            price[[source, target]], excess[[source, target]] = np.inf, -np.inf
        return moved

    def next_radius(self) -> float:
        """Return a radius that clips few of the rows, never a larger one than now."""
        total = float(np.maximum(self.counts, 0.0).sum())
        squares = max(float(self.squares.sum()), 0.0)
        typical = sqrt(squares / total) if total > 0 else self.radius
        return float(np.clip(1.5 * typical, self.radius / 4, self.radius))


class _Rounds:
    """The only holder of quantised rows: measures them with the noise of the plan."""

    def __init__(self, rows: Ints, half_widths: Ints, k: int, plan: ReleasePlan) -> None:
        self._rows, self._widths, self._k, self._plan = rows, half_widths, k, plan
        self.number = rounds_of(len(half_widths), plan.epsilons is None)

    def spread(self) -> tuple[Floats, Floats, float]:
        """Return the middle and the half width of a box with most rows in it, in units, and the number of rows.

        Notes
        -----
        Posterior means: without signal this is the public box itself.
        """
        rows, widths = self._rows, self._widths.astype(np.float64)
        exact = {
            "spread_count": np.asarray([len(rows)], dtype=np.int64),
            "spread_sums": rows.sum(axis=0, dtype=np.int64),
            "spread_squares": (rows * rows // self._widths).sum(axis=0, dtype=np.int64),
        }
        noisy = self._draw(exact)
        noise = self._plan.noise_variance
        n, flat = max(float(noisy["spread_count"][0]), 0.0), widths / 3
        least = n * n + 9 * noise("spread_count")  # a count within three deviations of 0 says little
        mean = n * noisy["spread_sums"] / (least + noise("spread_sums") / (widths * flat))
        deviation = noisy["spread_squares"] - n * flat
        square = flat + n * deviation / (least + noise("spread_squares") / flat**2)
        mean = np.clip(mean, -widths, widths)
        variance = np.clip(widths * square - mean**2, (widths / 128) ** 2, widths**2 / 3)
        return mean, np.sqrt(3 * variance), n

    def leaves(self, middle: Ints, spread: Floats, n_rows: float) -> tree.Leaves | None:
        """Return the leaves of the tree, when the plan has one."""
        if self._plan.epsilons is not None:
            return None
        noise = self._plan.noise_variance
        return tree.grow(self._rows, middle, spread, n_rows, OFFSET, self._draw, noise)

    def noise_of_a_mean(self, n_rows: float) -> float:
        """Return the length of the noise in one round's mean of so many rows, over the radius of that round."""
        dimension = len(self._widths)
        noise = self._stretch() * sqrt(dimension * self._plan.noise_variance("round_0_sums")) / OFFSET
        return noise / max(n_rows, 1.0)

    def mean(self, middle: Ints, spread: Floats, n_rows: float) -> tuple[Floats, Floats]:
        """Return the mean of all rows and their spread, measured by all rounds together.

        Notes
        -----
        Each round measures the mean from where the last one found it. It counts by its precision: the posterior mean
        under a normal prior as wide as the box.
        """
        prior = float((self._widths.astype(np.float64) ** 2).mean()) / 3
        variance = 1 / (1 / prior + n_rows**2 / self._plan.noise_variance("spread_sums"))
        centre, whole = middle.astype(np.float64), float(np.linalg.norm(spread))
        radius = whole
        for i in range(self.number):
            at = _on_grid(centre, self._widths)
            measured = self.measure(i, at[None, :], radius).of(1)
            n = max(float(measured.counts[0]), sqrt(measured.count_variance))
            share = variance / (variance + measured.sum_variance / n**2)
            centre, variance = at + share * measured.sums[0] / n, variance * (1 - share)
            radius = measured.next_radius()
        # The radius is 1.5 standard deviations of all columns together, the spread sqrt(3) of each.
        return centre, spread * min(sqrt(3) / 1.5 * radius / whole, 1.0)

    def _stretch(self) -> float:
        """Return the norm offsets are clipped to, over the radius: L1 norms are longer than L2 norms.

        The L1 norm of an offset in no special direction is sqrt(2 d / pi) times its L2 norm.
        """
        l1 = self._plan.epsilons is not None
        return max(sqrt(2 * len(self._widths) / np.pi), 1.0) if l1 else 1.0

    def measure(self, i: int, centres: Ints, radius: float) -> _Measured:
        """Release counts, sums of clipped offsets and clipped squared offsets per centre.

        Parameters
        ----------
        centres : ndarray of shape (at most k, n_columns)
            With fewer than k, the vectors keep their length and end in pure noise.

        Notes
        -----
        :Sensitivity: a row is next to one centre, decided by exact integer distances (ties go to the first),
            and adds there 1, an integer vector of norm at most ``OFFSET`` (L1 or L2, as planned) and an
            integer in ``[0, OFFSET]``. Norms are exact integers; the factor ``1 - 1e-9`` outweighs the
            rounding of float64, and truncation only shortens.
        """
        k, dimension = self._k, centres.shape[1]
        l1, longest = self._plan.epsilons is not None, radius * self._stretch()
        counts, sums = np.zeros(k, dtype=np.int64), np.zeros((k, dimension), dtype=np.int64)
        squares = np.zeros(k, dtype=np.int64)
        for rows in self._batches():
            nearest, square = _nearest(rows, centres)
            offsets = rows - centres[nearest]
            norm = np.abs(offsets).sum(axis=1) if l1 else np.sqrt(square)
            factor = OFFSET / np.maximum(norm, longest) * (1 - 1e-9)
            clipped = np.trunc(offsets * factor[:, None]).astype(np.int64)
            counts += count_by(nearest, k)
            share = np.minimum(square / radius**2, 1.0) * OFFSET
            squares += sum_by(nearest, np.trunc(share).astype(np.int64), k)
            for j in range(dimension):
                sums[:, j] += sum_by(nearest, clipped[:, j], k)
        names = {"count": counts, "sums": sums.reshape(-1), "squares": squares}
        noisy = self._draw({f"round_{i}_{name}": exact for name, exact in names.items()})
        noise = self._plan.noise_variance
        step, area = longest / OFFSET, radius**2 / OFFSET
        return _Measured(
            noisy[f"round_{i}_count"].astype(np.float64),
            noisy[f"round_{i}_sums"].reshape(k, dimension).astype(np.float64) * step,
            noisy[f"round_{i}_squares"].astype(np.float64) * area,
            noise(f"round_{i}_count"),
            noise(f"round_{i}_sums") * step**2,
            noise(f"round_{i}_squares") * area**2,
            radius,
        )

    def better(self, first: Ints, last: Ints) -> bool:
        """Return whether rows are nearer to `last` than to `first`, by `_SURE` standard deviations of noise.

        Notes
        -----
        A gain beyond the largest possible loss is clipped to it, a loss never is: the sum is at most the true one.

        :Sensitivity: a row adds the difference of its squared distances in units of that loss: an integer in
            ``[-OFFSET, OFFSET]``, clipped to it. Squared distances are exact integers.
        """
        area, total = _largest_loss(first, last, self._widths), 0
        for rows in self._batches():
            gain = _nearest(rows, first)[1] - _nearest(rows, last)[1]
            total += int(np.trunc(np.clip(gain / area, -1.0, 1.0) * OFFSET).astype(np.int64).sum())
        noisy = self._draw({"gain": np.asarray([total], dtype=np.int64)})["gain"]
        return bool(noisy[0] > _SURE * sqrt(self._plan.noise_variance("gain")))

    def _batches(self) -> Iterator[Ints]:
        size = max(min(_SMALL_PRODUCT // (self._k * self._rows.shape[1]), _ROWS_AT_ONCE), 256)
        for start in range(0, len(self._rows), size):
            yield self._rows[start : start + size]

    def _draw(self, exact: Mapping[str, Ints]) -> dict[str, Ints]:
        return self._plan.only(exact.keys()).draw(exact)


def _nearest(rows: Ints, centres: Ints) -> tuple[Ints, Ints]:
    """Return the nearest centre of each row, the first of equals, and the square of the distance; both exact."""
    points = centres.astype(np.float64)
    scores = (points**2).sum(axis=1) - 2 * (rows.astype(np.float64) @ points.T)
    nearest = scores.argmin(axis=1).astype(np.int64)
    offsets = rows - centres[nearest]
    return nearest, np.asarray((offsets * offsets).sum(axis=1), dtype=np.int64)


def _largest_loss(first: Ints, last: Ints, half_widths: Ints) -> float:
    """Return a bound on how much larger the squared distance to `last` can be than to `first`, anywhere in the box.

    Notes
    -----
    Let f be the first centre next to x. For any last centre c the difference is at most
    ``|x - c|^2 - |x - f|^2 = |c|^2 - |f|^2 + 2 x (f - c)``, which is linear in x and so largest in a corner.
    It is also at most ``|x - c|^2``, largest in the corner across from c.
    """
    widths, points = half_widths.astype(np.float64), last.astype(np.float64)
    squares = (points**2).sum(axis=1)
    bounds = [
        float((squares + 2 * (np.abs(points - place) @ widths)).min() - (place**2).sum())
        for place in first.astype(np.float64)
    ]
    across = float(((np.abs(points) + widths) ** 2).sum(axis=1).min())
    return max(min(max(bounds), across), 1.0) * (1 + 1e-9)


def _above_noise(noisy: Floats, variance: float) -> float:
    """Return the sum of squares that noise is unlikely to explain: two standard deviations of Laplace energy."""
    return float((noisy**2).sum()) - (noisy.size + 2 * sqrt(5 * noisy.size)) * variance


def _on_grid(centres: Floats, half_widths: Ints) -> Ints:
    return np.clip(np.rint(centres), -half_widths, half_widths).astype(np.int64)
