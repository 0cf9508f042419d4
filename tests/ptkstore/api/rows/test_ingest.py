"""Rows over HTTP: what is stored, what is refused, and what is not even read."""

from __future__ import annotations

import io
import json
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from ptkstore.api.limits import Limits
from ptkstore.api.rows.bodies import ARROW_STREAM, NDJSON, PARQUET, table_in
from ptkstore.domain.identity import Role
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import InvalidRequest, PtkStoreError, SchemaMismatch, TooLarge, UnknownFormat
from tests.support.api_server import Api, arrow, ingest, problem
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.support.world import SCHEMA, STREAM, trips, unheard_batch

LIMITS = Limits()
SMALL = Limits(ingest_rows=100, ingest_decoded=100_000)
TIME = pa.timestamp("us", "UTC")


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def ndjson(*rows: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


ROW = {"at": "2026-01-05T12:00:00Z", "hour": 1, "speed": 10.5, "zone": "z", "long": True}


def stored(api: Api) -> int:
    """How many rows lie in the first window."""
    with api.world.service.begin() as uow:
        tokens = uow.streams.tokens_for(WindowId(STREAM, 0))
    key = api.world.service.keys.sealing_key(WindowId(STREAM, 0))
    return sum(t.num_rows for t in api.world.service.raw.read_batches(WindowId(STREAM, 0), tokens, key))


@pytest.mark.long
@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        (arrow(trips([0.1, 0.2])), ARROW_STREAM),
        (parquet(trips([0.1, 0.2])), PARQUET),
        (parquet(trips([0.1, 0.2]), compression="zstd", use_dictionary=False), PARQUET),
        (parquet(trips([0.1, 0.2], zone=pa.array(["a", "b"]).dictionary_encode())), PARQUET),
        (ndjson(ROW, {**ROW, "at": "2026-01-05T12:00:00.5+02:00", "speed": 7}), NDJSON),
        (ndjson(ROW, ROW), f"{NDJSON}; charset=utf-8"),
    ],
    ids=["arrow", "parquet", "parquet-zstd", "parquet-dictionary", "ndjson", "ndjson-charset"],
)
def test_rows_of_every_format_are_stored(api: Api, body: bytes, media_type: str) -> None:
    reply = ingest(api.acting(Role.PRODUCER), body, **{"Content-Type": media_type})
    assert reply.status_code == 200, reply.text
    assert reply.json()["accepted"] == 2
    assert stored(api) == 2


def test_the_key_is_the_batch_and_a_batch_is_stored_once(api: Api) -> None:
    client = api.acting(Role.PRODUCER)
    first = ingest(client, arrow(trips([0.1])), **{"Idempotency-Key": "b1"}).json()
    again = ingest(client, arrow(trips([0.1, 0.2])), **{"Idempotency-Key": "b1"}).json()
    assert first == {"batch_id": "b1", "accepted": 1, "refused": {}, "repeated": False}
    assert again == {"batch_id": "b1", "accepted": 0, "refused": {}, "repeated": True}
    assert stored(api) == 1


def part_of(client: httpx.Client, number: object, *days: float) -> httpx.Response:
    key = "b1" if number is None else f"b1 {number}"
    return ingest(client, arrow(trips(days)), **{"Idempotency-Key": key})


@pytest.mark.parametrize("team", ["taxi", "ads"])
def test_a_batch_comes_in_parts_each_of_which_is_stored_once_and_none_after_the_last(
    api: Api, team: str
) -> None:
    api.grant("ads", STREAM, Role.PRODUCER)
    client = api.acting(Role.PRODUCER, team=team)
    told = [
        part_of(client, number, 0.1).json()
        for number in ("1/3", "1/3", "2/3", "3/3", "2/3", "999999/999999", None)
    ]
    assert [one["repeated"] for one in told] == [False, True, False, False, True, True, True]
    assert {one["batch_id"] for one in told} == {"b1"}
    assert stored(api) == 3


