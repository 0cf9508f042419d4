"""The rows of a run, window by window: each is opened with its own key, in the columns that are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ptklib.privacy import PrivacyUnit
from ptkstore.domain.streams.blocks import HASH_RANGE
from ptkstore.domain.streams.schemas import HASH
from ptkstore.errors import InvariantBroken
from ptkstore.ports.objects import RawZone
from ptkstore.ports.row_processes import OpenedRows

if TYPE_CHECKING:
    from ptklib.profiling.samples import HashedRows


def tables_of(rows: Sequence[OpenedRows], raw: RawZone, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield a table for each window; one that is let go of takes no memory while the next is read."""
    for one in rows:
        yield pa.concat_tables(
            [raw.read_part(url, one.window_key, columns, (one.low, one.high)) for url in one.part_urls]
        )


def unit_rows(
    rows: Sequence[OpenedRows],
    raw: RawZone,
    columns: Sequence[str],
    *,
    population: float,
    within: tuple[int, int] = (0, HASH_RANGE),
) -> HashedRows:
    """Return the rows of all windows with their privacy units, of which none is in two windows.

    A user has one keyed hash in all windows of a stream, and is another unit in each.

    Parameters
    ----------
    rows, raw
        The rows to open, and their places.
    columns : sequence of str
        The columns of the table.
    population : float
        Public number of units in all windows, from the policy.
    within : tuple (low, high)
        Where hashes lie.
    """
    from ptklib.profiling.samples import HashedRows  # takes pandas with it, which preparations go without

    if len({one.window_key for one in rows}) < len(rows):
        raise InvariantBroken("a window is named twice: its units would count twice")
    tables = list(tables_of(rows, raw, (*columns, HASH)))
    windows = np.repeat(np.arange(len(tables)), [table.num_rows for table in tables])
    table = pa.concat_tables(tables)
    return HashedRows(
        table.select(list(columns)),
        table[HASH].to_numpy(),
        population=population,
        within=within,
        windows=windows,
    )


def check_apart(estimator: Any, rows: Sequence[OpenedRows], *, by_window: bool) -> None:
    """Raise `InvariantBroken` if a training would bound the rows that a user has in several windows as one unit's.

    Another window's rows of the same user would take the place of those that one window less has: a removal and an
    addition, and twice the declared loss.

    Parameters
    ----------
    by_window : bool
        Whether the estimator gets each window as a table of its own. An estimator with a `unit` bounds each table by
        itself; embeddings bound a user's rows when all tables are there.
    """
    apart = by_window and estimator.unit is not None
    if len(rows) > 1 and estimator.privacy_unit() is not PrivacyUnit.RECORD and not apart:
        raise InvariantBroken("this estimator bounds the rows of a user over all windows together")
