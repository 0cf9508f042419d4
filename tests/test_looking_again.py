"""Races are looked at once; only noise and the load of a real machine are reasons to look again."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from tests import looking_again
from tests.looking_again import looks_again


@pytest.mark.parametrize(
    ("file", "repeated", "fresh"),
    [
        ("contracts/test_jobs.py", 0, 0),
        ("ptklib/test_trees.py", 0, 2),
        ("statistical/test_family_audits.py", 2, 2),
        ("ptkstore/domain/test_blocks.py", 0, 0),
        ("ptkstore/application/test_training.py", 1, 1),
        ("ptkstore/adapters/objects/test_writers_race_and_die.py", 0, 0),
        ("ptkstore/adapters/sql/test_claims.py", 0, 0),
        ("faults/test_ledger_under_fire.py", 0, 0),
        ("faults/test_two_schedules.py", 0, 0),
        ("faults/test_real_processes.py", 1, 1),
        ("ptkstore/adapters/objects/test_ceph.py", 1, 1),
        ("ptkstore/console/test_in_a_browser.py", 1, 1),
        ("journeys/test_demo.py", 1, 1),
    ],
)
def test_a_race_may_not_fail_once(file: str, repeated: int, fresh: int) -> None:
    assert looks_again(PurePosixPath(file), fresh_noise=False) == repeated
    assert looks_again(PurePosixPath(file), fresh_noise=True) == fresh


def reruns_of(request: pytest.FixtureRequest) -> int:
    mark = request.node.get_closest_marker("flaky")
    return mark.kwargs["reruns"] if mark else 0


def test_this_test_is_looked_at_as_the_rules_say(request: pytest.FixtureRequest) -> None:
    assert reruns_of(request) == 1


@pytest.mark.exact
def test_a_marked_test_is_looked_at_once_wherever_it_lies(request: pytest.FixtureRequest) -> None:
    assert reruns_of(request) == 0


def test_every_place_of_the_rules_exists() -> None:
    here = Path(__file__).parent
    for place in (*looking_again.EXACT, *looking_again.NOISY, *looking_again.NOISY_IF_FRESH):
        assert (here / place).exists()
