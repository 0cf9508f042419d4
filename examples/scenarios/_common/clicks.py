"""Click logs: the public originals and a generated stand-in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

LABEL = "clicked"
_ATTRIBUTION = ("cat1", "cat4", "cat6", "cat8", "cat9")
_DISPLAY_LABELS = ("label", "Label")
_AVAZU = (
    "site_id", "site_domain", "site_category", "app_id", "app_domain", "app_category", "device_model",
    "device_conn_type", "banner_pos", "c1", "c14", "c15", "c16", "c17", "c18", "c19", "c20", "c21",
)  # fmt: skip


@dataclass(frozen=True)
class Clicks:
    """Impressions in the order of time: `LABEL` in {0, 1}, `categories` as text, real `numbers`."""

    name: str
    rows: pd.DataFrame
    categories: tuple[str, ...]
    numbers: tuple[str, ...]


def load(path: Path, limit: int | None = None) -> Clicks:
    """Read a Parquet file of the Criteo attribution, Criteo display or Avazu log.

    Rows are taken in the order of the file, or of ``row_id`` where there is one; `limit` keeps the first.
    """
    names = {name.lower(): name for name in pq.read_schema(path).names}
    if set(_ATTRIBUTION) <= names.keys() and "click" in names:
        label, categories, numbers = "click", _ATTRIBUTION, ()
    elif {"c14", "site_id", "app_id", "click"} <= names.keys():
        label, categories, numbers = "click", _AVAZU, ()
    elif {"i1", "c26"} <= names.keys() and names.keys() & {n.lower() for n in _DISPLAY_LABELS}:
        label = "label"
        categories = tuple(f"c{i}" for i in range(1, 27))
        numbers = tuple(f"i{i}" for i in range(1, 14))
    else:
        raise SystemExit(
            f"{path} is no click log known here: attribution, display or Avazu columns are missing"
        )
    order = [names["row_id"]] if "row_id" in names else []
    table = pd.read_parquet(path, columns=[names[n] for n in (label, *categories, *numbers)] + order)
    table.columns = table.columns.str.lower()
    if order:
        table = table.sort_values("row_id", kind="stable")
    return _clicks(path.stem, table.head(limit) if limit else table, label, categories, numbers)


def generate(n_rows: int, seed: int = 0) -> Clicks:
    """Make up impressions whose click rate depends on four categories, two of them with many rare values."""
    rng = np.random.default_rng(seed)
    table, logit = {}, np.full(n_rows, -1.2)
    for name, size in (("site", 400), ("campaign", 150), ("device", 30), ("position", 5)):
        value = np.minimum(rng.zipf(1.4, n_rows) - 1, size - 1)
        table[name], logit = value, logit + rng.normal(0, 0.8, size)[value]
    table["click"] = (rng.random(n_rows) < 1 / (1 + np.exp(-logit))).astype(int)
    categories = tuple(name for name in table if name != "click")
    return _clicks("generated clicks", pd.DataFrame(table), "click", categories, ())


def _clicks(
    name: str, table: pd.DataFrame, label: str, categories: tuple[str, ...], numbers: tuple[str, ...]
) -> Clicks:
    rows = {LABEL: table[label].to_numpy(dtype=np.int64)}
    for column in categories:
        rows[column] = table[column].astype("string").fillna("missing").to_numpy(dtype=object)
    for column in numbers:
        value = table[column].to_numpy(dtype=np.float64, na_value=np.nan)
        rows[column] = np.log1p(np.maximum(np.nan_to_num(value, nan=-1.0) + 1.0, 0.0))
    return Clicks(name, pd.DataFrame(rows), categories, numbers)
