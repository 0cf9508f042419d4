"""One released column with its noise, ready to be drawn."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ptklib.displays.charts import BarDisplay
from ptklib.displays.described import Keys, Noise
from ptklib.events import GaussianNoise, LaplaceNoise, PoissonSampled
from ptklib.exceptions import InvalidParameterError
from ptklib.privacy import PrivacyLoss
from ptklib.row_noise import noise_of_column, numbers_of

GAUSSIAN, LAPLACE = 1.96, 2.12
"""Standard deviations to both sides in which 95 % of the noise is; Laplace noise has longer tails: ln(20) / sqrt(2)."""
ROWS_MAX = 60


def column_display(
    tables: Mapping[str, Any],
    keys: Keys,
    noise_std: Noise,
    loss: PrivacyLoss,
    asked: tuple[str | None, str | None],
    rows: int = ROWS_MAX,
) -> BarDisplay:
    """Return a column of a released table for a plot.

    Parameters
    ----------
    keys : mapping of table to sequence of str
        Join keys, which name the values.
    asked : tuple of table and column
        None for the first table, by name, with noise in closed form, and for the first such column.
    rows : int
        At most so many are drawn, the first of the table.

    Raises
    ------
    InvalidParameterError
        There is no such table, or no such column of numbers.
    """
    name = _one_of(
        asked[0], sorted(tables), "table", next((n for n in sorted(tables) if noise_std.get(n)), None)
    )
    table, noisy = tables[name], noise_std.get(name, {})
    numbers = [c for c in numbers_of(table) if c not in keys[name]]
    column = _one_of(asked[1], numbers, f"column of numbers in table {name!r}", next(iter(noisy), None))
    shown = table.slice(0, rows)
    return BarDisplay(
        _labels(shown, keys[name]),
        shown.column(column).to_pylist(),
        _reach(shown, column, noisy, keys[name], loss),
        column,
        _title(name, column, column in noisy, shown.num_rows, table.num_rows),
    )


def _reach(
    table: Any, column: str, noisy: Mapping[str, float], keys: Collection[str], loss: PrivacyLoss
) -> list[float] | None:
    stds = noise_of_column(table, column, noisy, keys)
    times = GAUSSIAN if _only_gaussian(loss) else LAPLACE
    return None if stds is None else [times * std for std in stds]


def _only_gaussian(loss: PrivacyLoss) -> bool:
    kinds = [type(leaf) for leaf, _ in loss.event.leaves()]
    return any(issubclass(kind, GaussianNoise) for kind in kinds) and not any(
        issubclass(kind, LaplaceNoise) and not issubclass(kind, PoissonSampled) for kind in kinds
    )


def _labels(table: Any, keys: Sequence[str]) -> list[str]:
    if not keys:
        return [str(i) for i in range(table.num_rows)]
    columns = [table.column(key).to_pylist() for key in keys]
    return [", ".join(map(str, values)) for values in zip(*columns, strict=True)]


def _title(table: str, column: str, noisy: bool, shown: int, n_rows: int) -> str:
    some = "" if shown == n_rows else f", first {shown} of {n_rows} rows"
    return f"{table}: {column}{some}" + (
        ", with 95 % of the noise" if noisy else ", noise without closed form"
    )


def _one_of(asked: str | None, there: list[str], kind: str, usual: str | None) -> str:
    chosen = usual if asked is None else asked
    if chosen is None and there:
        chosen = there[0]
    if chosen not in there:
        raise InvalidParameterError(f"there is no {kind} {chosen!r}: there are {', '.join(map(repr, there))}")
    return chosen
