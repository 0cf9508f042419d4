"""Packed rows and keys as bytes: exact, unambiguous, refused when damaged."""

import math
import struct
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptkstore.adapters.feast.loading import load_feast
from ptkstore.adapters.feast.packed.keys import fields_of, row_field
from ptkstore.adapters.feast.packed.layout import HEAD, Layout, Layouts
from ptkstore.adapters.feast.tables import view_tables
from ptkstore.errors import CorruptObject
from tests.support.feast_values import COLUMNS, MOMENT


@pytest.fixture(scope="module")
def lazy() -> SimpleNamespace:
    """What needs Feast, which takes seconds to load."""
    load_feast(Path())
    from feast.protos.feast.types import EntityKey_pb2, Value_pb2
    from feast.value_type import ValueType

    from ptkstore.adapters.feast import values
    from ptkstore.adapters.feast.packed import columns, messages, reading

    return SimpleNamespace(
        EntityKey=EntityKey_pb2.EntityKey,
        Value=Value_pb2.Value,
        ValueType=ValueType,
        online_rows=values.online_rows,
        packed_rows=columns.packed_rows,
        table_layout=columns.table_layout,
        cells=messages.cells,
        layout_of=messages.layout_of,
        message=messages.message,
        cells_of=reading.cells_of,
        values_of=reading.values_of,
    )


INT64 = st.integers(-(2**63), 2**63 - 1)
CELLS = {
    "d": st.floats(),
    "f": st.floats(width=32),
    "q": INT64,
    "i": st.integers(-(2**31), 2**31 - 1),
    "?": st.booleans(),
    "t": INT64,
    "s": st.text(),
    "b": st.binary(),
    "D": st.lists(st.floats()),
    "F": st.lists(st.floats(width=32)),
    "Q": st.lists(INT64),
    "m": st.binary(),
}


def bits(value: object) -> object:
    """A value so that NaN equals itself and -0.0 differs from 0.0."""
    if isinstance(value, float):
        return struct.pack("<d", value) if not math.isnan(value) else "NaN"
    return [bits(item) for item in value] if isinstance(value, list) else (type(value), value)


@st.composite
def layouts_and_rows(draw: st.DrawFn) -> tuple[Layout, int, list[object]]:
    kinds = draw(st.lists(st.sampled_from(sorted(CELLS)), max_size=20))
    row = [draw(st.none() | CELLS[kind]) for kind in kinds]
    return Layout([(f"f{i}", kind) for i, kind in enumerate(kinds)]), draw(INT64), row


@given(layouts_and_rows())
def test_a_row_comes_back_bit_by_bit(drawn):
    layout, micros, row = drawn
    packed = layout.pack(micros, row)
    at, values = layout.unpack(packed)
    assert (at, [bits(v) for v in values]) == (micros, [bits(v) for v in row])
    assert struct.unpack_from("<q", packed, HEAD) == (micros,)


@given(layouts_and_rows(), st.data())
def test_a_row_of_another_length_is_refused(drawn, data):
    layout, micros, row = drawn
    packed = layout.pack(micros, row)
    cut = data.draw(st.integers(0, len(packed) - 1))
    for damaged in (packed[:cut], packed + b"x"):
        with pytest.raises(CorruptObject):
            layout.unpack(damaged)


@given(layouts_and_rows(), st.data())
def test_many_rows_are_unpacked_as_one_by_one(drawn, data):
    layout, micros, row = drawn
    others = data.draw(st.lists(st.tuples(*(st.none() | CELLS[kind] for kind in layout.kinds)), max_size=4))
    rows = [
        layout.pack(micros + n if micros < 0 else micros - n, cells) for n, cells in enumerate([row, *others])
    ]
    one_by_one = [layout.unpack(packed) for packed in rows]
    together = layout.unpack_many(rows)
    assert [(at, bits(list(v))) for at, v in together] == [(at, bits(list(v))) for at, v in one_by_one]
    with pytest.raises(CorruptObject):
        layout.unpack_many([*rows, rows[0][:-1], rows[0] + b"x"])


def test_a_layout_is_read_back_from_its_text_and_only_from_its_own():
    layout, other = Layout([("a", "d"), ("é", "s")]), Layout([("a", "q")])
    row = layout.pack(7, [0.5, "x"])
    layouts = Layouts()
    assert layouts.unknown([None, row, row]) == [layout.id]
    for text in (None, other.text, b"[[", b'{"a": 1}'):
        with pytest.raises(CorruptObject):
            layouts.learn(layout.id, text)
    layouts.learn(layout.id, layout.text)
    assert layouts.unknown([row]) == []
    assert list(layouts.of(row).unpack(row)[1]) == [0.5, "x"]


