"""At every step a worker is killed, or stalls until others have done its work: the checker finds nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ptkstore.domain.ledger.journal import EntryKind
from ptkstore.domain.ptks.accept_deadlines import GivenUp
from ptkstore.domain.validations import Validation
from tests.faults import scenario
from tests.faults.rig import Rig, rig
from tests.faults.steps import (
    OF_COMPARISONS,
    OF_EVALUATIONS,
    OF_SCHEDULERS,
    OF_VALIDATIONS,
    Point,
    all_points,
)
from tests.support.local import local
from tests.support.world import SeenViews

pytestmark = pytest.mark.long  # the last tests look at what the others left

ENOUGH = 4_000  # rows of a window, to show that a loss is small
LARGE = 60  # rows per partial: the 160 planned rows of a training are split into three
SPLIT = [point for point in all_points() if point.kind == "partial" or point == Point("train", "split")]
EVALUATING = all_points(OF_EVALUATIONS)
VALIDATING = all_points(OF_VALIDATIONS)
COMPARING = all_points(OF_COMPARISONS)
SCHEDULING = all_points(("allocate", "train", *OF_SCHEDULERS))
MERGING = [Point("train", step) for step in ("spent", "opened", "trained", "elected")]


def begun(made: Rig, evaluated: Sequence[str] = (), validated: Sequence[str] = ()) -> Rig:
    scenario.create_stream(made.store)
    scenario.register(made.store, [scenario.LONG], evaluated=evaluated, validated=validated)
    made.subscribe(scenario.LONG, "first")
    made.subscribe(scenario.LONG, "second")
    return made


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig(tmp_path_factory.mktemp("chain") / "home") as made:
        yield begun(made)


@pytest.fixture(scope="module")
def large_chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A chain whose windows are large, so that many workers collect for one training, and that is evaluated."""
    home = tmp_path_factory.mktemp("large") / "home"
    with rig(home, features=SeenViews(), rows_per_partial=LARGE) as made:
        yield begun(made, [scenario.LONG])


@pytest.fixture(scope="module")
def validated_chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A chain whose states have to pass a test, which they do: their windows have rows enough for that."""
    with rig(tmp_path_factory.mktemp("validated") / "home", features=SeenViews()) as made:
        yield begun(made, validated=[scenario.LONG])


@pytest.fixture(scope="module")
def means_chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A chain of means whose errors have to be shown to be small, which they are."""
    with rig(tmp_path_factory.mktemp("means") / "home", features=SeenViews()) as made:
        scenario.create_stream(made.store)
        scenario.register(made.store, [scenario.SPEED], measured=[scenario.SPEED])
        made.subscribe(scenario.SPEED, "first")
        yield made


@pytest.fixture(scope="module")
def rejected_chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A chain whose PTK has a target that no model of its class meets."""
    with rig(tmp_path_factory.mktemp("rejected") / "home", features=SeenViews()) as made:
        scenario.create_stream(made.store)
        scenario.register(made.store, [scenario.LONG], rejected=[scenario.LONG])
        made.subscribe(scenario.LONG, "first")
        yield made


@pytest.fixture(scope="module")
def adaptive_chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A chain whose stream is adaptive: its PTK waits anew for each window."""
    with rig(tmp_path_factory.mktemp("adaptive") / "home", features=SeenViews()) as made:
        scenario.create_stream(made.store, scheduler="adaptive")
        scenario.register(made.store, [scenario.LONG])
        made.subscribe(scenario.LONG, "first")
        yield made


@pytest.fixture(scope="module")
def measured_chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A chain of two PTKs: whoever asks first has a fresh window, and the other one compares."""
    with rig(tmp_path_factory.mktemp("measured") / "home", features=SeenViews()) as made:
        bounds: dict[str, Any] = {
            "least_significance": 1e-6,
            "most_significance": 1.0,
            "comparison_epsilon": 0.1,
        }
        scenario.create_stream(made.store, scheduler="budgeting", significance="loss", **bounds)
        scenario.register(made.store)
        yield made


@pytest.fixture(scope="module")
def measured_windows() -> Iterator[int]:
    return count()


@pytest.fixture(scope="module")
def released_chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A chain whose windows release the losses of two PTKs."""
    with rig(tmp_path_factory.mktemp("released") / "home", features=SeenViews()) as made:
        bounds: dict[str, Any] = {
            "least_significance": 1e-6,
            "most_significance": 1.0,
            "comparison_epsilon": 0.1,
        }
        scenario.create_stream(made.store, scheduler="budgeting", significance="released-loss", **bounds)
        scenario.register(made.store)
        yield made


