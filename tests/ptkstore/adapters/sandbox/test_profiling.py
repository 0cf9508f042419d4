"""Profiles and drift tests in processes of their own: rows go in, answers or fixed codes come out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ptklib.spec import estimator_from_spec
from ptkstore.adapters.sandbox.messages.orders import (
    Order,
    decode_answer,
    decode_order,
    encode_answer,
    encode_order,
)
from ptkstore.domain.ptks.profiles import Point, ProfileAsk, Verdict
from ptkstore.ports.row_processes import DriftRequest, OpenedRows, ProfileRequest, RunFailed
from tests.support.sandbox_orders import SPEC, World, new_world, nothing

N = 3_000
ASK = ProfileAsk(
    "taxi", "common", "f" * 64, 0.3, (0.5, 1.0), 5.0, 64, 256, 2.0, 1, (0.0, 1.0), "rows", 100, 0.95, 1, N, (0, 1), 30,
    1.0,
)  # fmt: skip


def mixed_rows() -> pa.Table:
    """Two zones in no order, each with a speed of its own."""
    draw = np.random.default_rng(5)
    zones = np.arange(N) % 2
    return pa.table(
        {
            "zone": np.where(zones, "b", "a"),
            "speed": np.where(zones, 50.0, 10.0),
            "driver": ["canary-driver"] * N,
            "ptk_hash": pa.array(np.sort(draw.integers(0, 2**64, N, dtype=np.uint64))),
        }
    )


@pytest.fixture
def mixed(tmp_path: Path) -> World:
    world = new_world(tmp_path)
    world.write(mixed_rows())
    return world


def profile_set(world: World) -> tuple[OpenedRows, ...]:
    return (world.rows(),)


def to_profile(world: World, **changes: Any) -> ProfileRequest:
    return replace(ProfileRequest(SPEC, ASK, ASK.epsilons, 64, 0.95, profile_set(world)), **changes)


def to_test(world: World, speed: float) -> DriftRequest:
    """A test of the state of a stream whose zones were as fast as this."""
    from ptklib.profiling import fingerprint_of

    rows = mixed_rows().set_column(1, "speed", pa.array([speed] * N))
    state = estimator_from_spec(SPEC).fit(rows.select(["zone", "speed"])).to_state()
    ask = replace(ASK, fingerprint=fingerprint_of(estimator_from_spec(SPEC).to_spec()), target=0.05)
    return DriftRequest(SPEC, ask, 1.0, state.to_files(), profile_set(world))


def test_a_profile_tells_its_answers_and_leaves_nothing_else(mixed: World, tmp_path: Path) -> None:
    profiler = mixed.runs(timeout_seconds=120, memory_bytes=1 << 30)
    told = profiler.profile(to_profile(mixed), nothing)
    assert told == (Point(0.5, Verdict.FOUND, 64), Point(1.0, Verdict.FOUND, 64))
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


def test_only_hashes_of_the_set_are_read(mixed: World) -> None:
    from ptkstore.adapters.sandbox.child.profile import profile

    beyond = mixed.rows(low=2**63, high=2**63 + 2**32)  # a dozen nanohashes: no row
    told = profile(to_profile(mixed, profile_set=(beyond,)), mixed.raw)
    assert not isinstance(told, RunFailed)
    assert {point.verdict for point in told} == {Verdict.NEEDS_MORE}


@pytest.mark.parametrize("speed", [10.0, 50.0])
def test_a_state_of_another_time_has_drifted(mixed: World, speed: float) -> None:
    from ptkstore.adapters.sandbox.child.profile import has_drifted

    assert has_drifted(to_test(mixed, speed), mixed.raw) is True


def test_a_drift_test_in_a_process_tells_one_bit(mixed: World) -> None:
    state = estimator_from_spec(SPEC).fit(mixed_rows().select(["zone", "speed"])).to_state()
    request = replace(to_test(mixed, 10.0), state=state.to_files())
    assert mixed.runs().has_drifted(request, nothing) is False


def rows_changed(world: World) -> None:
    path = Path(world.rows().part_urls[0])
    path.write_bytes(path.read_bytes()[:-5])


def nothing_at_all(world: World) -> None:
    pass


@pytest.mark.parametrize(
    ("fault", "options", "code"),
    [
        (rows_changed, {}, "rows-corrupt"),
        (nothing_at_all, {"timeout_seconds": 0.001}, "timeout"),
    ],
)
def test_a_run_that_cannot_work_fails_with_a_code_and_nothing_else(
    mixed: World, fault: Callable[[World], None], options: dict[str, Any], code: str
) -> None:
    fault(mixed)
    assert mixed.runs(**options).profile(to_profile(mixed), nothing) == RunFailed(code)


def test_requests_travel_whole_and_show_no_key(mixed: World) -> None:
    for request in (to_profile(mixed), to_test(mixed, 10.0)):
        order = Order(request, "/raw", "/staging")
        assert decode_order(encode_order(order)) == order
        assert repr(mixed.window_key) not in repr(order)


def line(content: object) -> bytes:
    return json.dumps(content).encode() + b"\n"


def points(*answers: tuple[object, object, object]) -> list[dict[str, object]]:
    return [dict(zip(("epsilon", "verdict", "n"), answer, strict=True)) for answer in answers]


def test_answers_travel_whole(mixed: World) -> None:
    told = (Point(0.5, Verdict.NEEDS_MORE, 256), Point(1.0, Verdict.UNREACHABLE))
    assert mixed.runs_that_answer(encode_answer(told)).profile(to_profile(mixed), nothing) == told
    assert [decode_answer(bool, encode_answer(drifted)) for drifted in (True, False)] == [True, False]


@pytest.mark.parametrize(
    "content",
    [
        points((0.5, "found", 64)),
        points((0.5, "found", 64), (0.9, "found", 64)),
        points((0.5, "found", 64), (1.0, "found", 257)),
        points((0.5, "found", 64), (1.0, "found", 0)),
        points((0.5, "found", 64), (1.0, "found", 64.0)),
        points((0.5, "found", 64), (1.0, "found", True)),
        points((0.5, "found", 64), (1.0, "perhaps", 64)),
        points((0.5, "found", 64), (1.0, ["found"], 64)),
        points((0.5, "found", 64), (1.0, "unreachable", -1)),
        [*points((0.5, "found", 64)), {**points((1.0, "found", 64))[0], "rows": 3}],
        True,
        None,
        {},
        [1],
    ],
)
def test_what_is_no_answer_to_the_question_is_bad_output(mixed: World, content: object) -> None:
    runs = mixed.runs_that_answer(line(content))
    assert runs.profile(to_profile(mixed), nothing) == RunFailed("bad-output")


@pytest.mark.parametrize("content", [1, "no", [], None, [True], {"drifted": True}])
def test_what_is_no_verdict_is_refused(mixed: World, content: object) -> None:
    runs = mixed.runs_that_answer(line(content))
    assert runs.has_drifted(to_test(mixed, 10.0), nothing) == RunFailed("bad-output")


@pytest.mark.parametrize(
    "answer", [b"", b"true", b"nonsense\n", b"[1]\n", b"7\n", b'{"code": "memory-limit"}']
)
def test_a_line_that_is_no_document_is_bad_output(answer: bytes) -> None:
    assert decode_answer(bool, answer) == RunFailed("bad-output")


def test_a_code_of_the_child_is_passed_on() -> None:
    assert decode_answer(bool, line({"code": "memory-limit"})) == RunFailed("memory-limit")
