"""Large tables over HTTP: cut by their rows alone, and stored once, whatever becomes of a part."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ptkstore import connect
from ptkstore import errors as e
from ptkstore.api.limits import Limits
from ptkstore.application.ingest.ingest_records import IngestReply
from ptkstore.domain.identity import Role
from ptkstore.domain.streams.windows import WindowId
from ptkstore.sdk import Store
from ptkstore.sdk.remote import parts, transport
from ptkstore.sdk.remote.parts import Parts
from tests.support.api_server import Api, arrow
from tests.support.world import STREAM, World, trips, unheard_batch


@pytest.fixture
def remote(api: Api) -> Iterator[Store]:
    with connect(api.url, token=api.token(*Role)) as store:
        yield store


def of_rows(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(parts, "PART_ROWS", rows)


def of_bytes(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(parts, "PART_BYTES", size)


def stored_speeds(world: World) -> list[float]:
    """The speeds in the first window, as they lie there."""
    with world.service.begin() as uow:
        tokens = uow.streams.tokens_for(WindowId(STREAM, 0))
    key = world.service.keys.sealing_key(WindowId(STREAM, 0))
    tables = world.service.raw.read_batches(WindowId(STREAM, 0), tokens, key)
    return sorted(speed for table in tables for speed in table["speed"].to_pylist())


# where a table is cut

N = 2_000
ROWS = pa.table(
    {
        "at": pa.array(np.arange(N) * 1000, pa.timestamp("us")),
        "user": pa.array([f"user-{i % 50}" * (1 + i // 200 % 7) for i in range(N)]),
        "umlaut": pa.array([None if i % 3 else "ä€" * (i % 11) for i in range(N)]),
        "count": pa.array([None if i % 5 else i for i in range(N)], pa.int64()),
        "rate": pa.array([None if i % 4 else i / 7 for i in range(N)]),
        "flag": pa.array([None if i % 6 else i % 2 == 0 for i in range(N)]),
        "nothing": pa.nulls(N, pa.string()),
    }
)


def pieces(table: pa.Table, *sizes: int) -> pa.Table:
    """The same rows in chunks of these sizes, again and again."""
    cut, start = list[pa.Table](), 0
    while start < table.num_rows:
        cut.append(table.slice(start, sizes[len(cut) % len(sizes)]))
        start += cut[-1].num_rows
    return pa.concat_tables(cut)


def from_file(table: pa.Table, **options: Any) -> pa.Table:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=37)
    return pq.read_table(pa.BufferReader(sink.getvalue()), **options)


def with_columns(table: pa.Table, change: Callable[[pa.ChunkedArray], Any], *names: str) -> pa.Table:
    for name in names:
        table = table.set_column(table.column_names.index(name), name, change(table[name]))
    return table


def dictionary_with_null(column: pa.ChunkedArray) -> pa.Array:
    """A dictionary one of whose values is null, and some of whose indices are."""
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return pa.DictionaryArray.from_arrays(encoded.indices.cast(pa.int16()), encoded.dictionary)


def dictionary_of_views(column: pa.ChunkedArray) -> pa.ChunkedArray:
    encoded = column.dictionary_encode()
    return pa.chunked_array(
        [
            pa.DictionaryArray.from_arrays(c.indices, c.dictionary.cast(pa.string_view()))
            for c in encoded.chunks
        ]
    )


TEXTS = ("user", "umlaut", "nothing")
FORMS: dict[str, Callable[[pa.Table], pa.Table]] = {
    "chunks": lambda t: pieces(t, 1, 7, 200),
    "one chunk": lambda t: pieces(t, 3).combine_chunks(),
    "a slice": lambda t: pa.concat_tables([t.slice(5, 100), t, t.slice(0, 9)]).combine_chunks().slice(100, N),
    "a file": from_file,
    "a file's dictionaries": lambda t: from_file(t, read_dictionary=["user", "umlaut"]),
    "dictionaries": lambda t: with_columns(t, lambda c: c.dictionary_encode(), *TEXTS),
    "sliced dictionaries": lambda t: pa.concat_tables(
        [with_columns(pa.concat_tables([t, t]), lambda c: c.dictionary_encode(), *TEXTS).slice(N)]
    ),
    "dictionaries with a null": lambda t: with_columns(t, dictionary_with_null, *TEXTS),
    "dictionaries of numbers": lambda t: with_columns(t, lambda c: c.dictionary_encode(), "count", "rate"),
    "large texts": lambda t: with_columns(t, lambda c: c.cast(pa.large_string()), *TEXTS),
    "views of texts": lambda t: with_columns(t, lambda c: c.cast(pa.string_view()), *TEXTS),
    "dictionaries of views": lambda t: with_columns(t, dictionary_of_views, *TEXTS),
    "polars' categories": lambda t: (
        pl.from_arrow(t)
        .with_columns(pl.col("user").cast(pl.Categorical))
        .to_arrow(compat_level=pl.CompatLevel.newest())
    ),
    "more that hold nothing": lambda t: t.append_column("more", pa.nulls(N, pa.float64())).append_column(
        "text", pa.nulls(N, pa.dictionary(pa.int8(), pa.string()))
    ),
    "without what holds nothing": lambda t: t.drop_columns(["nothing"]),
    "no type": lambda t: with_columns(t, lambda _: pa.nulls(N), "nothing"),
    "small numbers": lambda t: with_columns(t, lambda c: c.cast(pa.int32()), "count"),
    "other times": lambda t: with_columns(t, lambda c: c.cast(pa.timestamp("ms", "UTC")), "at"),
    "pandas": lambda t: pa.Table.from_pandas(t.to_pandas(), preserve_index=False),
    "pandas on arrow": lambda t: pa.Table.from_pandas(t.to_pandas(types_mapper=pd.ArrowDtype)),
    "pandas' categories": lambda t: pa.Table.from_pandas(
        t.to_pandas().astype({"user": "category", "umlaut": "category"}), preserve_index=False
    ),
    "polars": lambda t: pl.from_arrow(t).to_arrow(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("whole", [N, N - 300])
def test_equal_rows_are_cut_at_the_same_places_whatever_form_they_have(
    monkeypatch: pytest.MonkeyPatch, form: str, whole: int
) -> None:
    of_bytes(monkeypatch, 10_000)
    table = FORMS[form](ROWS)
    assert table.num_rows == N
    cut = [part.num_rows for part in Parts(table.slice(0, whole))]
    assert cut == [part.num_rows for part in Parts(ROWS.slice(0, whole))]
    assert len(set(cut)) > 5  # they follow the lengths of rows


def test_the_parts_are_the_rows_in_their_order_and_no_dictionaries(monkeypatch: pytest.MonkeyPatch) -> None:
    of_bytes(monkeypatch, 10_000)
    table = pieces(FORMS["dictionaries"](ROWS), 11)
    assert pa.concat_tables(Parts(table)).cast(ROWS.schema).equals(ROWS)


def test_columns_that_hold_nothing_take_no_place_and_a_time_stays_one(
    monkeypatch: pytest.MonkeyPatch, remote: Store, world: World
) -> None:
    of_bytes(monkeypatch, 10_000)
    world.stream()
    wide = pa.table({"a": np.arange(5_000), **{f"n{i}": pa.nulls(5_000, pa.int64()) for i in range(20)}})
    assert max(len(arrow(part)) for part in Parts(wide)) < 20_000
    nothing = trips([0.1] * 3)
    nothing = pa.table({name: pa.nulls(3, nothing[name].type) for name in nothing.column_names})
    assert remote.ingest(STREAM, nothing).refused == Store(world.service).ingest(STREAM, nothing).refused


@pytest.mark.parametrize("form", ["chunks", "dictionaries", "large texts", "views of texts", "polars"])
def test_a_body_is_hardly_larger_than_a_part_however_many_chunks_there_were(
    monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    size = 20_000
    of_bytes(monkeypatch, size)
    bodies = [len(arrow(part)) for part in Parts(FORMS[form](ROWS))]
    assert max(bodies) < 1.2 * size
    assert len(bodies) < 4 * ROWS.nbytes / size
    assert Limits().ingest_body >= 2 * 32 * 2**20


def test_long_rows_that_lie_together_go_in_smaller_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    of_bytes(monkeypatch, 50_000)
    zone = ["z"] * 900 + ["z" * 2_000] * 100
    rows = [part.num_rows for part in Parts(pa.table({"zone": zone}))]
    assert rows == [900 + 20, 24, 24, 24, 8]  # 9 bytes a row, then 2,008


def test_one_row_longer_than_a_part_goes_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    of_bytes(monkeypatch, 100)
    table = trips([0.1] * 4, zone=pa.array(["z", "z" * 500, "z", "z"]))
    assert [part.num_rows for part in Parts(table)] == [1, 1, 2]


def test_a_table_without_rows_is_one_part() -> None:
    (part,) = Parts(trips([]))
    assert (part.num_rows, part.schema) == (0, trips([]).schema)


# what becomes of them


def test_a_large_table_goes_in_parts_each_of_them_once(
    remote: Store, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_rows(monkeypatch, 3)
    world.stream()
    table = trips([0.1] * 8)
    first, second = remote.ingest(STREAM, table, "b"), remote.ingest(STREAM, table, "b")
    assert (first.batch_id, first.accepted, first.repeated) == ("b", 8, False)
    assert (second.batch_id, second.accepted, second.repeated) == ("b", 0, True)
    assert stored_speeds(world) == sorted(table["speed"].to_pylist())


def test_no_batch_passes_for_a_part_of_another(
    remote: Store, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_rows(monkeypatch, 3)
    world.stream()
    for number in range(4):
        for separator in ".-/#?~|":
            assert remote.ingest(STREAM, trips([0.1]), f"b{separator}{number}").accepted == 1
    assert remote.ingest(STREAM, trips([0.1] * 8), "b").accepted == 8
    assert remote.ingest(STREAM, trips([0.1]), "b.4").accepted == 1
    for store in (remote, Store(world.service)):
        with pytest.raises(e.InvalidRequest, match="printable"):
            store.ingest(STREAM, trips([0.1]), "b\x1f1")


def test_a_batch_that_is_stored_takes_no_parts_of_another_table(
    remote: Store, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_rows(monkeypatch, 3)
    world.stream()
    for first, second in ((trips([0.1] * 2), trips([0.1] * 8)), (trips([0.1] * 8), trips([0.1] * 14))):
        name = f"b{first.num_rows}"
        assert remote.ingest(STREAM, first, name).accepted == first.num_rows
        again = remote.ingest(STREAM, second, name)
        assert (again.accepted, again.repeated) == (0, True)


def refusing(world: World, monkeypatch: pytest.MonkeyPatch, number: int, error: Exception) -> list[str]:
    """Have one of the next batches or parts refused; the ids that come."""
    store, seen = world.service.ingest, list[str]()

    def ingest(stream: str, rows: pa.Table, batch_id: str, part: int | None) -> IngestReply:
        seen.append(batch_id)
        if len(seen) == number:
            raise error
        return store(stream, rows, batch_id, part)

    monkeypatch.setattr(world.service, "ingest", ingest)
    return seen


@pytest.mark.parametrize(
    ("form", "other"),
    [("chunks", "one chunk"), ("a file's dictionaries", "pandas"), ("polars", "chunks")],
)
def test_a_table_that_is_sent_again_in_another_form_is_stored_once(
    remote: Store, world: World, monkeypatch: pytest.MonkeyPatch, form: str, other: str
) -> None:
    of_bytes(monkeypatch, 20_000)
    monkeypatch.setattr(transport, "TRIES", 1)
    world.stream()
    table = trips(np.linspace(0.1, 0.2, N).tolist(), zone=ROWS["user"])
    shaped = {
        "chunks": lambda: pieces(table, 20),
        "one chunk": lambda: table.combine_chunks(),
        "a file's dictionaries": lambda: from_file(table, read_dictionary=["zone"]),
        "pandas": lambda: table.to_pandas(),
        "polars": lambda: pl.from_arrow(table).to_arrow(),
    }
    refusing(world, monkeypatch, 3, e.Unavailable("not now"))
    with pytest.raises(e.OutcomeUnknown, match="in the same order"):
        remote.ingest(STREAM, shaped[form](), "b")
    again = remote.ingest(STREAM, shaped[other](), "b")
    assert (0 < again.accepted < N, again.repeated) == (True, False)
    assert stored_speeds(world) == sorted(table["speed"].to_pylist())
    assert remote.ingest(STREAM, table, "b").repeated


@pytest.mark.parametrize("name", [None, "b"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_large_table_of_which_nobody_answered_for_a_part_is_named_whole(
    remote: Store, world: World, monkeypatch: pytest.MonkeyPatch, name: str | None, number: int
) -> None:
    of_rows(monkeypatch, 3)
    monkeypatch.setattr(transport, "TRIES", 1)  # it would ask again, and be told
    world.stream()
    table = trips([0.1] * 8)
    unheard_batch(monkeypatch, number)
    with pytest.raises(
        e.OutcomeUnknown, match=r"send the same rows again as batch .* in the same order"
    ) as told:
        remote.ingest(STREAM, table, name)
    named = str(told.value).split("'")[1]
    assert named == (name or named)
    again = remote.ingest(STREAM, table, named)
    assert (again.accepted, again.repeated) == (max(0, 8 - 3 * number), number == 3)
    assert stored_speeds(world) == sorted(table["speed"].to_pylist())


@pytest.mark.parametrize("name", [None, "b"])
@pytest.mark.parametrize("kind", [e.Unavailable, e.TooManyRequests, e.NotAllowed])
def test_a_large_table_whose_second_part_is_refused_is_named_so_that_it_is_stored_once(
    remote: Store, world: World, monkeypatch: pytest.MonkeyPatch, name: str | None, kind: type[Exception]
) -> None:
    of_rows(monkeypatch, 3)
    monkeypatch.setattr(transport, "TRIES", 1)
    world.stream()
    table = trips([0.1] * 8)
    seen = refusing(world, monkeypatch, 2, kind("not now"))
    with pytest.raises(e.OutcomeUnknown, match="the next was not taken: not now") as told:
        remote.ingest(STREAM, table, name)
    assert type(told.value.__cause__) is kind
    named = str(told.value).split("'")[1]
    assert named == (name or seen[0])
    assert remote.ingest(STREAM, table, named).accepted == 5
    assert remote.ingest(STREAM, table, named).repeated


def test_rows_that_never_will_be_taken_are_told_by_where_they_begin(
    remote: Store, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_rows(monkeypatch, 3)
    world.stream()
    table = trips([0.1, 0.11, 0.12, 0.13, 0.14])
    refusing(world, monkeypatch, 2, e.TooLarge("a row is too long"))
    with pytest.raises(
        e.InvalidRequest, match=r"before row 3 .* 'b', and .*: a row is too long\. Send these"
    ):
        remote.ingest(STREAM, table, "b")
    assert remote.ingest(STREAM, table.slice(3), "rest").accepted == 2
    assert stored_speeds(world) == sorted(table["speed"].to_pylist())


@pytest.mark.parametrize("rows", [2, 8])
def test_a_batch_that_was_begun_is_not_ended_by_another_cut(
    remote: Store, world: World, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    of_rows(monkeypatch, 3)
    monkeypatch.setattr(transport, "TRIES", 1)
    world.stream()
    table = trips([0.1 + n / 100 for n in range(9)])
    refusing(world, monkeypatch, 2, e.Unavailable("not now"))
    with pytest.raises(e.OutcomeUnknown):
        remote.ingest(STREAM, table, "b")
    of_rows(monkeypatch, rows)
    with pytest.raises(e.Conflict, match="begun in another number of parts"):
        remote.ingest(STREAM, table, "b")
    of_rows(monkeypatch, 3)
    assert remote.ingest(STREAM, table, "b").accepted == 6
    assert stored_speeds(world) == sorted(table["speed"].to_pylist())


def test_a_large_table_whose_first_part_is_refused_is_not_stored(
    remote: Store, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_rows(monkeypatch, 3)
    with pytest.raises(e.UnknownName):
        remote.ingest(STREAM, trips([0.1] * 8))


def test_a_batch_id_is_looked_at_before_anything_is_sent_and_may_be_as_long_for_many_parts(
    remote: Store, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.stream()
    of_rows(monkeypatch, 1)
    for name in ("", "b" * 201, "b b", "ä"):
        with pytest.raises(e.InvalidRequest, match="1 to 200 printable ASCII characters"):
            remote.ingest(STREAM, trips([0.1] * 11), name)
    assert stored_speeds(world) == []
    assert remote.ingest(STREAM, trips([0.1] * 11), "b" * 200).accepted == 11
    assert remote.ingest(STREAM, trips([0.1]), "b" * 199).accepted == 1


def test_parts_have_keys_that_a_server_which_knows_of_none_refuses(
    remote: Store, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would store the first, and take the others for repetitions."""
    of_rows(monkeypatch, 3)
    world.stream()
    send, keys = transport.Transport.send, list[str]()

    def kept(self: transport.Transport, *given: Any, **more: Any) -> Any:
        keys.append(more["headers"]["Idempotency-Key"])
        return send(self, *given, **more)

    monkeypatch.setattr(transport.Transport, "send", kept)
    remote.ingest(STREAM, trips([0.1] * 8), "b")
    assert keys == ["b 1/3", "b 2/3", "b 3/3"]
    assert [bool(re.fullmatch(r"[\x21-\x7e]+", key)) for key in keys] == [False] * 3
