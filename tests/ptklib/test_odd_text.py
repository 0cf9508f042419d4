"""Text that is no text is a missing value: it fails nothing and changes how no other entry is read."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ptklib import CountFeaturizer
from ptklib.keys import string_keys

WAYS: list[dict[str, Any]] = [
    {"domains": {"zone": ["ok", "b"]}},
    {"hash_buckets": {"zone": 64}},
    {"select": {"zone": "string"}, "delta": 1e-6},
]


def not_utf8() -> pa.Array:
    octets = pa.array([b"ok", b"\xffsecret\xfe", None])
    return pa.StringArray.from_buffers(3, octets.buffers()[1], octets.buffers()[2], octets.buffers()[0], 1)


ODD: list[Any] = [
    not_utf8(),
    not_utf8().cast(pa.large_string()),
    pa.chunked_array([not_utf8(), ["b"]]),
    np.array(["ok", "\ud800"]),
    np.array(["ok", "\ud800"], dtype=object),
    np.array(["ok", np.float32("nan")], dtype=object),
    np.array(["ok", np.datetime64("NaT")], dtype=object),
    np.array(["ok", b"ok", [1]], dtype=object),
]


@pytest.mark.parametrize("ways", WAYS, ids=lambda w: next(iter(w)))
@pytest.mark.parametrize("column", ODD, ids=lambda c: f"{type(c).__name__}-{getattr(c, 'dtype', '')}")
def test_one_odd_entry_stops_no_fit_and_moves_no_other(ways: dict[str, Any], column: Any) -> None:
    model = CountFeaturizer(["zone"], classes=(0, 1), epsilon=1.0, **ways)
    label = np.zeros(len(column), dtype=np.int64)
    data = pa.table({"zone": column}) if isinstance(column, pa.Array | pa.ChunkedArray) else column[:, None]
    alone = pa.table({"zone": pa.array(["ok", "b"] if len(column) == 4 else ["ok"])})
    expected = model.partial_statistics(alone, label[: alone.num_rows]).arrays
    found = model.partial_statistics(data, label).arrays
    assert {n: a.tolist() for n, a in found.items()} == {n: a.tolist() for n, a in expected.items()}
    model.fit(data, label).transform(data)


def test_strings_that_are_not_utf8_are_null() -> None:
    assert string_keys(not_utf8(), "zone").to_pylist() == ["ok", None, None]
