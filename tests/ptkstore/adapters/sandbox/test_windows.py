"""Runs on several windows: each is opened with its own key, and a user is another unit in each."""

from __future__ import annotations

import dataclasses
import os
import resource
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ptklib import UserEmbeddings
from ptklib.mechanisms import additive
from ptklib.partials import PartialStatistics
from ptklib.profiling.estimation import UNITS  # type: ignore[attr-defined]
from ptklib.profiling.samples import HashRange
from ptklib.spec import estimator_from_spec
from ptkstore.adapters.keys import AesGcmSealer
from ptkstore.adapters.objects import FsspecRawZone
from ptkstore.adapters.sandbox.child.evaluate import evaluate
from ptkstore.adapters.sandbox.child.profile import profile
from ptkstore.adapters.sandbox.child.rows import check_apart, unit_rows
from ptkstore.adapters.sandbox.child.train import PARTIAL_FILE, collect, train
from ptkstore.adapters.sandbox.messages.orders import Order, decode_order, encode_order
from ptkstore.domain.evaluations import RiskMass
from ptkstore.domain.ptks.profiles import Point, ProfileAsk, Verdict
from ptkstore.domain.streams.windows import WindowId
from ptkstore.domain.versions.versions import Draft
from ptkstore.errors import InvariantBroken
from ptkstore.ports.row_processes import (
    CollectRequest,
    DriftRequest,
    EvaluateRequest,
    OpenedRows,
    ProfileRequest,
    RunFailed,
)
from tests.support.sandbox_orders import SPEC, World, counts, near, nothing, state_of

N = 1_200
FROM, TO = 2**62, 2**63 + 2**62  # the half of all hashes that is granted
ASK = ProfileAsk(
    "taxi", "common", "f" * 64, 0.3, (1.0,), 5.0, 64, 256, 2.0, 1, (0.0, 1.0), "rows", 100, 0.95, 1, 3 * N, (0, 1), 30,
    1.0,
)  # fmt: skip
BY_USER: dict[str, Any] = {
    "family": SPEC["family"],
    "params": {**SPEC["params"], "unit": "driver", "max_rows_per_unit": 2},
}


def rows_of(window: int, n: int = N) -> pa.Table:
    """Users of the same hashes in all windows, as fast as their zone; the zones are as many as the window says."""
    zones = np.arange(n) % (window + 2) == 0
    return pa.table(
        {
            "zone": np.where(zones, "a", "b"),
            "speed": np.where(zones, 10.0 + window, 50.0),
            "driver": ["canary-driver"] * n,
            "ptk_hash": pa.array(np.linspace(0, 2**64 - 4096, n).astype(np.uint64)),
        }
    )


def opened(world: World, window: int, rows: pa.Table, part: int = 2) -> OpenedRows:
    """A part of a window that is there now, under a key of its own, and its rows in half of the hashes."""
    key = secrets.token_bytes(32)
    place = WindowId("taxi", window)
    world.raw.write_part(place, part, rows, key)
    return OpenedRows((world.raw.part_url(place, part),), FROM, TO, key)


@pytest.fixture
def three(world: World) -> tuple[OpenedRows, ...]:
    return tuple(opened(world, window, rows_of(window)) for window in (4, 5, 7))


@pytest.fixture
def as_one(world: World) -> tuple[OpenedRows, ...]:
    return (opened(world, 90, pa.concat_tables([rows_of(window) for window in (4, 5, 7)])),)


def to_collect(world: World, rows: tuple[OpenedRows, ...], **changes: Any) -> CollectRequest:
    asked = world.request(rows=rows, **changes)
    return CollectRequest(
        **{field.name: getattr(asked, field.name) for field in dataclasses.fields(CollectRequest)}
    )


def collected(world: World, request: CollectRequest) -> PartialStatistics:
    content = world.staging.read(request.draft_id, (PARTIAL_FILE,), request.draft_key)[PARTIAL_FILE]
    return PartialStatistics.from_table(pa.ipc.open_stream(content).read_all())


def statistics(world: World, rows: tuple[OpenedRows, ...], **changes: Any) -> dict[str, list[int]]:
    """What is collected of rows, exactly."""
    request = to_collect(world, rows, **changes)
    assert collect(request, world.raw, world.staging) is None
    return {name: units.tolist() for name, units in collected(world, request).arrays.items()}


def to_evaluate(rows: tuple[OpenedRows, ...], epsilon: float = 0.5) -> EvaluateRequest:
    state = estimator_from_spec(SPEC).fit(rows_of(4).select(["zone", "speed"])).to_state()
    return EvaluateRequest(SPEC, epsilon, state.to_files(), rows)


