"""What all tests share: a clean environment, the plugins, which tests count as real."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

import pytest

from tests.support.plugins.noise_reruns import reruns

pytest_plugins = [
    "tests.support.plugins.garbage",
    "tests.support.plugins.hypothesis_profiles",
    "tests.support.plugins.in_memory",
    "tests.support.plugins.lacking",
    "tests.support.plugins.measurements",
    "tests.support.plugins.ready_tables",
    "tests.support.plugins.repeatable",
    "tests.services.plugin",
    "tests.support.team_code",
]

SERVERS = {"redis_server", "devices_redis", "postgres", "webhook_receiver"}
KEPT = {"PTK_TEST_DATA", "PTK_TEST_WITHOUT"}  # where real data lie; which tools may be missing


def pytest_configure(config: pytest.Config) -> None:
    """Forget the caller's `PTK_HOME` and its like."""
    for name in [name for name in os.environ if name.startswith("PTK_") and name not in KEPT]:
        del os.environ[name]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark as real whatever asks for a running server; rerun tests of noise, but no soak tests."""
    here = Path(__file__).parent
    all_fresh = config.getoption("noise") == "fresh"
    for item in items:
        if SERVERS.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.real)
        if item.get_closest_marker("soak"):
            continue
        path = PurePosixPath(item.path.relative_to(here).as_posix())
        fresh = all_fresh or item.get_closest_marker("fresh_noise") is not None
        if times := reruns(path, fresh_noise=fresh):
            item.add_marker(pytest.mark.flaky(reruns=times))


@pytest.fixture(scope="session")
def repository() -> Path:
    """Return the root of the source tree."""
    return Path(__file__).resolve().parent.parent


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show how each rerun test failed at first: a rare defect is seen there and nowhere else."""
    again = terminalreporter.stats.get("rerun", [])
    if again:
        terminalreporter.section("failed before they were rerun")
    for report in again:
        terminalreporter.write_line(f"{report.nodeid} ({report.when})", yellow=True)
        terminalreporter.write_line(report.longreprtext)
