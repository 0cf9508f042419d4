"""What a child does, done here: only the process is missing."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from ptklib.exceptions import PtklibError
from ptklib.state import ReleasedState
from ptkstore.adapters.keys import AesGcmSealer
from ptkstore.adapters.objects import FsspecRawZone
from ptkstore.adapters.sandbox.training import train
from ptkstore.errors import CorruptObject, InvalidRequest, PtkStoreError, SchemaMismatch, WindowGone
from tests.ptkstore.adapters.sandbox.world import SPEC, WHOLE, World, counts, near, some_rows, state_of


def trained(world: World, **changes: Any) -> ReleasedState:
    return state_of(world, train(world.request(**changes), world.raw, world.staging))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, WHOLE, {"a": 2_000, "b": 2_000}),
        (0, 2**63, {"a": 2_000, "b": 0}),
        (2**63, WHOLE, {"a": 0, "b": 2_000}),
        (2**62, 2**63 + 2**62, {"a": 1_000, "b": 1_000}),
        (5, 5, {"a": 0, "b": 0}),
        (WHOLE, WHOLE, {"a": 0, "b": 0}),
    ],
)
def test_only_rows_of_the_granted_hash_range_are_used(
    world: World, low: int, high: int, expected: dict[str, int]
) -> None:
    found = counts(trained(world, hash_low=low, hash_high=high))
    assert found == {zone: near(count) for zone, count in expected.items()}


def test_the_range_is_half_open(world: World) -> None:
    edges = pa.table(
        {
            "zone": ["a"] * 5_000,
            "speed": [10.0] * 5_000,
            "ptk_hash": pa.array([2**63] * 5_000, type=pa.uint64()),
        }
    )
    world.write(edges)
    assert counts(trained(world, hash_low=2**63, hash_high=2**63 + 1))["a"] == near(5_000)
    assert counts(trained(world, hash_low=0, hash_high=2**63))["a"] == near(0)
    assert counts(trained(world, hash_low=2**63 + 1, hash_high=WHOLE))["a"] == near(0)


def test_a_part_without_rows_trains_like_any_other(world: World) -> None:
    world.write(some_rows().slice(0, 0))
    assert counts(trained(world)) == {"a": near(0), "b": near(0)}


def test_a_state_is_continued(world: World) -> None:
    first = trained(world)
    second = trained(world, previous_state=first.to_files())
    assert counts(second) == {"a": near(4_000), "b": near(4_000)}
    assert second.meta["n_releases"] == 2


def test_only_the_columns_that_the_estimator_names_are_read(world: World) -> None:
    asked: list[object] = []

    class Watched(FsspecRawZone):
        def read_part(self, url: str, key: bytes, columns: Any = None) -> pa.Table:
            asked.append(columns)
            return super().read_part(url, key, columns)

    train(world.request(), Watched(world.raw.url, AesGcmSealer()), world.staging)
    assert asked == [("zone", "speed", "ptk_hash")]


OTHER = {"family": SPEC["family"], "params": {**SPEC["params"], "bounds": {"speed": [0.0, 70.0]}}}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"estimator": {"family": "os.system", "params": {}}}, PtklibError),
        ({"estimator": {"family": SPEC["family"], "params": {**SPEC["params"], "keys": ["x"]}}}, PtklibError),
        ({"epsilon": 99.0}, PtklibError),
        ({"previous_state": {"state.json": b"{}"}}, PtklibError),
        ({"previous_state": {"state.json": b"\xff"}}, PtklibError),
        ({"part_urls": ("/etc/hostname",)}, InvalidRequest),
        ({"draft_id": "../elsewhere"}, InvalidRequest),
        ({"draft_key": b"short"}, CorruptObject),
        ({"window_key": bytes(32)}, CorruptObject),
        ({"part_urls": ("taxi/0/parts/3.parquet",)}, WindowGone),
    ],
)
def test_a_training_that_cannot_work_leaves_no_draft(
    world: World, changes: dict[str, Any], error: type[Exception]
) -> None:
    (url,) = changes.get("part_urls", ("/",))
    if url.startswith("taxi"):
        changes = {"part_urls": (f"{world.raw.url}/{url}",)}
    with pytest.raises(error):
        train(world.request(**changes), world.raw, world.staging)
    assert world.staging.drafts() == ()


def test_rows_without_a_column_of_the_estimator_are_refused(world: World) -> None:
    world.write(some_rows().drop_columns("speed"))
    with pytest.raises(SchemaMismatch, match="'speed'"):
        trained(world)


def test_a_state_of_other_parameters_is_refused_before_rows_are_read(world: World) -> None:
    first = trained(world, estimator=OTHER)
    world.raw.delete_window(world.window)
    with pytest.raises(PtklibError, match="other parameters"):
        trained(world, previous_state=first.to_files())
    with pytest.raises(PtkStoreError):
        trained(world, estimator=OTHER, previous_state=first.to_files())
