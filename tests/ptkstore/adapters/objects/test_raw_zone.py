from __future__ import annotations

import io
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ptkstore.adapters.keys import AesGcmSealer, FileKeyStore
from ptkstore.adapters.objects import FsspecRawZone
from ptkstore.adapters.objects.parquet import ROWS_PER_GROUP, decrypted, encrypted, open_encrypted
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import CorruptObject, InvalidRequest, SchemaMismatch, WindowGone
from tests.ptkstore.adapters.objects.conftest import Bytes

WINDOW = WindowId("taxi", 7)
CANARY = "canary-5c1f0e7b9a"
BATCH = "taxi/7/batches/aa.parquet"
PART = "taxi/7/parts/2.parquet"


@pytest.fixture
def zone(tree: str, sealer: AesGcmSealer) -> FsspecRawZone:
    return FsspecRawZone(tree, sealer)


def read_part(zone: FsspecRawZone, key: bytes, *columns: str, part: int = 2) -> pa.Table:
    return zone.read_part(zone.part_url(WINDOW, part), key, columns or None)


def test_a_part_comes_back_as_it_was_written(zone: FsspecRawZone, key: bytes, rows: pa.Table) -> None:
    zone.write_part(WINDOW, 2, rows, key)
    found = read_part(zone, key)
    assert found.schema.equals(rows.schema)
    assert found.drop_columns("speed").equals(rows.drop_columns("speed"))
    assert read_part(zone, key, "ptk_hash", "zone").column_names == ["ptk_hash", "zone"]


def test_a_part_without_rows_keeps_its_columns(zone: FsspecRawZone, key: bytes, rows: pa.Table) -> None:
    zone.write_part(WINDOW, 2, rows.slice(0, 0), key)
    assert read_part(zone, key).equals(rows.slice(0, 0))


def test_writing_a_part_again_replaces_it_whole(zone: FsspecRawZone, key: bytes, rows: pa.Table) -> None:
    zone.write_part(WINDOW, 2, rows, key)
    zone.write_part(WINDOW, 2, rows.slice(0, 1), key)
    assert read_part(zone, key).equals(rows.slice(0, 1))


def test_every_file_of_a_window_is_rewritten_in_its_place(
    zone: FsspecRawZone, key: bytes, rows: pa.Table, stored: Bytes
) -> None:
    for token in ("aa", "bb"):
        zone.write_batch(WINDOW, token, rows, key)
    zone.write_part(WINDOW, 2, rows, key)
    zone.write_part(WindowId("taxi", 8), 2, rows, key)
    names, other = zone.files(), stored.get("taxi/8/parts/2.parquet")
    zone.rewrite(WINDOW, lambda table: table.slice(1), key)
    zone.rewrite(WindowId("taxi", 9), lambda table: table.slice(1), key)
    assert zone.files() == names
    assert read_part(zone, key)["zone"].to_pylist() == ["beta", "gamma"]
    assert [len(table) for table in zone.read_batches(WINDOW, ["aa", "bb"], key)] == [len(rows) - 1] * 2
    assert stored.get("taxi/8/parts/2.parquet") == other


def test_windows_are_listed_as_long_as_they_have_a_file(
    zone: FsspecRawZone, key: bytes, rows: pa.Table
) -> None:
    assert zone.windows("taxi") == ()
    for index in (10, 9):
        zone.write_batch(WindowId("taxi", index), "aa", rows, key)
    zone.write_part(WindowId("taxis", 3), 0, rows, key)
    assert zone.windows("taxi") == (WindowId("taxi", 9), WindowId("taxi", 10))
    zone.delete_window(WindowId("taxi", 9))
    assert zone.windows("taxi") == (WindowId("taxi", 10),)


