"""The plugin that chooses how hypothesis draws: alike wherever tests of ours are run."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# A deadline, or a complaint about slow examples, would time the machine and not the code.
settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("local"), derandomize=True, print_blob=True)
settings.register_profile("soak", settings.get_profile("local"), max_examples=2_000)


def pytest_configure(config: pytest.Config) -> None:
    """Choose the profile."""
    chosen = "soak" if config.option.markexpr == "soak" else "ci" if os.environ.get("CI") else "local"
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", chosen))
