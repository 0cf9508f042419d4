"""Rows of a closed window, split into parts: what the child does, done here, and the process around it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest

from ptkstore.adapters.keys import split_hash
from ptkstore.adapters.sandbox.child.prepare import prepare
from ptkstore.adapters.sandbox.messages.orders import (
    Order,
    decode_answer,
    decode_order,
    encode_answer,
    encode_order,
)
from ptkstore.adapters.sandbox.parent.program import storage_environment
from ptkstore.adapters.sandbox.processes.fork_server import RUN_NAME
from ptkstore.domain.streams.schemas import ColumnType, Schema
from ptkstore.errors import CorruptObject, LeaseLost, PtkStoreError, Unavailable, WindowGone
from ptkstore.ports.row_processes import PrepareRequest, RunFailed
from tests.support.sandbox_orders import WHOLE, WINDOW, World, nothing

SCHEMA = Schema((("at", ColumnType.TIMESTAMP), ("zone", ColumnType.STRING)), "at")
BOUNDS = (WHOLE // 4, WHOLE // 2, WHOLE)
IDS = [bytes([i]) * 16 for i in range(200)]


def batch(ids: list[bytes]) -> pa.Table:
    at = pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * len(ids), pa.timestamp("us", "UTC"))
    zones = [f"zone-{i.hex()[:2]}" for i in ids]
    return pa.table({"at": at, "zone": zones, "ptk_row": pa.array(ids, pa.binary(16))})


@dataclass(frozen=True)
class Batches:
    """A window's batches, and a request to split them."""

    world: World
    request: PrepareRequest

    def parts(self) -> list[pa.Table]:
        raw, key = self.world.raw, self.request.window_key
        return [raw.read_part(raw.part_url(WINDOW, part), key) for part in range(len(BOUNDS))]


@pytest.fixture
def batches(world: World) -> Batches:
    world.raw.delete_window(WINDOW)
    world.raw.write_batch(WINDOW, "aa", batch(IDS[:150]), world.window_key)
    world.raw.write_batch(WINDOW, "bb", batch(IDS[150:]), world.window_key)
    world.raw.write_batch(WINDOW, "uncommitted", batch([bytes(16)]), world.window_key)
    tokens = ("aa", "elsewhere", "bb")
    return Batches(
        world, PrepareRequest(WINDOW, tokens, SCHEMA, BOUNDS, world.window_key, secrets.token_bytes(32))
    )


def expected(request: PrepareRequest) -> list[list[tuple[str, int]]]:
    """Zone and hash of every row by part, found one row at a time, in the order of the hashes."""
    parts: list[list[tuple[str, int]]] = [[] for _ in BOUNDS]
    for one in IDS:
        (value,) = split_hash(request.split_key, np.frombuffer(one, dtype="V16")).tolist()
        part = next(number for number, bound in enumerate(BOUNDS) if value < bound)
        parts[part].append((f"zone-{one.hex()[:2]}", value))
    return [sorted(part, key=lambda row: row[1]) for part in parts]


def found(parts: list[pa.Table]) -> list[list[tuple[str, int]]]:
    return [list(zip(part["zone"].to_pylist(), part["ptk_hash"].to_pylist(), strict=True)) for part in parts]


def test_each_committed_row_lies_in_the_one_part_that_its_hash_names(batches: Batches) -> None:
    prepare(batches.request, batches.world.raw, split_hash)
    parts = batches.parts()
    assert found(parts) == expected(batches.request)
    assert all(len(part) for part in parts)
    assert {tuple(part.column_names) for part in parts} == {("at", "zone", "ptk_hash")}


def test_a_hash_on_a_bound_belongs_to_the_part_above_it(batches: Batches) -> None:
    def on_the_first_bound(key: bytes, ids: Any) -> Any:
        return np.full(len(ids), BOUNDS[0], dtype=np.uint64)

    prepare(batches.request, batches.world.raw, on_the_first_bound)
    assert [len(part) for part in batches.parts()] == [0, len(IDS), 0]