def test_another_process_finds_a_part_by_its_url(
    zone: FsspecRawZone, sealer: AesGcmSealer, key: bytes, rows: pa.Table
) -> None:
    zone.write_part(WINDOW, 2, rows.slice(0, 1), key)
    other = FsspecRawZone(zone.url, sealer)
    assert other.read_part(zone.part_url(WINDOW, 2), key).equals(rows.slice(0, 1))


def test_many_rows_lie_in_groups_of_moderate_size(sealer: AesGcmSealer, key: bytes) -> None:
    many = pa.table({"n": pa.array(range(2 * ROWS_PER_GROUP + 1))})
    file = io.BytesIO(encrypted(many, sealer, key, PART))
    assert open_encrypted(file, sealer, key, PART).num_row_groups == 3
    assert decrypted(file, sealer, key, PART, None).equals(many)


def test_batches_come_in_the_order_asked_and_absent_ones_are_passed_over(
    zone: FsspecRawZone, key: bytes, rows: pa.Table
) -> None:
    zone.write_batch(WINDOW, "aa", rows.slice(0, 1), key)
    zone.write_batch(WINDOW, "bb", rows.slice(1, 1), key)
    zone.write_batch(WindowId("taxi", 8), "cc", rows, key)
    found = list(zone.read_batches(WINDOW, ["bb", "cc", "aa"], key))
    assert [table["zone"].to_pylist() for table in found] == [["beta"], ["alpha"]]


