"""What the tests of several families share."""

import pytest


@pytest.fixture
def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let joint releases give out exact sums, for tests of what is computed from them."""
    monkeypatch.setattr("ptklib.release.ReleasePlan.draw", lambda self, units: dict(units))