@pytest.fixture(scope="module")
def released_windows() -> Iterator[int]:
    return count()


@pytest.fixture(scope="module")
def adaptive_windows() -> Iterator[int]:
    return count()


@pytest.fixture(scope="module")
def rejected_windows() -> Iterator[int]:
    return count()


@pytest.fixture(scope="module")
def validated_windows() -> Iterator[int]:
    return count()


@pytest.fixture(scope="module")
def means_windows() -> Iterator[int]:
    return count()


@pytest.fixture(scope="module")
def windows() -> Iterator[int]:
    return count()


@pytest.fixture(scope="module")
def large_windows() -> Iterator[int]:
    return count()


@pytest.mark.parametrize("mode", ["kill", "stall"])
@pytest.mark.parametrize("point", [point for point in all_points() if point not in SPLIT], ids=str)
def test_a_fault_at_a_step_only_delays(chain: Rig, windows: Iterator[int], point: Point, mode: str):
    struck(chain, windows, point, mode, time=1)


@pytest.mark.parametrize("mode", ["kill", "stall"])
@pytest.mark.parametrize(
    ("point", "time"),
    [*((point, 1) for point in (*SPLIT, *MERGING)), (Point("partial", "collected"), 3)],
    ids=str,
)
def test_a_fault_at_a_step_of_a_split_training_only_delays(
    large_chain: Rig, large_windows: Iterator[int], point: Point, time: int, mode: str
):
    struck(large_chain, large_windows, point, mode, time=time)


@pytest.mark.parametrize("mode", ["kill", "stall"])
@pytest.mark.parametrize("point", EVALUATING, ids=str)
def test_a_fault_at_a_step_of_an_evaluation_only_delays(
    large_chain: Rig, large_windows: Iterator[int], point: Point, mode: str
):
    struck(large_chain, large_windows, point, mode, time=1)
    service = local(large_chain.store)
    estimates = service.evaluations(scenario.LONG)
    assert [one.number for one in estimates] == [v.number for v in service.versions(scenario.LONG)]
    with service.begin() as uow:
        journal = uow.ledger.journal(scenario.STREAM)
    paid = [
        entry.key for entry in journal if entry.key.startswith("evaluate/") and entry.kind is EntryKind.SPEND
    ]
    assert len(paid) == len(set(paid)) == len(estimates)


@pytest.mark.parametrize("mode", ["kill", "stall"])
@pytest.mark.parametrize("point", VALIDATING, ids=str)
def test_a_fault_at_a_step_of_a_validation_only_delays(
    validated_chain: Rig, validated_windows: Iterator[int], point: Point, mode: str
):
    struck(validated_chain, validated_windows, point, mode, time=1, n=ENOUGH)
    assert {one.verdict["metric"] for one in charged_once(validated_chain, scenario.LONG)} == {"loss"}


@pytest.mark.parametrize("mode", ["kill", "stall"])
@pytest.mark.parametrize("point", VALIDATING, ids=str)
def test_a_fault_at_a_step_of_a_validation_of_means_only_delays(
    means_chain: Rig, means_windows: Iterator[int], point: Point, mode: str
):
    struck(means_chain, means_windows, point, mode, time=1, n=ENOUGH, ptk_id=scenario.SPEED)
    verdicts = charged_once(means_chain, scenario.SPEED)
    assert {one.verdict["metric"] for one in verdicts} == {"error"}
    assert {len(one.verdict["groups"]) for one in verdicts} == {len(scenario.HOURS)}


