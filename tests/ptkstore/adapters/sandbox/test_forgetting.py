"""A unit's rows taken out of a window: what the child does, done here, and the process around it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from ptkstore.adapters.keys import AesGcmSealer
from ptkstore.adapters.objects import FsspecRawZone
from ptkstore.adapters.sandbox.child.forget import forget
from ptkstore.adapters.sandbox.messages.orders import Order, decode_order, encode_order
from ptkstore.errors import CorruptObject, PtkStoreError, Unavailable, WindowGone
from ptkstore.ports.row_processes import ForgetRequest
from tests.support.sandbox_orders import WINDOW, World, nothing

PARTS = 3


def rows(*users: str | int | None) -> pa.Table:
    kind = pa.int64() if any(isinstance(user, int) for user in users) else pa.string()
    return pa.table({"user": pa.array(users, kind), "ride": list(range(len(users)))})


def filled(world: World, *users: str | int | None) -> World:
    """The rows in two batches, one of them never committed, and in a part beside empty ones."""
    world.raw.delete_window(WINDOW)
    for token in ("aa", "bb"):
        world.raw.write_batch(WINDOW, token, rows(*users), world.window_key)
    for part in range(PARTS):
        world.raw.write_part(
            WINDOW, part, rows(*users) if part == 1 else rows(*users).slice(0, 0), world.window_key
        )
    return world


def request(world: World, unit: str | int = "ann") -> ForgetRequest:
    return ForgetRequest(WINDOW, "user", unit, world.window_key)


def users(world: World) -> list[list[str | int | None]]:
    raw, key = world.raw, world.window_key
    batches = raw.read_batches(WINDOW, ("aa", "bb"), key)
    parts = [raw.read_part(raw.part_url(WINDOW, part), key) for part in range(PARTS)]
    return [table["user"].to_pylist() for table in (*batches, *parts)]


@pytest.mark.parametrize(
    ("before", "unit", "after"),
    [
        (("ann", "bob", "ann", "Ann"), "ann", ["bob", "Ann"]),
        (("ann",), "ann", []),
        (("bob", ""), "ann", ["bob", ""]),
        (("bob", "", "a"), "", ["bob", "a"]),
        ((1, 10, -1), 1, [10, -1]),
        (("bob", None), "ann", ["bob", None]),
    ],
)
def test_a_units_rows_are_gone_from_every_file_and_no_others(
    world: World, before: tuple[str | int | None, ...], unit: str | int, after: list[str | int | None]
) -> None:
    filled(world, *before)
    for _ in range(2):
        forget(request(world, unit), world.raw)
        assert users(world) == [after, after, [], after, []]


def test_every_file_is_written_anew_with_such_rows_or_without(world: World) -> None:
    filled(world, "bob")
    folder = world.root / "raw" / "taxi" / "0"
    before = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.parquet")}
    forget(request(world), world.raw)
    after = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert set(before) == set(after)
    assert len(before) == 2 + PARTS
    assert all(before[name] != after[name] for name in before)


def test_what_dead_writers_left_is_deleted_and_a_living_ones_file_is_left_alone(world: World) -> None:
    import fcntl

    filled(world, "ann")
    batches = world.root / "raw" / "taxi" / "0" / "batches"
    (batches / ".unfinished-dead").write_bytes(b"rows")
    with (batches / ".unfinished-alive").open("wb") as living:
        fcntl.flock(living, fcntl.LOCK_EX)
        forget(request(world), world.raw)
        assert sorted(path.name for path in batches.iterdir()) == [
            ".unfinished-alive",
            "aa.parquet",
            "bb.parquet",
        ]


def test_a_process_of_its_own_does_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    filled(world, "ann", "bob")

    def in_this_process(*_: object) -> None:
        raise AssertionError("rows were opened in the process of the service")

    with monkeypatch.context() as patch:
        patch.setattr("ptkstore.adapters.objects.raw.decrypted", in_this_process)
        world.runs().forget(request(world), nothing)
    assert users(world) == [["bob"], ["bob"], [], ["bob"], []]
    assert capfd.readouterr() == ("", "")


def damaged(world: World) -> None:
    path = world.root / "raw" / "taxi" / "0" / "batches" / "aa.parquet"
    path.write_bytes(path.read_bytes()[:-5])


def vanished(world: World) -> None:
    path = world.root / "raw" / "taxi" / "0" / "batches" / "aa.parquet"
    path.unlink()
    path.symlink_to("nowhere")


@pytest.mark.parametrize(
    ("fault", "options", "error", "says"),
    [
        (damaged, {}, CorruptObject, "not what was stored"),
        (vanished, {}, WindowGone, "not exist any more"),
        (lambda _: None, {"timeout_seconds": 0.001}, Unavailable, "could not be rewritten now: timeout"),
    ],
)
def test_an_erasure_that_cannot_work_says_so_and_nothing_of_the_unit(
    world: World,
    fault: Callable[[World], None],
    options: dict[str, object],
    error: type[PtkStoreError],
    says: str,
) -> None:
    fault(filled(world, "ann", "bob"))
    with pytest.raises(error, match=says) as caught:
        world.runs(**options).forget(request(world), nothing)
    assert "window taxi/0" in str(caught.value)
    assert "ann" not in str(caught.value)


def test_a_damaged_file_does_not_keep_the_unit_in_the_others(world: World) -> None:
    damaged(filled(world, "ann", "bob"))
    with pytest.raises(CorruptObject):
        forget(request(world), world.raw)
    (world.root / "raw" / "taxi" / "0" / "batches" / "aa.parquet").unlink()
    assert users(world) == [["bob"], [], ["bob"], []]


def test_rewriting_needs_the_windows_own_key(world: World) -> None:
    filled(world, "ann")
    stranger = FsspecRawZone(world.raw.url, AesGcmSealer())
    with pytest.raises(CorruptObject):
        stranger.rewrite(WINDOW, lambda table: table, secrets.token_bytes(32))
    assert users(world)[0] == ["ann"]


def test_an_order_to_forget_comes_back_whole_and_shows_neither_key_nor_unit(
    world: World, tmp_path: Path
) -> None:
    for unit in ("canary-user", 271828, ""):
        order = Order(request(world, unit), "raw", "staging")
        assert decode_order(encode_order(order)) == order
        assert str(unit) not in repr(order).replace(str(tmp_path), "") or unit == ""
        assert str(world.window_key) not in repr(order)