def test_a_part_has_a_number_and_its_batch_an_id(api: Api) -> None:
    client = api.acting(Role.PRODUCER)
    for key in (
        "b1 1",
        "b1 0/1",
        "b1 1/",
        "b1 -1/2",
        "b1 01/2",
        "b1 1/1000000",
        "b1 x",
        "b1 1.5",
        "b1  1/2",
        "b1 1/2 1/2",
        "b" * 201 + " 1/2",
    ):
        assert problem(ingest(client, arrow(trips([0.1])), **{"Idempotency-Key": key})) == (
            422,
            "invalid-request",
        ), key
    assert problem(part_of(client, "2/1", 0.1)) == (400, "invalid-request")
    longest = {"Idempotency-Key": "b" * 200 + " 1/2"}
    assert ingest(client, arrow(trips([0.1])), **longest).json()["batch_id"] == "b" * 200


def test_a_part_that_nobody_answered_for_is_named_by_its_number(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = api.acting(Role.PRODUCER)
    assert part_of(client, "1/3", 0.1).status_code == 200
    unheard_batch(monkeypatch)
    unheard = part_of(client, "2/3", 0.1)
    assert problem(unheard) == (504, "outcome-unknown")
    assert "as part 2 of 3 of batch 'b1'" in unheard.json()["detail"]
    assert part_of(client, "2/3", 0.1).json()["repeated"]


def test_batches_of_two_teams_share_no_key(api: Api) -> None:
    api.grant("ads", STREAM, Role.PRODUCER)
    owner, other = api.acting(Role.PRODUCER), api.acting(Role.PRODUCER, team="ads")
    body, key = arrow(trips([0.1])), {"Idempotency-Key": "batch-1"}
    for repeated in (False, True):
        for client in (other, owner):
            reply = ingest(client, body, **key).json()
            assert (reply["batch_id"], reply["repeated"]) == ("batch-1", repeated)
    assert ingest(other, body, **{"Idempotency-Key": "k" * 200}).status_code == 200
    assert stored(api) == 3


@pytest.mark.parametrize("team", ["taxi", "ads"])
@pytest.mark.parametrize("key", [{}, {"Idempotency-Key": "mine"}])
def test_a_batch_that_nobody_answered_for_is_named_as_its_sender_can_send_it_again(
    api: Api, monkeypatch: pytest.MonkeyPatch, team: str, key: dict[str, str]
) -> None:
    api.grant("ads", STREAM, Role.PRODUCER)
    client, body = api.acting(Role.PRODUCER, team=team), arrow(trips([0.1]))
    unheard_batch(monkeypatch)
    unheard = ingest(client, body, **key)
    assert problem(unheard) == (504, "outcome-unknown")
    named = unheard.json()["detail"].split("'")[1]
    assert named == key.get("Idempotency-Key", named)
    again = ingest(client, body, **{"Idempotency-Key": named}).json()
    assert (again["batch_id"], again["repeated"]) == (named, True)
    assert stored(api) == 1


@pytest.mark.long
@pytest.mark.parametrize("key", [{}, {"Idempotency-Key": "mine"}])
def test_a_batch_that_is_stored_too_late_to_be_answered_is_named_so_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: dict[str, str]
) -> None:
    release = threading.Event()
    with Api(tmp_path / "home", Limits(answer_within=1.0, body_within=1.0)) as api:
        api.world.stream()
        api.grant("ads", STREAM, Role.PRODUCER)
        client, body = api.acting(Role.PRODUCER, team="ads"), arrow(trips([0.1]))
        store = api.world.service.ingest

        def slow(*given: Any) -> Any:
            assert release.wait(PATIENCE_SECONDS)
            return store(*given)

        monkeypatch.setattr(api.world.service, "ingest", slow)
        late = ingest(client, body, **key)
        release.set()
        assert problem(late) == (504, "outcome-unknown")
        named = late.json()["detail"].split("'")[1]
        assert named == key.get("Idempotency-Key", named)
        until(lambda: stored(api) == 1, "the batch to be stored")
    with Api(tmp_path / "home") as api:
        again = ingest(api.acting(Role.PRODUCER, team="ads"), body, **{"Idempotency-Key": named}).json()
        assert (again["repeated"], stored(api)) == (True, 1)


def test_a_batch_without_a_key_is_named_as_it_can_be_sent_again(api: Api) -> None:
    api.grant("ads", STREAM, Role.PRODUCER)
    client, body = api.acting(Role.PRODUCER, team="ads"), arrow(trips([0.1]))
    named = ingest(client, body).json()["batch_id"]
    assert ingest(client, body, **{"Idempotency-Key": named}).json()["repeated"]


