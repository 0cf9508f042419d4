"""At every step of a profile and of a drift test a worker is killed, or stalls until others have done its work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest

from ptklib import Clustering
from ptkstore.domain.jobs import JobKind, job_id
from ptkstore.domain.ptks.profiles import Point as Answer
from ptkstore.domain.ptks.profiles import ProfileRecord, ProfileState, Verdict
from tests.faults import scenario
from tests.faults.rig import Rig, rig
from tests.faults.steps import OF_PROFILES, Point, all_points
from tests.support.local import local
from tests.support.world import SeenViews

pytestmark = pytest.mark.long

RENEWED, WATCHED = f"{scenario.TEAM}.renewed", f"{scenario.TEAM}.watched"
PROFILE = {"points": 1, "n_min": 256, "n_max": 256, "models": 1, "budget": 4.5}
ROWS = 40


def register(made: Rig, ptk_id: str, n_clusters: int, **profile: object) -> None:
    estimator = Clustering(
        columns=["speed"], n_clusters=n_clusters, bounds={"speed": (0.0, 60.0)}, epsilon=0.2
    )
    config = {"epsilons": [0.2, 0.2], "profile": {**PROFILE, **profile}}
    name = ptk_id.partition(".")[2]
    made.store.register_ptk(estimator, name=name, stream=scenario.STREAM, target=0.3, config=config)


def profiled(made: Rig, ptk_id: str) -> None:
    """Have a profile there that was answered long ago."""
    with local(made.store).begin() as uow:
        ask = uow.ptks.get(ptk_id).profile
        assert ask is not None
        found = (Answer(ask.epsilons[0], Verdict.FOUND, 256),)
        known = job_id(JobKind.PLACE, ptk_id)
        uow.profiles.add(
            ProfileRecord(ask.key, 1, scenario.STREAM, 0, known, ProfileState.ANSWERED, 1, found)
        )
        uow.commit()


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Windows of 40 rows that are said to have 100,000: nothing is found, and nothing drifts, but once in 1e8 runs."""
    with rig(tmp_path_factory.mktemp("profiles") / "home", features=SeenViews()) as made:
        scenario.create_stream(made.store, rows_per_window=100_000, epsilon=9.0)
        register(made, RENEWED, 2, max_age=0, drift=0)
        register(made, WATCHED, 3, max_age=10_000, drift=0.9)
        profiled(made, WATCHED)
        made.close(0, ROWS)  # the first window has nothing to expire and no state to test
        made.work(made.service())
        yield made


@pytest.fixture(scope="module")
def windows() -> Iterator[int]:
    return count(1)


STRIKES = [
    pytest.param(point, mode, id=f"{point}-{mode}")
    for point in all_points(OF_PROFILES)
    for mode in ("kill", "stall")
    if mode == "kill" or point.step not in ("claimed", "opened")  # "spent" lies between them
]


@pytest.mark.parametrize(("point", "mode"), STRIKES)
def test_a_fault_at_a_step_of_a_profile_costs_one_spend_and_keeps_one_answer(
    chain: Rig, windows: Iterator[int], point: Point, mode: str
) -> None:
    window = next(windows)
    chain.close(window, ROWS)
    assert chain.work_struck(point, mode), f"{point} was never reached"
    assert chain.faults() == []
    service = local(chain.store)
    assert service.verify_ledger(scenario.STREAM).faults == ()
    with service.begin() as uow:
        spends = Counter(entry.key for entry in uow.ledger.journal(scenario.STREAM) if entry.kind == "spend")
        asks = {ptk_id: uow.ptks.get(ptk_id).profile for ptk_id in (RENEWED, WATCHED)}
        known = {p: uow.profiles.of([ask.key])[ask.key] for p, ask in asks.items() if ask is not None}
    for kind, ptk_id in (("profile", RENEWED), ("drift", WATCHED)):
        assert spends[job_id(JobKind(kind), ptk_id, window)] == 1
        paid = [one for record in known[ptk_id] for one in record.paid if one.window == window]
        assert [one.what for one in paid] == [kind]
    assert [record.state for record in known[WATCHED]] == [ProfileState.ANSWERED]
    assert known[WATCHED][0].drifted_at is None
    newest = known[RENEWED][-1]
    assert newest == replace(newest, state=ProfileState.GIVEN_UP, tries=1, code="")
    assert [answer.verdict for answer in newest.points] == [Verdict.NEEDS_MORE]
