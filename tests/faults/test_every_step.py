"""At every step a worker is killed, or stalls until others have done its work: the checker finds nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.faults import scenario
from tests.faults.rig import Rig, rig
from tests.faults.steps import Point, all_points


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig(tmp_path_factory.mktemp("chain") / "home") as made:
        scenario.create_stream(made.store)
        scenario.register(made.store, [scenario.LONG])
        made.subscribe(scenario.LONG, "first")
        made.subscribe(scenario.LONG, "second")
        yield made


@pytest.fixture(scope="module")
def windows() -> Iterator[int]:
    return count()


@pytest.mark.parametrize("mode", ["kill", "stall"])
@pytest.mark.parametrize("point", all_points(), ids=str)
def test_a_fault_at_a_step_only_delays(chain: Rig, windows: Iterator[int], point: Point, mode: str):
    window = next(windows)
    if window == 0:  # the first window has nothing to expire
        chain.close(window)
        chain.work(chain.service())
        window = next(windows)
    chain.close(window)
    assert chain.work_struck(point, mode), f"{point} was never reached"
    assert chain.faults() == []
    assert [v.number for v in chain.store.service.versions(scenario.LONG)] == list(range(1, window + 2))


def test_expired_windows_leave_no_rows_no_drafts_and_no_keys(chain: Rig):
    service = chain.store.service
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


def test_what_consumers_look_up_is_the_newest_version(chain: Rig):
    newest = chain.store.service.versions(scenario.LONG)[-1]
    [shown] = chain.store.look_up(["ptk_state:version"], [{"ptk": scenario.LONG}])
    assert shown["version"] == newest.number
    manifest = Path(chain.settings.lake) / f"ptks/{scenario.LONG}/v{newest.number:08d}/manifest.json"
    assert len(json.loads(manifest.read_text())["blocks"]) == newest.number
