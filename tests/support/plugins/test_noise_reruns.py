"""Only tests of noise are rerun: a race may not fail once."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from tests.support.plugins import noise_reruns
from tests.support.plugins.noise_reruns import reruns


@pytest.mark.parametrize(
    ("file", "repeated", "fresh"),
    [
        ("contracts/test_jobs.py", 0, 0),
        ("ptklib/test_trees.py", 0, 2),
        ("statistical/test_family_audits.py", 2, 2),
        ("ptkstore/application/test_training.py", 0, 0),
        ("faults/test_real_processes.py", 0, 0),
        ("ptkstore/console/test_in_a_browser.py", 0, 0),
        ("journeys/test_demo.py", 0, 0),
    ],
)
def test_only_tests_of_noise_are_rerun(file: str, repeated: int, fresh: int) -> None:
    assert reruns(PurePosixPath(file), fresh_noise=False) == repeated
    assert reruns(PurePosixPath(file), fresh_noise=True) == fresh


def test_this_test_is_not_rerun(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("flaky") is None


@pytest.mark.parametrize("place", [*noise_reruns.NOISY, *noise_reruns.NOISY_IF_FRESH])
def test_the_places_of_noise_exist(place: str) -> None:
    assert (Path(__file__).parents[2] / place).is_dir()
