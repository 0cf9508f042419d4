"""The tests' own noise: the same in every run, fresh where it is asked for."""

import numpy as np
import pytest

from ptklib.mechanisms import laplace, stream
from tests.support.plugins.repeatable import RepeatableBytes

ZEROS = np.zeros(8, dtype=np.int64)


@pytest.fixture
def repeatable(request: pytest.FixtureRequest) -> None:
    if not request.config.pluginmanager.has_plugin("repeatable-noise"):
        pytest.skip("fresh noise was asked for")


@pytest.mark.usefixtures("repeatable")
def test_a_test_draws_the_same_noise_in_every_run() -> None:
    assert laplace(ZEROS, l1_sensitivity=8, epsilon=1.0).tolist() == [16, -29, -5, -1, 0, 1, 7, 5]


@pytest.mark.usefixtures("repeatable")
def test_two_draws_of_a_test_differ() -> None:
    first, second = (laplace(ZEROS, l1_sensitivity=1000, epsilon=1.0) for _ in range(2))
    assert np.all(first != second)


def test_a_forked_child_draws_fresh_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    repeated, again = RepeatableBytes(), RepeatableBytes()
    for source in (repeated, again):
        source.begin("a test")
    assert repeated.urandom(32) == again.urandom(32)
    monkeypatch.setattr("tests.support.plugins.repeatable.os.getpid", lambda: -1)  # what a child would find
    assert repeated.urandom(32) != again.urandom(32)


@pytest.mark.fresh_noise
def test_a_test_may_ask_for_fresh_noise(request: pytest.FixtureRequest) -> None:
    repeated = RepeatableBytes()
    repeated.begin(request.node.nodeid)
    assert stream.os.urandom(32) != repeated.urandom(32)  # type: ignore[attr-defined]