def test_a_window_without_rows_gets_all_its_parts_with_their_columns(batches: Batches) -> None:
    batches.world.raw.delete_window(WINDOW)
    batches.world.runs().prepare(batches.request, nothing)
    types = [pa.timestamp("us", "UTC"), pa.string(), pa.uint64()]
    assert [(len(part), part.schema.types) for part in batches.parts()] == [(0, types)] * 3


# units of users, and attributes


USERS = Schema((("at", ColumnType.TIMESTAMP), ("user", ColumnType.STRING), ("city", ColumnType.STRING)), "at")
CITIES = ("berlin", "paris", "rome")


def rides(riders: list[str], cities: list[str]) -> pa.Table:
    """One ride each, with an id of its own."""
    at = pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * len(riders), pa.timestamp("us", "UTC"))
    row_ids = pa.array([secrets.token_bytes(16) for _ in riders], pa.binary(16))
    return pa.table(
        {
            "at": at,
            "user": pa.array(riders, pa.string()),
            "city": pa.array(cities, pa.string()),
            "ptk_row": row_ids,
        }
    )


def split(world: World, rows: pa.Table, **changes: Any) -> tuple[PrepareRequest, list[pa.Table]]:
    """The files of a window that holds `rows`."""
    world.raw.delete_window(WINDOW)
    world.raw.write_batch(WINDOW, "aa", rows.slice(0, 7), world.window_key)
    world.raw.write_batch(WINDOW, "bb", rows.slice(7), world.window_key)
    given = {
        "schema": USERS,
        "unit_column": "user",
        "max_rows_per_unit": 2,
        "split_key": bytes(32),
        **changes,
    }
    request = PrepareRequest(
        window=WINDOW,
        tokens=("aa", "bb"),
        part_bounds=BOUNDS,
        window_key=world.window_key,
        **given,
    )
    prepare(request, world.raw, split_hash)
    files = len(BOUNDS) * max(1, len(request.attribute_values))
    raw = world.raw
    return request, [raw.read_part(raw.part_url(WINDOW, n), world.window_key) for n in range(files)]


def test_a_user_lies_in_one_part_with_no_more_rows_than_the_bound(world: World) -> None:
    riders = [f"rider-{i % 40}" for i in range(200)]
    _, files = split(world, rides(riders, ["berlin"] * 200))
    where = {user: n for n, file in enumerate(files) for user in file["user"].to_pylist()}
    assert sorted(where) == sorted(set(riders))
    for n, file in enumerate(files):
        users = file["user"].to_pylist()
        assert {users.count(user) for user in users} == {2}
        assert {where[user] for user in users} == {n}
        assert len(set(zip(users, file["ptk_hash"].to_pylist(), strict=True))) == len(set(users))


def test_a_user_lies_in_the_same_part_in_all_windows_and_beside_anybody(world: World) -> None:
    def parts(riders: list[str]) -> dict[str, tuple[int, int]]:
        _, files = split(world, rides(riders, ["rome"] * len(riders)))
        found = [
            (user, n, h)
            for n, f in enumerate(files)
            for user, h in zip(*f.select(["user", "ptk_hash"]), strict=True)
        ]
        return {user.as_py(): (n, h.as_py()) for user, n, h in found}

    many = parts([f"rider-{i}" for i in range(60)])
    few = parts([f"rider-{i}" for i in range(0, 60, 3)])
    assert few == {user: place for user, place in many.items() if user in few}


def test_a_number_and_its_text_are_two_users(world: World) -> None:
    texts = rides([str(i) for i in range(20)], ["rome"] * 20)
    columns = (("at", ColumnType.TIMESTAMP), ("user", ColumnType.INT64), ("city", ColumnType.STRING))
    hashes = []
    for table, schema in (
        (texts, USERS),
        (texts.set_column(1, "user", pa.array(range(20))), Schema(columns, "at")),
    ):
        _, files = split(world, table, schema=schema)
        hashes.append({h for file in files for h in file["ptk_hash"].to_pylist()})
    assert len(hashes[0]) == len(hashes[1]) == 20
    assert not hashes[0] & hashes[1]