@pytest.mark.parametrize("mode", ["kill", "stall"])
@pytest.mark.parametrize("point", VALIDATING, ids=str)
def test_a_fault_at_a_step_of_a_rejection_leaves_one_verdict_one_charge_and_no_version(
    rejected_chain: Rig, rejected_windows: Iterator[int], point: Point, mode: str
):
    window, service = next(rejected_windows), local(rejected_chain.store)
    if window:  # another target lets it wait anew
        service.update_ptk(scenario.LONG, target=0.01 + window / 10_000)
    rejected_chain.close(window, ENOUGH)
    assert rejected_chain.work_struck(point, mode), f"{point} was never reached"
    assert rejected_chain.faults() == []
    spec = service.ptk(scenario.LONG)
    assert spec.waiting is not None
    assert spec.waiting.given_up is GivenUp.REJECT
    verdicts = service.validations(scenario.LONG)
    assert [one.window_index for one in verdicts] == list(range(window + 1))
    assert {one.verdict["decision"] for one in verdicts} == {"reject"}
    with service.begin() as uow:
        journal = uow.ledger.journal(scenario.STREAM)
        told = [one.window_index for one in uow.notices(scenario.TEAM) if one.code == "validation-reject"]
    paid = [one.key for one in journal if one.key.startswith("validate/") and one.kind is EntryKind.SPEND]
    assert paid == [f"validate/{scenario.LONG}/{number}" for number in range(window + 1)]
    assert sorted(told, key=lambda one: one or 0) == list(range(window + 1))
    service.destroy_refused_drafts()
    assert service.keys.draft_ids() == ()
    assert service.versions(scenario.LONG) == ()


@pytest.mark.parametrize("mode", ["kill", "stall"])
@pytest.mark.parametrize("point", [point for point in SCHEDULING if point not in SPLIT], ids=str)
def test_a_fault_at_a_step_of_a_scheduler_only_delays(
    adaptive_chain: Rig, adaptive_windows: Iterator[int], point: Point, mode: str
):
    struck(adaptive_chain, adaptive_windows, point, mode, time=1)
    service = local(adaptive_chain.store)
    with service.begin() as uow:
        journal = uow.ledger.journal(scenario.STREAM)
    reserved, spent = (
        [one.key for one in journal if one.kind is kind] for kind in (EntryKind.RESERVE, EntryKind.SPEND)
    )
    assert reserved == spent == [one.job_id for one in service.versions(scenario.LONG)]
    assert service.queue(scenario.STREAM) == ()


@pytest.mark.parametrize("mode", ["kill", "stall"])
@pytest.mark.parametrize("point", COMPARING, ids=str)
def test_a_fault_at_a_step_of_a_comparison_leaves_one_charge_and_one_answer(
    measured_chain: Rig, measured_windows: Iterator[int], point: Point, mode: str
):
    window = next(measured_windows)
    while window < 2:  # both PTKs have a version then
        measured_chain.close(window, 200)
        measured_chain.work(measured_chain.service())
        window = next(measured_windows)
    measured_chain.close(window, 200)
    assert measured_chain.work_struck(point, mode, time=1), f"{point} was never reached"
    assert measured_chain.faults() == []
    service = local(measured_chain.store)
    with service.begin() as uow:
        journal, runs = uow.ledger.journal(scenario.STREAM), uow.jobs.comparisons(scenario.STREAM)
        windows = uow.windows.prepared(scenario.STREAM)
        answers, kept = uow.thresholds.answers(scenario.STREAM), uow.thresholds.of(scenario.STREAM)
    paid = [one.key for one in journal if one.key.startswith("compare/") and one.kind is EntryKind.SPEND]
    assert len(paid) == len(set(paid))
    assert {one.job_id for one in answers} == {one.id for one in runs if one.window.index in windows}
    assert all(one.reservation in paid for one in kept)
    keys = [name for name in service.keys.draft_ids() if ".threshold-" in name]
    assert sorted(keys) == sorted(one.key_id for one in kept)