@pytest.mark.parametrize(("role", "path"), [(Role.PRODUCER, "ingest"), (Role.DEVELOPER, "exchange")])
def test_a_caller_who_hangs_up_inside_a_long_body_is_no_error_of_ours(
    api: Api, role: Role, path: str
) -> None:
    head = {"Authorization": f"Bearer {api.token(role)}", "Content-Type": "application/json"}
    lines = [f"POST /v1/streams/{STREAM}/{path} HTTP/1.1", "Host: here", f"Content-Length: {2 * 2**20}"]
    lines += [f"{name}: {value}" for name, value in head.items()]
    with structlog.testing.capture_logs() as logged:
        with socket.create_connection(("127.0.0.1", api.port), timeout=60) as caller:
            caller.sendall("\r\n".join([*lines, "", ""]).encode() + b" " * 500)
        until(lambda: any(line["event"] == "request" for line in logged), "the request to be on record")
    assert [line["event"] for line in logged] == ["request"]
    assert [(line["status"], line["code"]) for line in logged] == [(400, "invalid-request")]


@pytest.mark.parametrize("media_type", [ARROW_STREAM, PARQUET, NDJSON])
def test_a_row_with_a_text_that_is_too_long_is_refused_and_the_others_are_stored(
    api: Api, media_type: str
) -> None:
    zones = ["x" * 65_536, "x" * 65_537, "\u00e4" * 32_769, "z"]
    table = trips([0.1] * 4, zone=pa.array(zones))
    body = {
        ARROW_STREAM: arrow(table),
        PARQUET: parquet(table),
        NDJSON: ndjson(*({**ROW, "zone": zone} for zone in zones)),
    }[media_type]
    reply = ingest(api.acting(Role.PRODUCER), body, **{"Content-Type": media_type})
    assert (reply.status_code, reply.json()["refused"]) == (200, {"too-long": 2})
    assert stored(api) == 2


def test_rows_are_refused_one_by_one_with_reasons(api: Api) -> None:
    body = ndjson(ROW, {**ROW, "speed": None}, {**ROW, "at": "1999-01-01T00:00:00Z"})
    reply = ingest(api.acting(Role.PRODUCER), body, **{"Content-Type": NDJSON}).json()
    assert (reply["accepted"], reply["refused"]) == (1, {"missing-value": 1, "time-before-origin": 1})


def test_an_empty_batch_is_a_batch(api: Api) -> None:
    client = api.acting(Role.PRODUCER)
    for media_type, body in ((NDJSON, b""), (ARROW_STREAM, arrow(trips([])))):
        reply = ingest(client, body, **{"Content-Type": media_type})
        assert (reply.status_code, reply.json()["accepted"]) == (200, 0), reply.text


@pytest.mark.parametrize("media_type", ["", "text/csv", "application/json", "application/x-pickle", "a\tb"])
def test_other_formats_are_refused(narrow: Api, media_type: str) -> None:
    reply = ingest(narrow.acting(Role.PRODUCER), b"x", **{"Content-Type": media_type})
    assert problem(reply) == (415, "unknown-format")


def test_counts_of_rows_are_in_no_table_and_no_metric(api: Api) -> None:
    client = api.acting(Role.PRODUCER)
    ingest(client, arrow(trips([0.1] * 4321)))
    assert "4321" not in client.get("/metrics").text
    with api.world.service.begin() as uow:
        connection = uow._connection  # type: ignore[attr-defined]
        names = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'").scalars()
        for name in list(names):
            assert "4321" not in str(connection.exec_driver_sql(f"SELECT * FROM {name}").all())


# bodies that are more than they seem


def bomb_dictionary() -> bytes:
    """A few kilobytes that say one long text again and again."""
    n = 2_000
    table = trips([0.1] * n, zone=pa.array(["x" * 20_000] * n).dictionary_encode())
    return parquet(table, compression="zstd")


def bomb_null_column() -> bytes:
    """A column of nulls takes no bytes, however long."""
    batch = pa.record_batch({name: pa.nulls(10**9) for name, _ in SCHEMA.columns})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def bomb_ndjson() -> bytes:
    return b"{}\n" * 300_000


