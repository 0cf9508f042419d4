"""Exact sums of products: rows are clipped and put on an integer grid before their products are added."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite, isqrt, sqrt
from typing import Any

import numpy as np

from ptklib.arrays import Bools, Floats, Ints
from ptklib.exceptions import InvalidParameterError, SchemaError, UnboundedSensitivityError
from ptklib.inputs import InputTable
from ptklib.privacy import SQUARES_MOST, Bounds
from ptklib.scalars import finite_number

RADIUS = 2**15
"""Largest Euclidean norm of a quantised row, in units; so its products have Frobenius norm 2**30 at most."""

ROWS_MAX = 2**31
"""Public assumption: no release adds more rows. 2**31 * 2**30 = 2**61 leaves room for noise below 2**62."""

COLUMNS_MAX = 2000
_EXACT_ROWS = 2**23
"""2**23 * 2**30 = 2**53: up to here float64 adds integer products without rounding, in any order."""

_SMALL_PRODUCT = 350_000
"""OpenBLAS starts threads above some 400,000 multiplications of ``part.T @ part``. Few columns gain nothing from them:
20 columns cost twice the CPU time on idle cores and many times on busy ones, where threads wait for each other."""

_CHUNK, _CHUNK_ROWS = 160_000, 8192
"""Most numbers, and rows, that are clipped in one go. More are fewer calls, but leave the cache; and OpenBLAS takes
threads to multiply two vectors of more than 10,000 numbers."""

_SHORT = 1 - 2**-40
"""Rows whose squared norm is below this share of the bound's square are not longer than the bound."""

_NORM_MIN, _NORM_MAX = 1 / SQUARES_MOST, SQUARES_MOST


