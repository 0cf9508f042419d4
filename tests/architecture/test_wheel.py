"""What the two wheels hold, and that their base install is enough for the library and the client."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.architecture.source import REPOSITORY, modules

EXAMPLES = ("taxi_team", "feast_consumer")  # what the demo shows
IN_WHEEL = "ptkstore/cli/demo/examples"


def run(*command: str | Path, cwd: Path = REPOSITORY, env: dict[str, str] | None = None) -> str:
    """Return what a command prints; fail with all of it if the command fails."""
    result = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def build(source: Path, folder: Path) -> Path:
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=source)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(REPOSITORY, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(REPOSITORY / "ptklib", tmp_path_factory.mktemp("library"))


def python_files(wheel: Path) -> set[str]:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".py")}
    return {name for name in names if not name.startswith(f"{IN_WHEEL}/")}


def test_each_module_is_in_one_of_the_wheels_and_no_test_is(wheel: Path, library: Path):
    ours = {module.path.as_posix() for module in modules()}
    of_the_library = {path for path in ours if path.startswith("ptklib/")}

    assert python_files(library) == of_the_library
    assert python_files(wheel) == ours - of_the_library


@pytest.mark.parametrize("package", ["ptklib", "ptkstore"])
def test_a_wheel_is_typed_and_brings_the_licence(wheel: Path, library: Path, package: str):
    with zipfile.ZipFile(library if package == "ptklib" else wheel) as archive:
        names = archive.namelist()
        (licence,) = [name for name in names if name.endswith("/licenses/LICENSE")]

        assert f"{package}/py.typed" in names
        assert archive.read(licence) == (REPOSITORY / "LICENSE").read_bytes()


def test_the_service_asks_for_the_library_of_its_own_version(wheel: Path, library: Path):
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith("METADATA")]

        assert f"Requires-Dist: ptklib=={library.name.split('-')[1]}" in archive.read(metadata).decode()


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_wheel_carries_the_demos_examples(wheel: Path, example: str):
    folder, inside = REPOSITORY / "examples" / example, f"{IN_WHEEL}/{example}/"
    ours = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith(inside)]
        theirs = {name.removeprefix(inside): archive.read(name) for name in names}

    assert ours
    assert theirs == ours


def test_the_wheel_offers_the_command(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        (entry_points,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]

        assert "ptk = ptkstore.cli.main:main" in archive.read(entry_points).decode()


@pytest.mark.soak
def test_a_base_install_fits_an_estimator_and_imports_the_client(wheel: Path, library: Path, tmp_path: Path):
    uv, python = REPOSITORY / ".uv/bin/uv", tmp_path / "venv/bin/python"
    ours = {
        "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(REPOSITORY / ".uv-cache")),
        "UV_SYSTEM_CERTS": "1",
    }
    run(uv, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv", env=ours)
    locked = ("--constraints", REPOSITORY / "requirements.lock")
    run(uv, "pip", "install", "--quiet", "--python", python, *locked, library, wheel, env=ours)

    fitted = run(
        python,
        "-c",
        "import pandas, ptkstore, ptkstore.sdk\n"
        "from ptklib import HistoricalStatistics\n"
        "rows = pandas.DataFrame({'hour': [8] * 50, 'speed': [12.0] * 50})\n"
        "estimator = HistoricalStatistics(['hour'], ['speed'], domains={'hour': range(24)},\n"
        "                                 bounds={'speed': (0.0, 60.0)}, epsilon=1.0)\n"
        "print(len(estimator.fit(rows).to_state().tables['statistics']))",
        cwd=tmp_path,
    )
    absent = run(
        python,
        "-c",
        "from importlib.util import find_spec\n"
        "print([name for name in ('feast', 'celery', 'sqlalchemy', 'redis') if find_spec(name)])",
        cwd=tmp_path,
    )

    assert fitted.strip() == "24"
    assert absent.strip() == "[]"
