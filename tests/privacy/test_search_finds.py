"""The search for canaries finds one in each kind of place and form: without this its silence would mean nothing."""

from __future__ import annotations

import base64
import gzip
import json
import sqlite3
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import redis

from ptkstore.adapters.processes import RedisServer
from tests.privacy.canary import FRACTION, TEXT, WHOLE, find, numbers_in, search
from tests.privacy.service import process_texts, redis_values

FORMS: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda raw: b"before" + raw + b"after",
    "base64": lambda raw: b'{"x":"' + base64.b64encode(b"row 17: " + raw + b" end") + b'"}',
    "base64 behind other text": lambda raw: b"ab" + base64.b64encode(b"row 17: " + raw + b" end"),
    "urlsafe base64": lambda raw: base64.urlsafe_b64encode(b"\xff\xfe" + raw * 2),
    "hex": lambda raw: b"0x" + (b"12345678" + raw).hex().encode(),
    "HEX": lambda raw: (b"12345678" + raw).hex().upper().encode(),
    "zlib": lambda raw: b"\0\1\2" + zlib.compress(b"some text " + raw) + b"tail",
    "gzip": lambda raw: b"head" + gzip.compress(b"some text " + raw),
    "zstd": lambda raw: b"head" + bytes(pa.compress(b"text " * 50 + raw, codec="zstd", asbytes=True)),
    "lz4": lambda raw: bytes(pa.compress(b"text " * 50 + raw, codec="lz4", asbytes=True)),
    "snappy": lambda raw: bytes(pa.compress(b"text " * 50 + raw, codec="snappy", asbytes=True)),
    "gzip in base64": lambda raw: base64.b64encode(gzip.compress(b"some text " + raw)),
}
VALUES = {
    "text": TEXT.encode(),
    "utf-16-le": TEXT.encode("utf-16-le"),
    "utf-16-be": TEXT.encode("utf-16-be"),
    "digits": str(WHOLE).encode(),
    "int64": struct.pack("<q", WHOLE),
    "int64 in network order": struct.pack(">q", WHOLE),
    "decimal fraction": repr(FRACTION).encode(),
    "float64": struct.pack("<d", FRACTION),
}


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("form", FORMS)
def test_a_canary_is_found_in_every_form(form: str, value: str):
    assert find(FORMS[form](VALUES[value]))


def test_bytes_without_a_canary_are_silent():
    assert not find(b"".join(FORMS[form](b"speed 12.5 of 24 hours, seen in zone 132") for form in FORMS))


@pytest.mark.parametrize("compression", ["snappy", "zstd", "gzip", "lz4", "none"])
@pytest.mark.parametrize("canary", [TEXT, WHOLE, FRACTION], ids=["text", "int64", "float64"])
def test_a_canary_in_a_parquet_file_is_found(tmp_path: Path, compression: str, canary: object):
    pq.write_table(pa.table({"x": [canary] * 3}), tmp_path / "t.parquet", compression=compression)
    assert set(search(tmp_path)) == {"t.parquet"}


def test_a_canary_in_the_metadata_of_a_parquet_file_is_found(tmp_path: Path):
    schema = pa.schema([("x", pa.int64())], metadata={"note": TEXT})
    pq.write_table(pa.table({"x": [1]}, schema=schema), tmp_path / "t.parquet")
    assert search(tmp_path)


@pytest.mark.parametrize("canary", [TEXT, WHOLE, FRACTION, TEXT.encode("utf-16-le")], ids=str)
def test_a_canary_in_a_database_or_its_log_is_found(tmp_path: Path, canary: object):
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (x)")
        connection.execute("INSERT INTO t VALUES (?)", (canary,))
        connection.commit()
        assert {"catalog.db-wal"} <= set(search(tmp_path))


def test_a_deleted_canary_is_found_while_the_database_still_holds_its_bytes(tmp_path: Path):
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as connection:
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute("CREATE TABLE t (x)")
        connection.execute("INSERT INTO t VALUES (?)", (TEXT,))
        connection.execute("DELETE FROM t")
        connection.commit()
    assert search(tmp_path)


def test_a_canary_in_a_log_or_a_file_name_is_found(tmp_path: Path):
    (tmp_path / "worker.log").write_text(json.dumps({"error": f"cannot convert {TEXT!r}"}))
    (tmp_path / f"part-{WHOLE}").touch()
    assert set(search(tmp_path)) == {"worker.log", f"part-{WHOLE}"}


@pytest.mark.parametrize("kind", ["set", "rpush", "hset", "sadd", "zadd", "xadd"])
def test_a_canary_in_redis_is_found(redis_server: RedisServer, kind: str):
    arguments = {"hset": ("f", TEXT), "zadd": ({TEXT: 1},), "xadd": ({"f": TEXT},)}.get(kind, (TEXT,))
    with redis.Redis.from_url(redis_server.client_url, db=9) as client:
        client.delete("canary")
        getattr(client, kind)("canary", *arguments)
        try:
            hits = [name for name, content in redis_values(redis_server.client_url) if find(content)]
        finally:
            client.delete("canary")
    assert hits == ["redis b'canary'"]


@pytest.mark.parametrize("place", ["cmdline", "environ"])
def test_a_canary_in_a_child_process_is_found(place: str):
    command = [sys.executable, "-c", "print(flush=True); input()", TEXT if place == "cmdline" else "nothing"]
    env = {"SECRET": TEXT} if place == "environ" else {}
    with subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        hits = [name for name, content in process_texts() if find(content)]
        child.communicate("\n")
    assert hits == [f"{place} of {child.pid}"]


@pytest.mark.parametrize("text", ['{"rows":7919}', "7919 rows", "(7919, 3)", "read 7919.", "n=7919,"])
def test_a_count_in_a_text_is_found(text: str):
    assert 7919 in numbers_in(text)


@pytest.mark.parametrize("text", ["0.7919", "17919", "7919.25", "470064Z 47919ms", "a7919f"])
def test_other_numbers_are_no_count(text: str):
    assert 7919 not in numbers_in(text)