@pytest.mark.parametrize(
    ("make", "media_type"),
    [(bomb_dictionary, PARQUET), (bomb_null_column, ARROW_STREAM), (bomb_ndjson, NDJSON)],
)
def test_what_grows_when_it_is_read_is_not_read(make: Any, media_type: str) -> None:
    body = make()
    assert len(body) < 2**20
    before = pa.total_allocated_bytes()
    with pytest.raises(TooLarge):
        table_in(body, media_type, SCHEMA, Limits(ingest_rows=100_000, ingest_decoded=32 * 2**20))
    assert pa.total_allocated_bytes() - before < 2**20


CELL_LIMITS = Limits(ingest_body=2**20, ingest_decoded=16 * 2**20)


def one_cell(n_bytes: int, **options: Any) -> bytes:
    return parquet(trips([0.1], zone=pa.array(["x" * n_bytes])), compression="zstd", **options)


def without_sizes(body: bytes) -> bytes:
    """The file, with the large sizes of its footer 0: a reader believes the headers of pages."""
    metadata = pq.read_metadata(io.BytesIO(body))
    group = metadata.row_group(0)
    sizes = {group.column(n).total_uncompressed_size for n in range(group.num_columns)}
    end = len(body) - 8 - metadata.serialized_size
    pages, footer = body[:end], body[end:]
    for size in {size for size in (*sizes, group.total_byte_size) if size > 2**20}:
        number = varint(2 * size)
        footer = footer.replace(number, b"\x80" * (len(number) - 1) + b"\0")
    emptied = pages + footer
    assert pq.read_metadata(io.BytesIO(emptied)).row_group(0).total_byte_size < 2**20
    return emptied


def varint(number: int) -> bytes:
    found = b""
    while number > 0x7F:
        found, number = found + bytes([number & 0x7F | 0x80]), number >> 7
    return found + bytes([number])


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}, {"data_page_version": "2.0"}])
@pytest.mark.parametrize("change", [bytes, without_sizes])
def test_a_page_is_refused_by_what_its_header_says(change: Any, options: dict[str, Any]) -> None:
    body = change(one_cell(4 * 2**20, **options))
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(TooLarge, match="a Parquet page has at most 2097152 bytes unpacked"):
        table_in(body, PARQUET, SCHEMA, CELL_LIMITS)
    assert pa.default_memory_pool().max_memory() == before


def test_pages_are_refused_by_what_they_take_together() -> None:
    text = pa.array(["x" * 2**20] * 20)
    body = parquet(trips([0.1] * 20, zone=text), compression="zstd", use_dictionary=False, write_batch_size=1)
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(TooLarge, match="the rows take more than 16777216 bytes"):
        table_in(without_sizes(body), PARQUET, SCHEMA, CELL_LIMITS)
    assert pa.default_memory_pool().max_memory() == before


def test_a_header_that_says_less_than_its_page_holds_is_refused() -> None:
    body = one_cell(2**20, use_dictionary=False)
    number = varint(2 * (2**20 + 4 + 6))  # a length before the text, and levels
    assert body.count(number) == 1
    lying = body.replace(number, varint(2 * 2**14) + b"")
    if len(lying) != len(body):  # the same length, so that nothing else moves
        lying = body.replace(number, bytes([0x80 | b for b in varint(2 * 2**14)]) + b"\0")
    assert len(lying) == len(body)
    with pytest.raises(InvalidRequest, match="cannot be read"):
        table_in(lying, PARQUET, SCHEMA, LIMITS)


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_texts_that_repeat_the_one_before_are_refused_by_their_encoding(encoding: str) -> None:
    text = pa.array(["x" * 2**16] * 2_000)
    body = parquet(trips([0.1] * 2_000, zone=text), use_dictionary=False, column_encoding={"zone": encoding})
    with pytest.raises(UnknownFormat, match="encodings PLAIN"):
        table_in(body, PARQUET, SCHEMA, LIMITS)


def test_a_footer_of_many_small_parts_is_not_handed_on() -> None:
    body = parquet(trips([0.1]))
    (length,) = struct.unpack("<I", body[-8:-4])
    parts = b"\x19\xfc" + varint(70_000) + b"\0" * 70_000 + b"\0"  # a list of empty structs
    footer = parts
    assert length < len(footer)
    with pytest.raises(InvalidRequest, match="cannot be read"):
        table_in(
            body[: -8 - length] + footer + struct.pack("<I", len(footer)) + b"PAR1", PARQUET, SCHEMA, LIMITS
        )
    long = b"\0" * (4 * 2**20 + 1)
    with pytest.raises(TooLarge, match="footer"):
        table_in(b"PAR1" + long + struct.pack("<I", len(long)) + b"PAR1", PARQUET, SCHEMA, LIMITS)