def test_a_repeated_preparation_keeps_the_same_rows(world: World) -> None:
    request, first = split(world, rides([f"rider-{i % 9}" for i in range(90)], ["rome"] * 90))
    prepare(replace(request, tokens=("bb", "aa")), world.raw, split_hash)
    again = [world.raw.read_part(world.raw.part_url(WINDOW, n), world.window_key) for n in range(3)]
    for one, two in zip(first, again, strict=True):
        assert sorted(map(str, one.to_pylist())) == sorted(map(str, two.to_pylist()))


def test_each_value_of_an_attribute_has_files_of_its_own(world: World) -> None:
    cities = [CITIES[i % 3] for i in range(90)]
    rows = rides([f"rider-{i}" for i in range(90)], cities)
    _, files = split(
        world, rows, unit_column=None, max_rows_per_unit=1, attribute="city", attribute_values=CITIES
    )
    assert len(files) == 9
    for number, file in enumerate(files):
        assert set(file["city"].to_pylist()) == {CITIES[number % 3]}
        low, high = (0, *BOUNDS)[number // 3], BOUNDS[number // 3]
        assert all(low <= h < high for h in file["ptk_hash"].to_pylist())
    assert sum(map(len, files)) == 90


def test_a_user_with_rows_of_several_values_keeps_those_of_one(world: World) -> None:
    riders = [f"rider-{i % 30}" for i in range(270)]
    cities = [CITIES[i // 30 % 3] for i in range(270)]
    _, files = split(world, rides(riders, cities), attribute="city", attribute_values=CITIES)
    where: dict[str, set[int]] = {}
    for number, file in enumerate(files):
        assert set(file["city"].to_pylist()) <= {CITIES[number % 3]}
        for user in file["user"].to_pylist():
            where.setdefault(user, set()).add(number)
    assert sorted(map(len, where.values())) == [1] * 30
    assert sum(map(len, files)) == 60
    assert len({number % 3 for numbers in where.values() for number in numbers}) > 1


@pytest.mark.parametrize("attribute", [None, "city"])
def test_taking_one_user_away_changes_one_file(world: World, attribute: str | None) -> None:
    rows = rides([f"rider-{i % 12}" for i in range(120)], [CITIES[i % 5 % 3] for i in range(120)])
    values = CITIES if attribute else ()
    _, before = split(world, rows, attribute=attribute, attribute_values=values)
    for gone in range(12):
        left = rows.filter(pa.compute.not_equal(rows["user"], f"rider-{gone}"))
        _, after = split(world, left, attribute=attribute, attribute_values=values)
        changed = [n for n, (b, a) in enumerate(zip(before, after, strict=True)) if not b.equals(a)]
        assert len(changed) == 1
        lost = before[changed[0]].filter(pa.compute.equal(before[changed[0]]["user"], f"rider-{gone}"))
        assert len(lost) == len(before[changed[0]]) - len(after[changed[0]]) == min(2, len(lost))


def test_a_window_of_users_and_cities_without_rows_gets_all_its_files(world: World) -> None:
    _, files = split(world, rides([], []), attribute="city", attribute_values=CITIES)
    assert [len(file) for file in files] == [0] * 9


def test_a_process_of_its_own_does_the_same_again_and_again(
    batches: Batches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def in_this_process(*_: object) -> None:
        raise AssertionError("rows were opened in the process of the worker")

    with monkeypatch.context() as patch:
        patch.setattr("ptkstore.adapters.objects.raw.decrypted", in_this_process)
        for _ in range(2):
            batches.world.runs().prepare(batches.request, nothing)
    assert found(batches.parts()) == expected(batches.request)
    assert capfd.readouterr() == ("", "")


def rows_changed(world: World) -> None:
    path = world.root / "raw" / "taxi" / "0" / "batches" / "bb.parquet"
    path.write_bytes(path.read_bytes()[:-5])


def rows_vanish(world: World) -> None:
    path = world.root / "raw" / "taxi" / "0" / "batches" / "bb.parquet"
    path.unlink()
    path.symlink_to("nowhere")  # listed, and gone when it is opened


def storage_is_silent(world: World) -> None:
    (world.root / "raw" / "taxi" / "0" / "parts").write_bytes(b"a file where a folder should be")


@pytest.mark.parametrize(
    ("fault", "options", "error", "says"),
    [
        (rows_changed, {}, CorruptObject, "not what was stored"),
        (rows_vanish, {}, WindowGone, "not exist any more"),
        (storage_is_silent, {}, Unavailable, "trainer-error"),
        (lambda _: None, {"timeout_seconds": 0.001}, Unavailable, "timeout"),
    ],
)
def test_a_preparation_that_cannot_work_ends_with_an_error_that_tells_nothing_of_rows(
    batches: Batches,
    capfd: pytest.CaptureFixture[str],
    fault: Callable[[World], None],
    options: dict[str, Any],
    error: type[PtkStoreError],
    says: str,
) -> None:
    fault(batches.world)
    with pytest.raises(error, match=says) as caught:
        batches.world.runs(**options).prepare(batches.request, nothing)
    assert type(caught.value) is error
    assert "window taxi/0" in str(caught.value)
    assert "zone" not in str(caught.value)
    assert caught.value.__context__ is None
    assert capfd.readouterr() == ("", "")


def test_a_lost_lease_ends_the_process_and_is_passed_on(batches: Batches) -> None:
    path = batches.world.root / "raw" / "taxi" / "0" / "batches" / "aa.parquet"
    path.unlink()
    os.mkfifo(path)  # whoever opens it waits

    def lost() -> None:
        raise LeaseLost("somebody else has it")

    with pytest.raises(LeaseLost):
        batches.world.runs().prepare(batches.request, lost)
    assert [one for one in psutil.Process().children(recursive=True) if one.name() == RUN_NAME] == []


# what is said between the two


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"unit_column": "zone", "max_rows_per_unit": 3},
        {"attribute": "zone", "attribute_values": ("a", "b")},
        {"attribute": "zone", "attribute_values": (True, False)},
        {"attribute": "zone", "attribute_values": (1, -(2**63))},
    ],
    ids=str,
)
def test_an_order_to_prepare_comes_back_whole_and_shows_no_key(
    batches: Batches, changes: dict[str, Any]
) -> None:
    order = Order(
        replace(batches.request, **changes), "raw", "staging", {"AWS_SECRET_ACCESS_KEY": "canary-key"}
    )
    assert decode_order(encode_order(order)) == order
    for secret in ("canary-key", str(batches.request.window_key), str(batches.request.split_key)):
        assert secret not in repr(order)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (encode_answer(None), None),
        (b'{"code": "rows-gone"}\n', "rows-gone"),
        (b'{"code": "canary-77"}\n', "bad-output"),
        (b'{"code": "rows-gone", "rows": 7}\n', "bad-output"),
        (b"null", "bad-output"),
        (b"[null, 7]\n", "bad-output"),
        (b'{"code": ["rows-gone"]}\n', "bad-output"),
        (b"{}\n", "bad-output"),
        (b"true\n", "bad-output"),
        (b"[]\n", "bad-output"),
        (b"7\n", "bad-output"),
        (b"", "bad-output"),
        (b"\xff\n", "bad-output"),
        (b"[" * 100_000 + b"\n", "bad-output"),
    ],
)
def test_only_a_well_formed_line_is_believed(line: bytes, code: str | None) -> None:
    assert decode_answer(NoneType, line) == (None if code is None else RunFailed(code))


ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "k",
    "AWS_SECRET_ACCESS_KEY": "s",
    "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
    "FSSPEC_S3_ENDPOINT_URL": "http://127.0.0.1:1",
    "PTK_DATABASE_URL": "canary",
    "PTK_REDIS_URL": "canary",
    "HOME": "canary",
    "LAWS_": "canary",
}


def test_an_order_carries_credentials_of_the_object_store_and_nothing_else() -> None:
    given = storage_environment(ENVIRONMENT, "s3://bucket/raw", "/staging")
    assert sorted(given) == sorted(name for name, value in ENVIRONMENT.items() if value != "canary")
    assert {name: ENVIRONMENT[name] for name in given} == given


@pytest.mark.parametrize("url", ["/raw", "raw", "file:///raw"])
def test_an_order_for_local_trees_carries_no_credentials(url: str) -> None:
    assert storage_environment(ENVIRONMENT, url, "/staging") == {}
