"""A pytest plugin for tests that need a tool of the machine: skipped without it, and counted at the end of the run."""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import NoReturn

import pytest

ALLOWED = "PTK_TEST_WITHOUT"
"""The variable that names the tools, with commas between them, that continuous integration may lack."""

_REASON = re.compile(r"needs ([^:]+): ")


def needs(tool: str, why: str) -> str:
    """Return the reason of a skip that the end of the run counts under the tool's name."""
    return f"needs {tool}: {why}"


def without(tool: str, why: str, *, in_ci: bool = True) -> NoReturn:
    """Skip the test; under `CI` fail it instead, unless continuous integration may lack the tool, or is told to."""
    if in_ci and os.environ.get("CI") and tool not in os.environ.get(ALLOWED, "").split(","):
        pytest.fail(f"{needs(tool, why)} ({ALLOWED}={tool} lets CI go on without it)", pytrace=False)
    pytest.skip(needs(tool, why))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell in one line how many tests were skipped for which missing tool."""
    reasons = (str(report.longrepr) for report in terminalreporter.stats.get("skipped", []))
    lacking = Counter(found[1] for reason in reasons if (found := _REASON.search(reason)))
    if lacking:
        told = ", ".join(f"{tool} ({number})" for tool, number in sorted(lacking.items()))
        terminalreporter.write_line(f"tests skipped for a tool that is missing: {told}", yellow=True)