@pytest.mark.parametrize("mode", ["kill", "stall"])
@pytest.mark.parametrize("point", COMPARING, ids=str)
def test_a_fault_at_a_step_of_a_release_leaves_one_charge_and_one_number(
    released_chain: Rig, released_windows: Iterator[int], point: Point, mode: str
):
    window = next(released_windows)
    if window == 0:  # both PTKs have a version then
        released_chain.close(window, 200)
        released_chain.work(released_chain.service())
        window = next(released_windows)
    released_chain.close(window, 200)
    assert released_chain.work_struck(point, mode, time=1), f"{point} was never reached"
    assert released_chain.faults() == []
    service = local(released_chain.store)
    with service.begin() as uow:
        journal, runs = uow.ledger.journal(scenario.STREAM), uow.jobs.comparisons(scenario.STREAM)
        windows = uow.windows.prepared(scenario.STREAM)
        numbers = uow.thresholds.released(scenario.STREAM)
    paid = [one.key for one in journal if one.key.startswith("compare/") and one.kind is EntryKind.SPEND]
    here = {one.id for one in runs if one.window.index in windows}
    assert here
    assert len(paid) == len(set(paid))
    assert {one.job_id for one in numbers} == here <= set(paid)
    assert all(one.noisy is not None for one in numbers)


def charged_once(chain: Rig, ptk_id: str) -> tuple[Validation, ...]:
    """The verdicts of a PTK: each made a version, and each was charged once."""
    service = local(chain.store)
    verdicts = service.validations(ptk_id)
    assert [one.number for one in verdicts] == [v.number for v in service.versions(ptk_id)]
    with service.begin() as uow:
        journal = uow.ledger.journal(scenario.STREAM)
    paid = [one.key for one in journal if one.key.startswith("validate/") and one.kind is EntryKind.SPEND]
    assert paid == [one.job_id for one in verdicts]
    return tuple(verdicts)


def struck(
    chain: Rig,
    windows: Iterator[int],
    point: Point,
    mode: str,
    *,
    time: int,
    n: int = 200,
    ptk_id: str = scenario.LONG,
) -> None:
    window = next(windows)
    if window == 0:  # the first window has nothing to expire
        chain.close(window, n)
        chain.work(chain.service())
        window = next(windows)
    chain.close(window, n)
    assert chain.work_struck(point, mode, time=time), f"{point} was never reached"
    assert chain.faults() == []
    assert [v.number for v in local(chain.store).versions(ptk_id)] == list(range(1, window + 2))


@pytest.mark.parametrize("which", ["chain", "large_chain"])
def test_expired_windows_leave_no_rows_no_drafts_and_no_keys(which: str, request: pytest.FixtureRequest):
    service = request.getfixturevalue(which).store.service
    with service.begin() as uow:
        last = uow.streams.progress(scenario.STREAM).closed_before - 1
    kept = f"{scenario.STREAM}/{last}/"
    assert [file for file in service.raw.files(scenario.STREAM) if not file.startswith(kept)] == []
    draft = f"{scenario.STREAM}.{last}."
    drafts = [name for name in service.staging.drafts() if name.startswith(f"{scenario.STREAM}.")]
    assert [name for name in drafts if not name.startswith(draft)] == []
    keys = service.settings.root / "keys"
    assert [path.name for path in (keys / "drafts").glob("*.key") if not path.name.startswith(draft)] == []
    assert [path.name for path in (keys / "windows" / scenario.STREAM).glob("*.key")] == [f"{last}.key"]


def test_a_split_training_leaves_no_partials_once_it_is_over(large_chain: Rig):
    """Nor do workers that died while they collected: whoever ends the training clears away after them."""
    names = [*local(large_chain.store).staging.drafts(), *local(large_chain.store).keys.draft_ids()]
    assert [name for name in names if "-" in name] == []


def test_what_consumers_look_up_is_the_newest_version(chain: Rig):
    newest = local(chain.store).versions(scenario.LONG)[-1]
    [shown] = chain.store.look_up(["ptk_state:version"], [{"ptk": scenario.LONG}])
    assert shown["version"] == newest.number
    manifest = Path(chain.settings.lake) / f"ptks/{scenario.LONG}/v{newest.number:08d}/manifest.json"
    assert len(json.loads(manifest.read_text())["blocks"]) == newest.number