def test_a_dictionary_whose_values_are_not_used_is_not_kept() -> None:
    n = 200_000
    words = pa.array([*("x" * 1_000 + str(i) for i in range(900)), "z"])
    column = pa.DictionaryArray.from_arrays(pa.array(np.full(n, 900, dtype=np.int32)), words)
    read = table_in(parquet(trips([0.1] * n, zone=column)), PARQUET, SCHEMA, LIMITS)
    assert read["zone"].nbytes < 10 * n
    assert read["zone"].type == pa.string()


HONEST = [
    {"compression": codec, "data_page_version": version}
    for codec in ("none", "snappy", "gzip", "brotli", "zstd", "lz4")
    for version in ("1.0", "2.0")
] + [
    {"use_dictionary": False},
    {"row_group_size": 700, "data_page_size": 512},
    {"write_page_index": True, "store_schema": False},
    {"use_dictionary": False, "column_encoding": {"hour": "DELTA_BINARY_PACKED"}},
    {"use_dictionary": False, "column_encoding": {"speed": "BYTE_STREAM_SPLIT"}},
    {"dictionary_pagesize_limit": 1_000},  # falls back to texts in the middle
]


@pytest.mark.parametrize("options", HONEST, ids=str)
def test_honest_files_are_read_and_their_pages_are_counted_to_the_byte(options: dict[str, Any]) -> None:
    n = 3_000
    zones = pa.array([None if i % 7 == 0 else f"zone {i % 500}" for i in range(n)])
    table = trips([0.1] * n, zone=zones)
    body = parquet(table, **options)
    held: list[int] = []
    read = table_in(body, PARQUET, SCHEMA, LIMITS, held.append)
    assert read.select(table.column_names).cast(table.schema).equals(table)
    metadata = pq.read_metadata(io.BytesIO(body))
    groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
    with_headers = sum(g.column(c).total_uncompressed_size for g in groups for c in range(g.num_columns))
    n_chunks = sum(g.num_columns for g in groups)
    assert with_headers - 200 * (n_chunks + n) <= held[0] < with_headers


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compressed_arrow_is_refused(compression: str) -> None:
    with pytest.raises(UnknownFormat, match="uncompressed"):
        table_in(arrow(trips([0.1] * 999), compression=compression), ARROW_STREAM, SCHEMA, LIMITS)


def test_arrow_with_dictionaries_is_refused() -> None:
    table = trips([0.1, 0.2], zone=pa.array(["a", "b"]).dictionary_encode())
    with pytest.raises(UnknownFormat, match="dictionaries"):
        table_in(arrow(table), ARROW_STREAM, SCHEMA, LIMITS)


@pytest.mark.parametrize("media_type", [ARROW_STREAM, PARQUET, NDJSON])
def test_too_many_rows_are_refused(media_type: str) -> None:
    bodies = {
        ARROW_STREAM: arrow(trips([0.1] * 101)),
        PARQUET: parquet(trips([0.1] * 101)),
        NDJSON: ndjson(*[ROW] * 101),
    }
    with pytest.raises(TooLarge, match="100 rows"):
        table_in(bodies[media_type], media_type, SCHEMA, SMALL)


@pytest.mark.parametrize(
    "strange",
    [
        pa.array([[1], [2]]),
        pa.array([{"a": 1}, {"a": 2}]),
        pa.array([b"a", b"b"]),
        pa.array([1, 2], pa.decimal128(5)),
        pa.array([(1, 2), (3, 4)], pa.list_(pa.int64(), 2)),
        pa.array([1, 2], pa.duration("s")),
        pa.array([1.0, 2.0], pa.float16()),
    ],
    ids=lambda column: str(column.type),
)
@pytest.mark.parametrize("write", [arrow, parquet])
def test_columns_of_other_kinds_are_refused(write: Any, strange: pa.Array) -> None:
    body = write(trips([0.1, 0.2], speed=strange))
    media_type = ARROW_STREAM if write is arrow else PARQUET
    if strange.type == pa.float16():  # a number; whether it fits is for the ingest to say
        assert table_in(body, media_type, SCHEMA, LIMITS).num_rows == 2
        return
    with pytest.raises(SchemaMismatch, match="speed"):
        table_in(body, media_type, SCHEMA, LIMITS)


