"""Inside the sandbox: whether a team's losses of rows are, on synthetic rows, what it says that they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ptklib.checks.contract import require
from ptklib.team import TeamCode

Losses = Callable[[pa.Table], npt.NDArray[np.float64]]
"""The loss of each row of a table, under a state that was trained once."""

_ALONE = 30
_HOLES = 5


def loss_checks(
    trained: Callable[[], tuple[Losses, pa.Table]], described: TeamCode
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the checks of `row_losses` by name; none for code that has none.

    They find honest mistakes, such as a loss in units of the mean of all rows. Code that means harm passes them.

    Parameters
    ----------
    trained : callable
        Returns the losses under a new state, and synthetic rows.
    """
    if described.row_losses is None:
        return

    def numbers() -> None:
        losses, rows = trained()
        for part in (rows, rows.slice(0, 1), rows.slice(0, 0)):
            require(bool(np.isfinite(losses(part)).all()), "row_losses has to return finite numbers")

    def single() -> None:
        losses, rows = trained()
        whole = losses(rows)
        few = range(min(_ALONE, rows.num_rows))
        alone = [float(losses(rows.slice(place, 1))[0]) for place in few]
        backwards = losses(rows.take(pa.array(np.arange(rows.num_rows)[::-1])))[::-1]
        require(
            bool(np.array_equal(whole[: len(alone)], alone) and np.array_equal(whole, backwards)),
            "the loss of a row is another one when other rows are there, or are in another order. It must depend on "
            "that row and the state alone, in its last bit too. A product of a matrix and a vector does not: add up "
            "column by column",
        )

    yield "check_row_losses_are_numbers", numbers
    yield "check_row_losses_are_of_single_rows", single
    yield "check_row_losses_of_missing_entries", lambda: _check_missing(*trained())


def _check_missing(losses: Losses, rows: pa.Table) -> None:
    for place, name in enumerate(rows.column_names):
        column = rows.column(name)
        odd = pa.concat_arrays([*column.chunks, pa.nulls(_HOLES, column.type)]).slice(_HOLES)
        try:
            losses(rows.set_column(place, name, odd))
        except Exception as error:
            raise AssertionError(
                f"a missing entry of column {name!r} stops row_losses: {type(error).__name__} tells that it is there"
            ) from error
