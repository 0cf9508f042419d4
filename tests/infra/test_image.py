"""The image: linted, locked, and what the processes need is in it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.infra.rendering import INFRA

ROOT = INFRA.parent


def versions(lock: Path) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9._-]+)==([^ \\;]+)", lock.read_text(), re.MULTILINE))


def test_hadolint_has_nothing_against_it() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    done = subprocess.run(
        [str(linter), "--no-color", str(INFRA / "Dockerfile")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_what_the_image_installs_is_what_was_tested() -> None:
    image, tested = versions(INFRA / "image.lock"), versions(ROOT / "requirements.lock")
    assert image.items() <= tested.items()
    assert {"alembic", "celery", "psycopg", "opentelemetry-sdk", "hatchling"} <= set(image)
    assert not {"pytest", "moto", "ruff", "helm-python-sdk"} & set(image)


def test_the_image_runs_as_nobody_and_is_given_no_secret() -> None:
    text = (INFRA / "Dockerfile").read_text()
    last = text.rpartition("\nFROM ")[2]
    assert "\nUSER 10001:10001\n" in last
    assert not re.search(r"(?i)password|secret|token", text)
    assert text.count("--require-hashes") == 2


def test_what_the_image_is_built_of_is_sent_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[0] == "*"
    sent = [line.removeprefix("!") for line in lines if line.startswith("!")]
    assert all((ROOT / path).exists() for path in sent), sent
    packaged = re.search(r"packages = \[(.*?)\]", (ROOT / "pyproject.toml").read_text())
    assert packaged
    assert set(re.findall(r'"(\w+)"', packaged[1])) <= set(sent)
    assert {"ptklib", "examples"} <= set(sent)  # a distribution of its own; what the wheel takes along
