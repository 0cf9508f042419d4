"""A release as HTML: what it lost, which tables came out, and how much noise is in them."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from ptklib.displays import markup
from ptklib.events import LocalReport
from ptklib.privacy import PrivacyLoss
from ptklib.row_noise import OWN_NOISE, noise_ranges

ROWS_SHOWN, COLUMNS_SHOWN, GROUPS_SHOWN = 5, 8, 40

UNKNOWN, KEY = "no closed form", "none, it is a key"

Keys = Mapping[str, Sequence[str]]
Noise = Mapping[str, Mapping[str, float]]


def release_html(
    title: str,
    tables: Mapping[str, Any],
    keys: Keys,
    noise_std: Noise,
    loss: PrivacyLoss,
    told: Mapping[str, object],
) -> str:
    """Return a released state as HTML.

    Parameters
    ----------
    tables : mapping of name to pyarrow.Table
        Released.
    keys : mapping of table to sequence of str
        Columns that are join keys, which have no noise.
    noise_std : mapping of table to mapping of column to float
        Of the noise in a cell, as far as it has a closed form.
    told : mapping of text to value
        Further public or released facts.
    """
    ordered = dict(sorted(tables.items()))  # as a state has them
    return markup.section(
        title,
        markup.facts("Guarantee", {**loss_facts(loss), **told}),
        markup.table(
            "Released",
            ("table", "rows", "columns", "noise (standard deviation)"),
            _noise_rows(ordered, keys, noise_std),
        ),
        *(markup.folded(f"First rows of {name}", _head(name, table)) for name, table in ordered.items()),
    )


def loss_facts(loss: PrivacyLoss) -> dict[str, object]:
    """Return a loss as names and values."""
    kinds = list(dict.fromkeys(type(leaf).__name__ for leaf, _ in loss.event.leaves()))
    return {
        "epsilon": loss.epsilon,
        "delta": loss.delta,
        "mechanisms": ", ".join(kinds) or "none",
        **({"kind": "local: of one report of a device"} if isinstance(loss.event, LocalReport) else {}),
    }


def _noise_rows(tables: Mapping[str, Any], keys: Keys, noise_std: Noise) -> Iterator[tuple[object, ...]]:
    """Yield a row per table and noise; neighbouring columns with the same noise share one."""
    for name, table in tables.items():
        noisy = noise_std.get(name, {})
        noise: dict[str, object] = dict.fromkeys(table.column_names, UNKNOWN)
        noise |= {column: _told(*ends) for column, ends in noise_ranges(table, noisy, keys[name]).items()}
        noise |= dict.fromkeys(keys[name], KEY)
        groups = [
            (told, list(columns)) for told, columns in groupby(table.column_names, key=noise.__getitem__)
        ]
        for told, columns in groups[:GROUPS_SHOWN]:
            yield name, table.num_rows, _span(columns), told
        if len(groups) > GROUPS_SHOWN:
            yield name, table.num_rows, f"and {len(groups) - GROUPS_SHOWN} more groups", ""


def _told(least: float, most: float) -> object:
    """Return the noise of a column as it is shown: a number, or the ends where each row has its own."""
    if least == most:
        return most
    return f"{markup.shortened(least)} to {markup.shortened(most)}, in the column {OWN_NOISE}"


def _span(columns: list[str]) -> str:
    if len(columns) <= 4:
        return ", ".join(map(markup.shortened, columns))
    return f"{markup.shortened(columns[0], 30)} … {markup.shortened(columns[-1], 30)} ({len(columns)})"


def _head(name: str, table: Any) -> str:
    columns = table.column_names[:COLUMNS_SHOWN]
    rows = table.slice(0, ROWS_SHOWN).select(columns).to_pylist() if len(set(columns)) == len(columns) else []
    return markup.table(name, columns, ([row[column] for column in columns] for row in rows))