def test_a_format_or_kind_of_a_later_release_is_refused():
    with pytest.raises(CorruptObject, match="format"):
        Layouts().unknown([b"\x02" + bytes(30)])
    with pytest.raises(CorruptObject, match="kinds"):
        Layout.parsed(b'[["a","Z"]]')


def test_arrow_columns_and_messages_pack_to_the_same_bytes(make, lazy):
    """Two ways into the store: many rows at once, and Feast's own."""
    columns = {"k": ["a", "b"], "n": [-1, 2**62], **COLUMNS}
    state = make.state(1, tables={"t": pa.table(columns)}, keys={"t": ("n", "k")})
    (table,) = view_tables(state)
    layout = lazy.table_layout(table)
    ((fields, rows),) = lazy.packed_rows(table, layout, MOMENT, at_once=100)
    entries = list(lazy.online_rows(table))
    assert fields == [row_field(key) for key, _ in entries]
    micros = int(MOMENT.timestamp()) * 1_000_000
    assert rows == [layout.pack(micros, lazy.cells(layout, values)) for _, values in entries]
    declared = dict.fromkeys(table.features, lazy.ValueType.UNKNOWN)
    assert lazy.layout_of((values for _, values in entries), declared).names == layout.names


def test_rows_are_cut_into_parts_and_empty_tables_have_none(make, lazy):
    hours = tuple(range(7))
    (table,) = view_tables(make.state(1, hours=hours))
    layout = lazy.table_layout(table)
    parts = list(lazy.packed_rows(table, layout, MOMENT, at_once=3))
    assert [len(fields) for fields, _ in parts] == [3, 3, 1]
    (empty,) = view_tables(make.state(1, hours=()))
    assert list(lazy.packed_rows(empty, layout, MOMENT, at_once=3)) == []


def test_values_of_several_types_under_one_name_stay_what_they_are(lazy):
    rows = [{"a": lazy.Value(int64_val=1)}, {"a": lazy.Value(double_val=1.0)}, {"a": lazy.Value()}, {}]
    layout = lazy.layout_of(rows, {"a": lazy.ValueType.INT64})
    assert layout.kinds == ("m",)
    for row in rows:
        _, (cell,) = layout.unpack(layout.pack(0, lazy.cells(layout, row)))
        assert lazy.message("m", cell) == row.get("a", lazy.Value())


def test_rows_of_different_layouts_are_read_together(lazy):
    old, new = Layout([("a", "d")]), Layout([("a", "q"), ("b", "s")])
    layouts = Layouts()
    layouts.add(old)
    layouts.add(new)
    rows = [old.pack(1, [0.5]), None, new.pack(2, [7, "x"]), new.pack(3, [None, None])]
    found = lazy.cells_of(rows, ["b", "a"], layouts)
    assert found.micros == [1, None, 2, 3]
    read = [[None if c is None else lazy.message(kind, c) for c in column] for kind, column in found.columns]
    a = [lazy.Value(double_val=0.5), None, lazy.Value(int64_val=7), None]
    assert read == [[None, None, lazy.Value(string_val="x"), None], a]
    assert lazy.values_of(rows[2] or b"", layouts) == (
        2,
        {"a": lazy.Value(int64_val=7), "b": lazy.Value(string_val="x")},
    )


KEYS = st.lists(st.one_of(INT64, st.text()), min_size=1, max_size=3)


def entity_key(lazy: SimpleNamespace, values: list[object]):
    given = [lazy.Value(int64_val=v) if isinstance(v, int) else lazy.Value(string_val=v) for v in values]
    return lazy.EntityKey(join_keys=[f"k{i}" for i in range(len(values))], entity_values=given)


@given(KEYS, KEYS)
def test_different_keys_have_different_fields(lazy, one, other):
    same = [(type(v), v) for v in one] == [(type(v), v) for v in other]
    assert (row_field(entity_key(lazy, one)) == row_field(entity_key(lazy, other))) == same


@given(KEYS)
def test_keys_are_encoded_alike_from_values_and_from_messages_in_any_order(lazy, values):
    kinds = ["INT64" if isinstance(v, int) else "STRING" for v in values]
    expected = row_field(entity_key(lazy, values))
    assert fields_of([[v] for v in values], kinds) == [expected]
    backwards = entity_key(lazy, values)
    turned = lazy.EntityKey(
        join_keys=list(backwards.join_keys)[::-1], entity_values=list(backwards.entity_values)[::-1]
    )
    assert row_field(turned) == expected


@pytest.mark.parametrize("value", [True, 1.0, None, "1", 2**63, -(2**63) - 1])
def test_a_value_that_feast_would_convert_or_refuse_is_left_to_feast(value):
    assert fields_of([[1, value]], ["INT64"]) is None
    assert fields_of([["a", "\ud800"]], ["STRING"]) is None
