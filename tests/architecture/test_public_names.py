"""The names of `ptklib` and `ptkstore` are loaded late, and type checkers and editors see them all the same."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ptklib
import ptkstore
from tests.architecture.source import REPOSITORY

PACKAGES = {"ptklib": ptklib, "ptkstore": ptkstore}


def names_for_type_checkers(package: str) -> set[str]:
    """What the package imports under ``TYPE_CHECKING``."""
    tree = ast.parse((REPOSITORY / package / "__init__.py").read_text())
    blocks = [n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    imports = [n for block in blocks for n in block.body if isinstance(n, ast.ImportFrom)]
    return {alias.asname or alias.name for n in imports for alias in n.names}


@pytest.mark.parametrize("package", PACKAGES)
def test_type_checkers_see_every_public_name(package: str) -> None:
    assert names_for_type_checkers(package) == set(PACKAGES[package].__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_can_be_loaded(package: str) -> None:
    for name in PACKAGES[package].__all__:
        assert getattr(PACKAGES[package], name).__name__ == name


@pytest.mark.parametrize("package", PACKAGES)
def test_the_package_says_that_it_is_typed(package: str) -> None:
    assert (REPOSITORY / package / "py.typed").is_file()


@pytest.mark.long
def test_a_type_checker_knows_what_a_caller_gets(tmp_path: Path) -> None:
    caller = tmp_path / "caller.py"
    caller.write_text(
        "import ptklib, ptkstore\n"
        "reveal_type(ptklib.Clustering(3, bounds=(0, 1), epsilon=1.0))\n"
        "reveal_type(ptkstore.connect())\n"
    )
    options = (
        "--config-file",
        "/dev/null",
        "--follow-imports=silent",
        "--cache-dir",
        str(tmp_path / "cache"),
    )
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(caller)], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert 'Revealed type is "ptklib.clustering.estimator.Clustering"' in checked.stdout, checked.stdout
    assert 'Revealed type is "ptkstore.sdk.store.Store"' in checked.stdout, checked.stdout