def test_what_is_asked_of_the_store_grows_with_the_windows_files_not_with_the_batches_ever_taken(
    zone: FsspecRawZone, key: bytes, rows: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone.write_batch(WINDOW, "aa", rows.slice(0, 1), key)
    zone.write_batch(WINDOW, "bb", rows.slice(1, 1), key)
    asked: list[str] = []
    for name in ("find", "open", "read", "exists"):
        real = getattr(zone._place, name)
        monkeypatch.setattr(zone._place, name, lambda path, real=real: asked.append(path) or real(path))
    tokens = ["bb", *(f"t{number}" for number in range(1_000)), "aa"]
    found = list(zone.read_batches(WINDOW, tokens, key))
    assert [table["zone"].to_pylist() for table in found] == [["beta"], ["alpha"]]
    assert list(dict.fromkeys(asked)) == ["taxi/7/batches", "taxi/7/batches/bb.parquet", BATCH]


def test_a_batch_that_vanishes_before_it_is_read_is_not_passed_over(
    zone: FsspecRawZone, stored: Bytes, key: bytes, rows: pa.Table
) -> None:
    zone.write_batch(WINDOW, "aa", rows.slice(0, 1), key)
    zone.write_batch(WINDOW, "bb", rows.slice(1, 1), key)
    tables = zone.read_batches(WINDOW, ["aa", "bb"], key)
    assert next(tables)["zone"].to_pylist() == ["alpha"]
    stored.remove("taxi/7/batches/bb.parquet")
    with pytest.raises(WindowGone):
        next(tables)


def test_a_repeated_token_replaces_nothing(zone: FsspecRawZone, key: bytes, rows: pa.Table) -> None:
    zone.write_batch(WINDOW, "aa", rows.slice(0, 1), key)
    zone.write_batch(WINDOW, "aa", rows.slice(1, 2), key)
    (found,) = zone.read_batches(WINDOW, ["aa"], key)
    assert found.equals(rows.slice(0, 1))


def test_deleting_a_window_keeps_its_neighbours(zone: FsspecRawZone, key: bytes, rows: pa.Table) -> None:
    for window in (WINDOW, WindowId("taxi", 70), WindowId("bikes", 7)):
        zone.write_batch(window, "aa", rows, key)
        zone.write_part(window, 2, rows, key)
    zone.delete_window(WINDOW)
    zone.delete_window(WINDOW)
    assert zone.files("bikes") == ("bikes/7/batches/aa.parquet", "bikes/7/parts/2.parquet")
    assert zone.files("taxi") == ("taxi/70/batches/aa.parquet", "taxi/70/parts/2.parquet")
    assert len(zone.files()) == 4
    with pytest.raises(WindowGone):
        read_part(zone, key)


def test_a_stream_without_files_has_none(zone: FsspecRawZone) -> None:
    assert zone.files() == zone.files("taxi") == ()


def test_a_part_that_was_never_written_is_gone(zone: FsspecRawZone, key: bytes) -> None:
    with pytest.raises(WindowGone):
        read_part(zone, key)


def test_a_column_that_is_not_stored_is_named(zone: FsspecRawZone, key: bytes, rows: pa.Table) -> None:
    zone.write_part(WINDOW, 2, rows, key)
    with pytest.raises(SchemaMismatch, match="'altitude'"):
        read_part(zone, key, "zone", "altitude")


def test_nothing_of_a_row_or_of_its_columns_is_legible(
    zone: FsspecRawZone, stored: Bytes, key: bytes
) -> None:
    table = pa.table({"secret_column": [CANARY, "x"], "number": [0x1122334455667788, 0x1122334455667788]})
    zone.write_part(WINDOW, 2, table, key)
    zone.write_batch(WINDOW, "aa", table, key)
    needles = (
        CANARY.encode(),
        CANARY.encode("utf-16-le"),
        b"secret_column",
        bytes.fromhex("8877665544332211"),
    )
    everything = stored.all()
    assert sorted(everything) == [BATCH, PART]
    for name, data in everything.items():
        assert not any(needle in data or needle.decode("latin-1") in name for needle in needles)
    plain = pa.BufferOutputStream()
    pq.write_table(table, plain, compression="none", use_dictionary=False)
    assert sum(needle in plain.getvalue().to_pybytes() for needle in needles) == 3


def test_the_wrong_key_opens_nothing(zone: FsspecRawZone, key: bytes, rows: pa.Table) -> None:
    zone.write_part(WINDOW, 2, rows, key)
    for wrong in (secrets.token_bytes(32), key[:16], b""):
        with pytest.raises(CorruptObject):
            read_part(zone, wrong)


SWAPS: list[tuple[str, str]] = [
    (BATCH, PART),
    (PART, BATCH),
    ("taxi/7/parts/3.parquet", PART),
    ("taxi/8/parts/2.parquet", PART),
    ("bikes/7/parts/2.parquet", PART),
    ("taxi/7/batches/bb.parquet", BATCH),
]


@pytest.mark.parametrize(("source", "target"), SWAPS)
def test_a_file_opens_only_in_its_own_place(
    zone: FsspecRawZone, stored: Bytes, key: bytes, rows: pa.Table, source: str, target: str
) -> None:
    for window in (WINDOW, WindowId("taxi", 8), WindowId("bikes", 7)):
        zone.write_part(window, 2, rows, key)
        zone.write_part(window, 3, rows, key)
        zone.write_batch(window, "aa", rows, key)
        zone.write_batch(window, "bb", rows, key)
    stored.put(target, stored.get(source))
    with pytest.raises(CorruptObject):
        read_part(zone, key) if target == PART else list(zone.read_batches(WINDOW, ["aa"], key))


def changed_files(data: bytes) -> list[bytes]:
    bits = (0x01, 0x80)
    flipped = [data[:i] + bytes([data[i] ^ bit]) + data[i + 1 :] for i in range(len(data)) for bit in bits]
    cut = [data[:length] for length in range(len(data))]
    return flipped + cut + [data + b"\0", bytes(len(data)), data[::-1], b"PAR1" + data[4:-4] + b"PAR1"]


def test_a_changed_file_is_refused_or_reads_as_it_was_written(
    sealer: AesGcmSealer, key: bytes, rows: pa.Table
) -> None:
    """Some bytes, such as the leading magic, say nothing about the rows; no change ever alters the rows."""
    expected = rows.slice(0, 2)
    intact = encrypted(expected, sealer, key, PART)
    said = set()
    for data in changed_files(intact):
        try:
            assert decrypted(io.BytesIO(data), sealer, key, PART, None).equals(expected)
        except CorruptObject as error:
            said.add((str(error), error.__suppress_context__))
    assert said == {
        ("a file of rows is not what was written under its name and key", True),
    }
    with pytest.raises(CorruptObject):
        decrypted(io.BytesIO(intact[:-1]), sealer, key, PART, None)


def test_a_changed_byte_of_the_rows_is_refused(zone: FsspecRawZone, stored: Bytes, key: bytes) -> None:
    zone.write_part(WINDOW, 2, pa.table({"n": list(range(10_000))}), key)
    intact = stored.get(PART)
    for position in range(100, len(intact), len(intact) // 15):
        stored.put(PART, intact[:position] + bytes([intact[position] ^ 1]) + intact[position + 1 :])
        with pytest.raises(CorruptObject):
            read_part(zone, key)


def test_plain_parquet_is_refused(zone: FsspecRawZone, stored: Bytes, key: bytes, rows: pa.Table) -> None:
    plain = pa.BufferOutputStream()
    pq.write_table(rows, plain)
    stored.put(PART, plain.getvalue().to_pybytes())
    with pytest.raises(CorruptObject):
        read_part(zone, key)


def test_a_copy_of_the_zone_is_unreadable_once_the_key_is_destroyed(
    tmp_path: Path, zone: FsspecRawZone, stored: Bytes, rows: pa.Table
) -> None:
    keys = FileKeyStore(tmp_path / "keys")
    keys.create_stream("taxi")
    zone.write_part(WINDOW, 2, rows.slice(0, 1), keys.sealing_key(WINDOW))
    copy = stored.all()
    zone.delete_window(WINDOW)
    for name, data in copy.items():
        stored.put(name, data)
    assert read_part(zone, keys.sealing_key(WINDOW)).equals(rows.slice(0, 1))  # with the key the copy reads
    keys.destroy_window(WINDOW)
    with pytest.raises(WindowGone):
        read_part(zone, keys.sealing_key(WINDOW))
    with pytest.raises(CorruptObject):
        read_part(zone, bytes(32))


@pytest.mark.parametrize("name", ["..", "a/b", "", ".unfinished-1", "a\0", "x" * 193])
def test_names_cannot_leave_their_place(zone: FsspecRawZone, key: bytes, rows: pa.Table, name: str) -> None:
    uses: list[Callable[[], object]] = [
        lambda: zone.write_batch(WINDOW, name, rows, key),
        lambda: list(zone.read_batches(WINDOW, [name], key)),
        lambda: zone.write_part(WindowId(name, 0), 0, rows, key),
        lambda: zone.delete_window(WindowId(name, 0)),
        lambda: zone.files(name),
        lambda: zone.part_url(WINDOW, -1),
        lambda: zone.part_url(WINDOW, 4096),
        lambda: zone.part_url(WindowId("taxi", -1), 0),
        lambda: zone.read_part(f"/elsewhere/{name}", key),
    ]
    for use in uses:
        with pytest.raises(InvalidRequest):
            use()
    assert zone.files() == ()


def test_a_url_cannot_climb_out_of_the_tree(tmp_path: Path, sealer: AesGcmSealer, key: bytes) -> None:
    zone = FsspecRawZone(str(tmp_path / "raw"), sealer)
    with pytest.raises(InvalidRequest):
        zone.read_part(f"{zone.url}/../outside.parquet", key)


def test_a_local_zone_is_for_its_owner_alone(tmp_path: Path, sealer: AesGcmSealer, rows: pa.Table) -> None:
    root = tmp_path / "deep" / "raw"
    zone = FsspecRawZone(str(root), sealer)
    zone.write_batch(WINDOW, "aa", rows, bytes(32))
    zone.write_part(WINDOW, 2, rows, bytes(32))
    for path in [root, *root.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