def to_profile(rows: tuple[OpenedRows, ...], **changes: Any) -> ProfileRequest:
    return dataclasses.replace(ProfileRequest(SPEC, ASK, ASK.epsilons, 64, 0.95, rows), **changes)


# what is read


def test_processes_read_of_three_windows_what_they_read_of_one_with_all_rows(
    world: World, three: tuple[OpenedRows, ...], as_one: tuple[OpenedRows, ...]
) -> None:
    runs = world.runs(timeout_seconds=120)
    exact = []
    for rows in (three, as_one):
        request = to_collect(world, rows)
        assert runs.collect(request, nothing) is None
        exact.append({name: units.tolist() for name, units in collected(world, request).arrays.items()})
    assert exact[0] == exact[1]
    expected = pa.concat_tables([rows_of(window) for window in (4, 5, 7)])
    hashes = expected["ptk_hash"].to_numpy()
    zones = expected["zone"].to_numpy()[(hashes >= FROM) & (hashes < TO)]
    draft = runs.train(world.request(rows=three), nothing)
    assert isinstance(draft, Draft)
    assert counts(state_of(world, draft)) == {zone: near((zones == zone).sum()) for zone in ("a", "b")}


def test_a_training_holds_the_rows_of_one_window_at_a_time(world: World) -> None:
    n, held = 200_000, list[int]()
    windows = tuple(opened(world, window, rows_of(window, n)) for window in range(4))
    before = pa.total_allocated_bytes()

    class Watched(FsspecRawZone):
        def read_part(self, url: str, key: bytes, columns: Any = None, hashes: Any = None) -> pa.Table:
            held.append(pa.total_allocated_bytes() - before)
            return super().read_part(url, key, columns, hashes)

    raw = Watched(world.raw.url, AesGcmSealer())
    assert isinstance(train(world.request(rows=windows), raw, world.staging), Draft)
    assert len(held) == 4
    assert max(held) < n  # a byte for each row of a window, of which half are granted


def mass_of(made: object) -> RiskMass:
    assert isinstance(made, RiskMass)
    return made


