"""What runs at a commit and at a push: valid, and nothing of its own beside `.ci/run` and the locked tools."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

WORKFLOW = ".github/workflows/ci.yml"
HOOKS = ".pre-commit-config.yaml"


def check(file: Path) -> subprocess.CompletedProcess[str]:
    """Hold a file against the schema of workflows that check-jsonschema carries."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", file]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def read(file: Path) -> Any:
    return yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)


def test_the_workflow_is_one_and_a_wrong_one_is_refused(repository: Path, tmp_path: Path) -> None:
    assert check(repository / WORKFLOW).returncode == 0
    wrong = tmp_path / "ci.yml"
    wrong.write_text((repository / WORKFLOW).read_text(encoding="utf-8").replace("runs-on", "runs-in"))
    assert check(wrong).returncode == 1


def test_the_workflow_may_only_read_ends_by_itself_and_runs_what_everybody_runs(repository: Path) -> None:
    workflow = read(repository / WORKFLOW)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 90
        assert job["steps"][-1]["run"] == ".ci/run"
        for step in job["steps"]:
            assert re.search(r"@[0-9a-f]{40}$", step.get("uses", "@" + 40 * "0")), "an action is pinned"


def test_the_hooks_are_valid_and_run_locked_tools(repository: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pre_commit", "validate-config", HOOKS],
        cwd=repository,
        capture_output=True,
        timeout=120,
        check=True,
    )
    hooks = [hook for one in read(repository / HOOKS)["repos"] for hook in one["hooks"]]
    assert len(hooks) > 3
    for hook in hooks:
        program = hook["entry"].split()[0]
        assert program.startswith(".venv/bin/")
        assert (Path(sys.executable).parent / Path(program).name).exists()


@pytest.mark.parametrize("text", ["repos: 1\n", "repos:\n- repo: local\n  hooks:\n  - id: x\n"])
def test_hooks_that_are_none_are_refused(text: str, tmp_path: Path) -> None:
    wrong = tmp_path / "hooks.yaml"
    wrong.write_text(text)
    command = [sys.executable, "-m", "pre_commit", "validate-config", wrong]
    assert subprocess.run(command, capture_output=True, timeout=120, check=False).returncode == 1
