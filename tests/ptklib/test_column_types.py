"""A column whose type can match no value of its domain is refused; test_unmatched has those whose values match none."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ptklib import CountFeaturizer, HistoricalStatistics, TreeFeaturizer, UserEmbeddings
from ptklib.exceptions import SchemaError

SPEED = {"speed": (0, 60)}
KEYED = {
    "statistics": lambda values: HistoricalStatistics(domains={"key": values}, bounds=SPEED, epsilon=1.0),
    "counts": lambda values: CountFeaturizer(
        label="label", classes=(0, 1), domains={"key": values}, epsilon=1.0
    ),
    "classes": lambda values: CountFeaturizer(
        label="key", classes=values, domains={"label": (0, 1)}, epsilon=1.0
    ),
    "trees": lambda values: TreeFeaturizer(
        label="label", classes=(0, 1), domains={"key": values}, n_estimators=2, max_depth=2, epsilon=1.0
    ),
    "users": lambda values: UserEmbeddings(
        "key", "label", users=values, items=(0, 1), n_factors=1, max_rows_per_user=2, epsilon=1.0, delta=1e-6
    ),
    "items": lambda values: UserEmbeddings(
        "label", "key", users=(0, 1), items=values, n_factors=1, max_rows_per_user=2, epsilon=1.0, delta=1e-6
    ),
}
DOMAINS: dict[str, Any] = {"int64": [0, 1, 2], "string": ["a", "b"], "bool": [False, True]}
COLUMNS: dict[str, dict[str, Any]] = {
    "int64": {
        "numpy": np.array([0, 1, 2, 1]),
        "Arrow": pa.array([0, 1, 2, None]),
        "pandas": pd.Series([0, 1, 2, None], dtype="Int64"),
        "uint8": pa.array([0, 1, 2, 1], pa.uint8()),
    },
    "string": {
        "numpy": np.array(["0", "1", "a", "b"]),
        "Arrow": pa.array(["0", "1", "a", None]),
        "pandas": pd.Series(["0", "1", "a", None], dtype="string"),
        "views": pa.array(["0", "1", "a", None], pa.string_view()),
        "dictionary": pa.array(["0", "1", "a", None]).dictionary_encode(),
    },
    "bool": {"numpy": np.array([True, False, True, True]), "Arrow": pa.array([True, False, None, True])},
    "time": {
        "numpy": np.array([0, 1, 2, 3], dtype="datetime64[us]"),
        "Arrow": pa.array([0, 1, 2, None], pa.timestamp("us")),
        "lengths": np.array([0, 1, 2, 3], dtype="timedelta64[h]"),
    },
    "bytes": {"numpy": np.array([b"0", b"a", b"b", b"1"]), "Arrow": pa.array([b"0", b"a", None, b"b"])},
}
TYPE_OF_KEY = "column 'key' has type"
CASES = [(kind, form, domain) for kind, forms in COLUMNS.items() for form in forms for domain in DOMAINS]


@pytest.mark.parametrize("family", KEYED)
@pytest.mark.parametrize("n_rows", [4, 0])
def test_the_type_of_a_column_decides_whether_it_fits_its_domain(family: str, n_rows: int) -> None:
    judged = {case: refusal_of(family, *case, n_rows) for case in CASES}
    assert {case for case, refusal in judged.items() if refusal is None} == {
        (kind, form, domain) for kind, form, domain in CASES if kind == domain
    }
    assert {
        refusal for refusal in judged.values() if not (refusal or TYPE_OF_KEY).startswith(TYPE_OF_KEY)
    } == set()


def refusal_of(family: str, kind: str, form: str, domain: str, n_rows: int) -> str | None:
    """What is said of a table with such a column; None if it is read."""
    table = {
        "key": COLUMNS[kind][form][:n_rows],
        "label": np.array([0, 1, 1, 0][:n_rows], dtype=np.int64),
        "speed": np.arange(float(n_rows)),
    }
    try:
        KEYED[family](DOMAINS[domain]).partial_statistics(table)
    except SchemaError as refused:
        return str(refused)
    return None