def test_an_evaluation_of_three_windows_sums_what_it_sums_of_each(
    world: World, three: tuple[OpenedRows, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(additive, "laplace", lambda units, **_: np.asarray(units))
    request = to_evaluate(three)
    requests = [*(dataclasses.replace(request, rows=(one,)) for one in three), request]
    *each, together = (mass_of(evaluate(one, world.raw)) for one in requests)
    assert (together.lost, together.kept) == (sum(one.lost for one in each), sum(one.kept for one in each))
    assert together.lost + together.kept == 3 * (N // 2) * UNITS  # a user is a unit in each window


def test_an_evaluation_of_three_windows_in_a_process(world: World, three: tuple[OpenedRows, ...]) -> None:
    told = world.runs(timeout_seconds=120).evaluate(to_evaluate(three, 5.0), nothing)
    assert isinstance(told, RiskMass)
    assert (told.lost + told.kept) / UNITS == near(3 * N // 2)


def test_a_profile_and_a_drift_test_of_three_windows_in_a_process(
    world: World, three: tuple[OpenedRows, ...]
) -> None:
    from ptklib.profiling import fingerprint_of

    runs = world.runs(timeout_seconds=120)
    assert runs.profile(to_profile(three), nothing) == (Point(1.0, Verdict.FOUND, 64),)
    fast = rows_of(4).set_column(1, "speed", pa.array([60.0] * N)).select(["zone", "speed"])
    state = estimator_from_spec(SPEC).fit(fast).to_state().to_files()
    ask = dataclasses.replace(
        ASK, fingerprint=fingerprint_of(estimator_from_spec(SPEC).to_spec()), target=0.02
    )
    assert runs.has_drifted(DriftRequest(SPEC, ask, 1.0, state, three), nothing) is True


# whose rows they are


def test_a_user_is_another_unit_in_each_window(world: World, three: tuple[OpenedRows, ...]) -> None:
    read = unit_rows(three, world.raw, ("zone", "speed"), population=1)
    rows, units = read.sample(HashRange(FROM, TO))
    assert len(rows) == len(set(units.tolist())) == 3 * N // 2
    user, units = read.sample(HashRange(2**63, 2**63 + 2**64 // N))
    assert (len(user), len(set(units.tolist()))) == (3, 3)


def test_a_window_that_is_named_twice_is_refused(world: World, three: tuple[OpenedRows, ...]) -> None:
    with pytest.raises(InvariantBroken, match="twice"):
        evaluate(to_evaluate((*three, three[0])), world.raw)


def test_the_rows_of_a_user_are_bounded_in_each_window(world: World, three: tuple[OpenedRows, ...]) -> None:
    """As one unit, another window's rows would take the place of those that go with a window."""
    most = {size: sum(statistics(world, three[:size], estimator=BY_USER)["count"]) for size in (1, 2, 3)}
    assert most == {1: 2, 2: 4, 3: 6}
    draft = train(world.request(rows=three, estimator=BY_USER), world.raw, world.staging)
    assert isinstance(draft, Draft)


EMBEDDINGS = UserEmbeddings(
    "driver",
    "zone",
    users=["a"],
    items=["a", "b", "c"],
    n_factors=2,
    max_rows_per_user=2,
    epsilon=1.0,
    delta=1e-6,
)


@pytest.mark.parametrize("by_window", [True, False])
def test_an_estimator_that_bounds_a_users_rows_over_all_windows_reads_one_window(
    three: tuple[OpenedRows, ...], by_window: bool
) -> None:
    check_apart(EMBEDDINGS, three[:1], by_window=by_window)
    with pytest.raises(InvariantBroken, match="over all windows"):
        check_apart(EMBEDDINGS, three, by_window=by_window)
    record = estimator_from_spec(EMBEDDINGS.to_spec()).set_params(guarantee="record")
    check_apart(record, three, by_window=by_window)


def test_a_run_on_one_table_takes_no_user_of_several_windows(
    world: World, three: tuple[OpenedRows, ...]
) -> None:
    """Team code and the trainings of a profile get the rows of all windows as one table."""
    world.raw.delete_window(WindowId("taxi", 4))  # refused before rows are read
    for estimator, delta, code in ((EMBEDDINGS.to_spec(), 1e-6, None), (BY_USER, 0.0, b"code")):
        request = world.request(rows=three, estimator=estimator, delta=delta, bundle=code)
        with pytest.raises(InvariantBroken, match="over all windows"):
            train(request, world.raw, world.staging)
    with pytest.raises(InvariantBroken, match="over all windows"):
        profile(to_profile(three, estimator=BY_USER), world.raw)
    with pytest.raises(InvariantBroken, match="over all windows"):
        collect(
            to_collect(world, three, estimator=EMBEDDINGS.to_spec(), delta=1e-6), world.raw, world.staging
        )


# what fails


def wrong_key(world: World, rows: OpenedRows) -> OpenedRows:
    return dataclasses.replace(rows, window_key=bytes(32))


def another_windows_file(world: World, rows: OpenedRows) -> OpenedRows:
    path = Path(rows.part_urls[0])
    path.write_bytes((path.parents[2] / "4" / "parts" / "2.parquet").read_bytes())
    return rows


def files_gone(world: World, rows: OpenedRows) -> OpenedRows:
    Path(rows.part_urls[0]).unlink()
    return rows


@pytest.mark.parametrize(
    ("fault", "code"),
    [(wrong_key, "rows-corrupt"), (another_windows_file, "rows-corrupt"), (files_gone, "rows-gone")],
)
def test_a_window_that_cannot_be_opened_fails_the_run_with_a_code_and_nothing_else(
    world: World, three: tuple[OpenedRows, ...], capfd: pytest.CaptureFixture[str], fault: Any, code: str
) -> None:
    rows = (*three[:2], fault(world, three[2]))  # the last: all others were read by then
    before = sorted(world.root.rglob("*"))
    runs, failed = world.runs(timeout_seconds=120), RunFailed(code)
    assert runs.train(world.request(rows=rows), nothing) == failed
    assert runs.collect(to_collect(world, rows), nothing) == failed
    assert runs.evaluate(to_evaluate(rows), nothing) == failed
    assert runs.profile(to_profile(rows), nothing) == failed
    assert sorted(world.root.rglob("*")) == before
    assert capfd.readouterr() == ("", "")


# a year


@contextmanager
def few_files(more: int) -> Iterator[None]:
    """Let this process open so many more files and no others."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    last = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, last + 1 + more), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_year_of_windows_is_one_order_and_takes_few_open_files(world: World) -> None:
    year = tuple(opened(world, window, rows_of(0, 4)) for window in range(366))
    request = to_collect(world, year)
    order = Order(request, world.raw.url, world.staging.url)
    assert decode_order(encode_order(order)) == order
    assert not any(repr(rows.window_key)[2:-1] in repr(order) for rows in year)
    assert world.runs(timeout_seconds=300).collect(request, nothing) is None
    with few_files(50):
        assert sum(statistics(world, year)["count"]) == 366 * 2
    assert collected(world, request).arrays["count"].sum() == 366 * 2