@pytest.mark.parametrize("media_type", [ARROW_STREAM, PARQUET])
@pytest.mark.parametrize(
    "change",
    [{"more": pa.array([1])}, {"zone": None}, {"ZONE": pa.array(["z"]), "zone": None}],
    ids=["one more", "one less", "another case"],
)
def test_the_columns_are_exactly_the_declared(media_type: str, change: dict[str, Any]) -> None:
    columns = dict(zip(trips([0.1]).column_names, trips([0.1]).columns, strict=True))
    changed = {k: v for k, v in {**columns, **change}.items() if v is not None}
    write = arrow if media_type == ARROW_STREAM else parquet
    with pytest.raises(SchemaMismatch, match="exactly at, hour, speed, zone, long"):
        table_in(write(pa.table(changed)), media_type, SCHEMA, LIMITS)


@pytest.mark.parametrize(
    "line",
    [
        b'{"at": "x"}',
        b'{"nested": {"a": 1}}',
        b'{"hour": 1',
        b'{"hour": "1"}',
        b"[1, 2]",
        b'"text"',
        b"\xff\xfe",
        b'{"hour": 99999999999999999999999}',
        b'{"at": 1, "at": 2}',
        b'{"secret-column": 1}',
    ],
)
def test_broken_lines_are_refused_without_a_word_about_them(line: bytes) -> None:
    with pytest.raises(PtkStoreError) as error:
        table_in(ndjson(ROW) + line, NDJSON, SCHEMA, LIMITS)
    assert isinstance(error.value, InvalidRequest)
    assert "secret" not in str(error.value)


def test_offsets_that_point_elsewhere_are_refused() -> None:
    table = trips([0.1, 0.2], zone=pa.array(["aaaa", "bbbb"]))
    body = bytearray(arrow(table))
    place = bytes(body).rindex(struct.pack("<iii", 0, 4, 8))
    body[place : place + 12] = struct.pack("<iii", 0, 2**30, 8)
    with pytest.raises(InvalidRequest):
        table_in(bytes(body), ARROW_STREAM, SCHEMA, LIMITS)


GOOD = {
    ARROW_STREAM: arrow(trips([0.1] * 20)),
    PARQUET: parquet(trips([0.1] * 20)),
    NDJSON: ndjson(*[ROW] * 20),
}


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    media_type = draw(st.sampled_from(sorted(GOOD)))
    body = bytearray(GOOD[media_type])
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(body) - 1))
        match draw(st.sampled_from(["byte", "cut", "number", "again"])):
            case "byte":
                body[at] = draw(st.integers(0, 255))
            case "cut":
                body = body[: max(at, 1)]
            case "number":
                number = draw(st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31), 0x10000, 255]))
                body[at : at + 4] = struct.pack("<i", number)
            case "again":
                body += body[at:]
    return media_type, bytes(body)


@given(damaged())
def test_a_damaged_body_is_read_or_refused_and_harms_nobody(one: tuple[str, bytes]) -> None:
    media_type, body = one
    try:
        table = table_in(body, media_type, SCHEMA, LIMITS)
    except PtkStoreError as error:
        assert isinstance(error, InvalidRequest)  # noqa: PT017 - whether it raises depends on the damage
    else:
        table.validate(full=media_type == ARROW_STREAM)


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with Api(tmp_path_factory.mktemp("narrow"), Limits(ingest_body=10_000, json_body=1_000)) as api:
        api.world.stream()
        yield api


def test_a_body_over_the_limit_is_refused_with_and_without_a_length(narrow: Api) -> None:
    client = narrow.acting(Role.PRODUCER)
    big = arrow(trips(np.linspace(0, 1, 1000).tolist()))
    assert len(big) > 10_000
    assert problem(ingest(client, big)) == (413, "too-large")

    def parts() -> Iterator[bytes]:
        for start in range(0, len(big), 1000):
            yield big[start : start + 1000]

    reply = client.post(
        f"/v1/streams/{STREAM}/ingest", content=parts(), headers={"Content-Type": ARROW_STREAM}
    )
    assert problem(reply) == (413, "too-large")
    assert ingest(client, arrow(trips([0.1]))).status_code == 200
