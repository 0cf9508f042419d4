"""What a child does, done here: only the process is missing."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from ptklib.exceptions import PtklibError
from ptklib.state import ReleasedState
from ptkstore.adapters.keys import AesGcmSealer
from ptkstore.adapters.objects import FsspecRawZone, FsspecStaging
from ptkstore.adapters.sandbox.child.train import PARTIAL_FILE, collect, train
from ptkstore.adapters.sandbox.messages.orders import decode_answer, encode_answer
from ptkstore.domain.versions.versions import Draft
from ptkstore.errors import (
    CorruptObject,
    InvalidRequest,
    InvariantBroken,
    OutcomeUnknown,
    PtkStoreError,
    SchemaMismatch,
    Unavailable,
    UnknownName,
    WindowGone,
)
from ptkstore.ports.row_processes import CollectRequest, OpenedRows, RunFailed, StagedPartial
from tests.support.sandbox_orders import SPEC, WHOLE, World, counts, near, some_rows, state_of


def trained(world: World, **changes: Any) -> ReleasedState:
    draft = train(world.request(**changes), world.raw, world.staging)
    assert isinstance(draft, Draft)
    return state_of(world, draft)


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
    found = counts(trained(world, rows=(world.rows(low=low, high=high),)))
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
    found = [
        counts(trained(world, rows=(world.rows(low=low, high=high),)))["a"]
        for low, high in ((2**63, 2**63 + 1), (0, 2**63), (2**63 + 1, WHOLE))
    ]
    assert found == [near(5_000), near(0), near(0)]


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
        def read_part(self, url: str, key: bytes, columns: Any = None, hashes: Any = None) -> pa.Table:
            asked.append(columns)
            return super().read_part(url, key, columns, hashes)

    train(world.request(), Watched(world.raw.url, AesGcmSealer()), world.staging)
    assert asked == [("zone", "speed")]


OTHER = {"family": SPEC["family"], "params": {**SPEC["params"], "bounds": {"speed": [0.0, 70.0]}}}


def rows_of(world: World, **changes: Any) -> OpenedRows:
    """Rows of which a path below the raw zone may be named."""
    if changes.get("part_urls", ("/",))[0].startswith("taxi"):
        changes["part_urls"] = tuple(f"{world.raw.url}/{url}" for url in changes["part_urls"])
    return world.rows(**changes)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"estimator": {"family": "os.system", "params": {}}}, PtklibError),
        ({"estimator": {"family": SPEC["family"], "params": {**SPEC["params"], "keys": ["x"]}}}, PtklibError),
        ({"epsilon": 99.0}, PtklibError),
        ({"previous_state": {"state.json": b"{}"}}, PtklibError),
        ({"previous_state": {"state.json": b"\xff"}}, PtklibError),
        ({"rows": {"part_urls": ("/etc/hostname",)}}, InvalidRequest),
        ({"draft_id": "../elsewhere"}, InvalidRequest),
        ({"draft_key": b"short"}, CorruptObject),
        ({"rows": {"window_key": bytes(32)}}, CorruptObject),
        ({"rows": {"part_urls": ("taxi/0/parts/3.parquet",)}}, WindowGone),
        ({"rows": None}, InvariantBroken),
    ],
)
def test_a_training_that_cannot_work_leaves_no_draft(
    world: World, changes: dict[str, Any], error: type[Exception]
) -> None:
    if "rows" in changes:
        changes = {"rows": () if changes["rows"] is None else (rows_of(world, **changes["rows"]),)}
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


# partials


def collected(
    world: World, *ranges: tuple[int, int], name: str = "partial", **changes: Any
) -> list[StagedPartial]:
    """Partials of these ranges of hashes, left in staging."""
    staged = []
    for number, (low, high) in enumerate(ranges):
        rows = (world.rows(low=low, high=high),)
        asked = world.request(rows=rows, draft_id=f"{name}-{number}", **changes)
        fields = {field.name: getattr(asked, field.name) for field in dataclasses.fields(CollectRequest)}
        collect(CollectRequest(**fields), world.raw, world.staging)
        staged.append(StagedPartial(asked.draft_id, asked.draft_key))
    return staged


def test_partials_are_merged_without_a_row_or_a_key_of_rows(world: World) -> None:
    partials = collected(world, (0, 2**62), (2**62, 2**63), (2**63, WHOLE))
    merged = trained(world, rows=(), partials=tuple(partials))
    assert counts(merged) == {"a": near(2_000), "b": near(2_000)}
    only = trained(world, rows=(), partials=tuple(partials[:1]), draft_id="other")
    assert counts(only) == {"a": near(1_000), "b": near(0)}


def test_a_partial_lies_encrypted_and_takes_the_same_room_whatever_rows_it_sums(world: World) -> None:
    collected(world, (0, WHOLE), (5, 5))
    files = list(world.root.rglob(PARTIAL_FILE))
    assert len({path.stat().st_size for path in files}) == 1
    assert len(files) == 2
    assert not any(
        word in path.read_bytes() for path in files for word in (b"count", b"Historical", b"units")
    )


def test_partials_that_are_not_what_was_collected_are_refused(world: World) -> None:
    partials = collected(world, (0, 2**63), (2**63, WHOLE))
    request = world.request(rows=(), partials=tuple(partials))
    (other,) = collected(world, (0, WHOLE), name="other-partial", estimator=OTHER)
    with pytest.raises(PtklibError, match="different configurations"):
        train(dataclasses.replace(request, partials=(*partials, other)), world.raw, world.staging)
    wrong = dataclasses.replace(partials[0], draft_key=bytes(32))
    with pytest.raises(CorruptObject):
        train(dataclasses.replace(request, partials=(wrong,)), world.raw, world.staging)
    first, second = (next(world.root.rglob(f"{one.draft_id}/{PARTIAL_FILE}")) for one in partials)
    kept = second.read_bytes()
    second.write_bytes(first.read_bytes())  # of the same key, but bound to another name
    with pytest.raises(CorruptObject):
        train(request, world.raw, world.staging)
    second.write_bytes(kept)
    world.staging.delete("partial-0")
    with pytest.raises(UnknownName):
        train(request, world.raw, world.staging)
    assert [name for name in world.staging.drafts() if "partial" not in name] == []


class Refusing(FsspecStaging):
    """Staging that takes nothing a few times; what it was to take is remembered."""

    def __init__(self, world: World, times: int, error: PtkStoreError) -> None:
        super().__init__(world.staging.url, AesGcmSealer())
        self.left, self.error = times, error
        self.asked: list[Mapping[str, bytes]] = []

    def write(self, draft_id: str, files: Mapping[str, bytes], key: bytes) -> None:
        self.asked.append(files)
        self.left -= 1
        if self.left >= 0:
            raise self.error
        super().write(draft_id, files, key)


@pytest.mark.parametrize("error", [Unavailable("full"), OutcomeUnknown("who knows")], ids=lambda e: e.code)
def test_what_staging_does_not_take_is_written_again_with_the_same_noise(
    world: World, monkeypatch: pytest.MonkeyPatch, error: PtkStoreError
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    staging = Refusing(world, 3, error)
    draft = train(world.request(epsilon=0.01), world.raw, staging)
    assert isinstance(draft, Draft)
    assert counts(state_of(world, draft))
    assert len(staging.asked) == 4
    assert all(one == staging.asked[0] for one in staging.asked)


def test_a_run_whose_result_staging_never_takes_ends_with_a_code(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    staging = Refusing(world, 10**6, Unavailable("full"))
    request = world.request()
    fields = {field.name: getattr(request, field.name) for field in dataclasses.fields(CollectRequest)}
    assert train(request, world.raw, staging) == RunFailed("staging-failed")
    assert collect(CollectRequest(**fields), world.raw, staging) == RunFailed("staging-failed")
    assert decode_answer(Draft, encode_answer(RunFailed("staging-failed"))) == RunFailed("staging-failed")
