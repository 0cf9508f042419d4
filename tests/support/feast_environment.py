"""A consumer's environment of its own, with plain Feast."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.plugins.lacking import without

WISH = "feast[redis]"


@pytest.fixture(scope="module")
def python(repository: Path, tmp_path_factory) -> Path:
    """Its interpreter."""
    return installed(repository, tmp_path_factory.mktemp("consumer") / "venv")


def installed(repository: Path, folder: Path) -> Path:
    """Fill an environment; the versions are those of our lock, so that the index is asked for nothing else.

    Where that fails the test is skipped, and under `CI` failed: it is a headline of the project.
    """
    uv = repository / ".uv" / "bin" / "uv"
    if not uv.exists():
        without(WISH, "the project's uv is not installed; run: make setup")
    env = {
        **os.environ,
        "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(repository / ".uv-cache")),
        "UV_SYSTEM_CERTS": "1",
        "UV_PYTHON_DOWNLOADS": "never",
    }
    env.pop("VIRTUAL_ENV", None)
    wish = [f"{WISH}==0.67.0", "--constraint", str(repository / "requirements.lock")]
    for command in (
        ["venv", "--python", str(repository / ".venv" / "bin" / "python"), str(folder)],
        ["pip", "install", "--python", str(folder / "bin" / "python"), *wish],
    ):
        done = subprocess.run([uv, "--quiet", *command], env=env, capture_output=True, text=True, timeout=300)
        if done.returncode:
            without(WISH, f"no environment for the consumer: {done.stderr.strip()[-200:]}")
    return folder / "bin" / "python"