@dataclass(frozen=True, eq=False)
class Block:
    """Columns that are clipped together, to a box, a ball, or both.

    Notes
    -----
    :Sensitivity: a quantised row ``q`` has integer entries and ``||q|| <= RADIUS``, so adding it moves the
        sums by at most ``RADIUS`` and the matrix of products by ``||q q'|| = ||q||**2 <= RADIUS**2``, both in
        the Euclidean (Frobenius) norm.

    Proof. Box: entries are integers within ``w = floor(RADIUS / sqrt(p))``, and ``p w**2 <= RADIUS**2``.
    Ball: before rounding the norm is at most ``r = RADIUS - sqrt(p) / 2 - 1``, up to a relative error of
    float64 below ``(p + 8) 2**-53``, which is far less than the spare unit. Rounding moves each of p entries
    by at most 1/2, hence the norm by at most ``sqrt(p) / 2``. Whether and how a row is clipped depends on
    that row alone.
    """

    names: tuple[str, ...]
    centres: Floats
    half_widths: Floats
    """Standardised values are ``(x - centre) / half_width``; 0 and 1 without bounds. Shape (n_columns,)."""
    boxed: bool
    """Whether standardised values are clipped to [-1, 1]."""
    norm: float | None
    """Rows are shrunk to this Euclidean norm of their standardised values."""

    @property
    def step(self) -> float:
        """Worth of one unit of the grid, in standardised values."""
        return 1 / self.width if self.norm is None else self.norm / self._reach

    @property
    def limit(self) -> float:
        """Largest norm of a standardised row."""
        return sqrt(len(self.names)) if self.norm is None else self.norm

    @property
    def width(self) -> int:
        """Largest absolute entry of a quantised row of a box, in units."""
        return isqrt(RADIUS * RADIUS // len(self.names))

    @property
    def _reach(self) -> float:
        return RADIUS - sqrt(len(self.names)) / 2 - 1

    def clamp(self, rows: Floats) -> Floats:
        """Return standardised rows of finite numbers; what is missing or infinite becomes the centre."""
        with np.errstate(over="ignore", invalid="ignore"):
            standard = (rows - self.centres) / self.half_widths
        reach = 1.0 if self.boxed else self.limit
        return np.where(np.isfinite(rows), np.clip(standard, -reach, reach), 0.0)

    def scale(self, rows: Floats, work: Floats, lengths: Floats, out: Floats) -> Bools | None:
        """Write clipped rows in units, not yet rounded, into `out`; return which were kept, or None for all.

        A row that is not finite becomes zero.

        Parameters
        ----------
        rows, work, out : ndarray of shape (n_rows, n_columns)
            `work` is scratch space, contiguous.
        lengths : ndarray of shape (n_rows,)
            Scratch space.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            if not self.boxed:
                assert self.norm is not None
                return self._into_ball(rows, self.norm, lengths, out)
            kept = None if np.isfinite(rows.sum()) else np.asarray(np.isfinite(rows).all(axis=1))
            self._box(rows, work)
            if self.norm is None:
                out[:] = work
            else:
                self._into_ball(work, self.norm, lengths, out)
        if kept is not None:
            out[~kept] = 0.0
        return kept

    def _into_ball(self, rows: Floats, norm: float, lengths: Floats, out: Floats) -> Bools | None:
        """Write rows in units into `out`, those longer than `norm` shrunk to it; return which are finite, None for all.

        Both ways give the same bits: a row's factor is `_reach` over the larger of its norm and `norm`.
        """
        squares = np.vecdot(rows, rows, out=lengths)
        (long,) = (~(squares <= norm * norm * _SHORT)).nonzero()
        of_long = squares.take(long)
        odd = None if isfinite(of_long @ of_long) else long[~np.isfinite(of_long)]
        few = 4 * len(long) <= len(rows)
        factors = of_long if few else squares  # in place: what is written anew leaves the cache
        np.sqrt(factors, out=factors)
        np.maximum(factors, norm, out=factors)
        np.divide(self._reach, factors, out=factors)
        if few:  # a factor for each row costs three times as much as one for all
            np.multiply(rows, self._reach / norm, out=out)
            out[long] = rows.take(long, axis=0) * factors[:, np.newaxis]
        else:
            np.multiply(rows, factors[:, np.newaxis], out=out)
        if odd is None:
            return None
        # They are not finite, or their squares overflow.
        finite = np.isfinite(rows[odd]).all(axis=1)
        out[odd[finite]], out[odd[~finite]] = self._shrunk(rows[odd[finite]]), 0.0
        kept = np.ones(len(rows), dtype=np.bool_)
        kept[odd] = finite
        return kept

    def _box(self, rows: Floats, work: Floats) -> None:
        """Write standardised, clipped rows into `work`: in units when the box is all there is."""
        reach = float(self.width) if self.norm is None else 1.0
        scale = reach / self.half_widths
        np.subtract(rows, self.centres, out=work)
        np.multiply(work, scale if np.ptp(scale) else scale[0], out=work)
        np.clip(work, -reach, reach, out=work)

    def _shrunk(self, rows: Floats) -> Floats:
        parts = rows / np.abs(rows).max(axis=1, keepdims=True)
        return np.asarray(parts * (self._reach / np.linalg.norm(parts, axis=1, keepdims=True)))


def block_of(names: tuple[str, ...], bounds: object, max_norm: object) -> Block:
    """Return the block of `names` from ``bounds`` and ``max_norm`` as a caller gives them."""
    size = len(names)
    if not 1 <= size <= COLUMNS_MAX:
        raise InvalidParameterError(f"between 1 and {COLUMNS_MAX} columns are needed")
    if bounds is None and max_norm is None:
        raise UnboundedSensitivityError("give bounds=(low, high), bounds={column: (low, high)}, or max_norm")
    norm = None if max_norm is None else _norm(max_norm)
    if bounds is None:
        return Block(names, np.zeros(size), np.ones(size), False, norm)
    if isinstance(bounds, Mapping) and set(bounds) != set(names):
        raise UnboundedSensitivityError("bounds must declare exactly the columns, each with (low, high)")
    per_column = isinstance(bounds, Mapping)
    boxes = [
        Bounds.of(bounds[name] if per_column else bounds, name).within(SQUARES_MOST, name)  # type: ignore[index]
        for name in names
    ]
    centres = np.array([box.midpoint for box in boxes])
    if norm is not None and norm * norm >= size:
        norm = None  # the box is inside the ball
    return Block(names, centres, np.array([box.half_width for box in boxes]), True, norm)


def _norm(value: object) -> float:
    norm = finite_number(value, "max_norm", InvalidParameterError)
    if not _NORM_MIN <= norm <= _NORM_MAX:
        raise InvalidParameterError(f"max_norm must be in [{_NORM_MIN:g}, {_NORM_MAX:g}], got {norm:g}")
    return norm


class RowTable(InputTable):
    """An input table that is read in chunks of rows."""

    def chunks(self, names: Sequence[str], n_rows: int) -> Iterator[Floats]:
        """Yield float64 arrays of at most `n_rows` rows with the columns `names`."""
        data = self._data
        if isinstance(data, np.ndarray) and data.dtype.kind in "iufb":
            places = [self.names.index(name) for name in names]
            first = places[0]
            run = places == list(range(first, first + len(places)))
            pick: Any = slice(first, first + len(places)) if run else places
            for start in range(0, self.n_rows, n_rows):
                yield np.asarray(data[start : start + n_rows, pick], dtype=np.float64)
            return
        columns = [self.numbers(name) for name in names]
        for start in range(0, self.n_rows, n_rows):
            yield np.column_stack([column[start : start + n_rows] for column in columns])


def upper_triangle(size: int, first: int = 0) -> tuple[Ints, Ints]:
    """Return rows and columns of the entries from diagonal `first` upwards; callers must not change them."""
    return _kept_triangle(size, first) if size <= KEPT_SIZE else _triangle(size, first)


def _triangle(size: int, first: int) -> tuple[Ints, Ints]:
    rows, columns = np.triu_indices(size, first)
    return rows, columns


KEPT_SIZE = 128
"""Half a megabyte each; larger ones would fill memory, and cost little of the fit that needs them."""

_kept_triangle = lru_cache(maxsize=16)(_triangle)


def columns_of(blocks: Sequence[Block]) -> list[slice]:
    """Return where the columns of each block are, side by side."""
    stops = np.cumsum([len(block.names) for block in blocks])
    return [slice(int(stop) - len(b.names), int(stop)) for b, stop in zip(blocks, stops, strict=True)]


def exact_gram(
    table: RowTable, blocks: Sequence[Block], label: Floats | None = None
) -> tuple[int, Ints, Ints]:
    """Return number, sums (n_columns,) and products (n_columns, n_columns) of the quantised rows, exactly.

    Parameters
    ----------
    blocks : sequence of Block
        Each quantised by itself. A row that one of them drops is dropped altogether.
    label : ndarray, optional
        Values of the last block, when they are not a column of `table`.
    """
    if label is not None and len(label) != table.n_rows:
        raise SchemaError("X and y have different lengths")
    width = sum(len(block.names) for block in blocks)
    n_product = _rows_per_product(width)
    n_rows = n_product * max(1, min(_CHUNK // width, _CHUNK_ROWS) // n_product)
    sums, products = np.zeros(width, dtype=np.int64), np.zeros((width, width), dtype=np.int64)
    exact_sums, exact, pending, count = np.zeros(width), np.zeros((width, width)), 0, 0
    buffer, product = np.empty((n_rows, width)), np.empty((width, width))
    ones, lengths = np.ones(n_rows), np.empty(n_rows)
    scratch = [np.empty((n_rows, len(block.names))) for block in blocks]
    places = columns_of(blocks)
    sources: list[Iterator[Floats]] = [table.chunks(block.names, n_rows) for block in blocks[:-1]]
    last = table.chunks(blocks[-1].names, n_rows) if label is None else _pieces(label, n_rows)
    for chunks in zip(*sources, last, strict=True):
        size = len(chunks[0])
        rows = buffer[:size]
        dropped = None
        for block, chunk, work, place in zip(blocks, chunks, scratch, places, strict=True):
            out = rows if len(blocks) == 1 else rows[:, place]
            kept = block.scale(chunk, work[:size], lengths[:size], out)
            if kept is not None:
                dropped = ~kept if dropped is None else dropped | ~kept
        if dropped is not None:
            rows[dropped] = 0.0
        count += size if dropped is None else size - int(np.count_nonzero(dropped))
        np.rint(rows, out=rows)
        exact_sums += ones[:size] @ rows
        for start in range(0, size, n_product):
            part = rows[start : start + n_product]
            exact += np.matmul(part.T, part, out=product)
        pending += size
        if pending > _EXACT_ROWS - n_rows:
            sums += exact_sums.astype(np.int64)
            products += exact.astype(np.int64)
            exact_sums[:], exact[:], pending = 0.0, 0.0, 0
    sums += exact_sums.astype(np.int64)
    products += exact.astype(np.int64)
    return count, sums, products


def _pieces(values: Floats, n_rows: int) -> Iterator[Floats]:
    for start in range(0, len(values), n_rows):
        yield values[start : start + n_rows, np.newaxis]


def _rows_per_product(width: int) -> int:
    """Return how many rows are multiplied in one go: few enough for one thread, unless calls cost more than that."""
    small = _SMALL_PRODUCT // (width * (width + 1))
    return min(small, 2048) if small >= 64 else 2048
