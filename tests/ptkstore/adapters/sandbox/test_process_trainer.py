from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from ptkstore.adapters.sandbox.parent import ChildRuns, Program
from ptkstore.domain.versions.versions import Draft
from ptkstore.ports.row_processes import RunFailed
from tests.support.sandbox_orders import World, counts, near, nothing, state_of


@pytest.mark.long
def test_a_training_leaves_a_released_state_in_staging_under_the_names_of_the_lake(
    world: World, tmp_path: Path
) -> None:
    request = world.request(epsilon=0.5)
    draft = world.runs(timeout_seconds=120, memory_bytes=1 << 30).train(request, nothing)
    assert isinstance(draft, Draft)
    assert draft.draft_id == request.draft_id
    (file,) = draft.files
    content = world.staging.read(draft.draft_id, [file.name], world.draft_key)[file.name]
    assert file.name == f"statistics-{file.sha256}.parquet"
    assert (file.size, file.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert json.loads(json.dumps(draft.state)) == draft.state
    state = state_of(world, draft)
    assert (state.loss.epsilon, state.loss.delta) == (0.5, 0.0)  # what was granted, not what was registered
    assert counts(state) == {"a": near(2_000), "b": near(2_000)}
    stored = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(stored) == 2
    for path in stored:
        assert not any(word in path.read_bytes() for word in (b"canary", b"zone", b"PAR1"))


def test_each_training_draws_noise_of_its_own(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world.root)  # relative paths name the same trees
    trainer = ChildRuns(Program("raw", "staging"), staging=world.staging)
    found = []
    for _ in range(2):
        draft = trainer.train(world.request(epsilon=0.01), nothing)
        assert isinstance(draft, Draft)
        found.append(counts(state_of(world, draft)))
    assert found[0] != found[1]


def rows_gone(world: World) -> None:
    Path(world.rows().part_urls[0]).unlink()


def rows_changed(world: World) -> None:
    path = Path(world.rows().part_urls[0])
    path.write_bytes(path.read_bytes()[:-5])


def nothing_at_all(world: World) -> None:
    pass


@pytest.mark.parametrize(
    ("fault", "changes", "code"),
    [
        (rows_gone, {}, "rows-gone"),
        (rows_changed, {}, "rows-corrupt"),
        (nothing_at_all, {"estimator": {"family": "os.system", "params": {}}}, "trainer-error"),
    ],
)
def test_a_training_that_cannot_work_fails_with_a_code_and_nothing_else(
    world: World, capfd: pytest.CaptureFixture[str], fault: Any, changes: dict[str, Any], code: str
) -> None:
    fault(world)
    assert world.runs().train(world.request(**changes), nothing) == RunFailed(code)
    assert world.staging.drafts() == ()
    assert capfd.readouterr() == ("", "")


def test_a_draft_that_is_not_sound_is_bad_output(world: World) -> None:
    elsewhere = world.elsewhere()
    trainer = ChildRuns(world.program(), staging=elsewhere)
    assert trainer.train(world.request(), nothing) == RunFailed("bad-output")
