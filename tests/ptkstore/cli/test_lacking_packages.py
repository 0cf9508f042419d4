"""An installation without the extra `service` says in one line what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ptkstore.cli.lacking import errors_in_one_line

WITHOUT = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Nothing())
sys.argv = ["ptk", *{words}]
"""


def run(missing: set[str], words: list[str], program: str) -> subprocess.CompletedProcess[str]:
    code = WITHOUT.format(names=missing, words=words) + program
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ({"typer"}, ["--help"]),
        ({"rich"}, ["list"]),
        ({"pydantic_settings"}, ["list"]),
    ],
)
def test_the_command_says_what_to_install(missing: set[str], words: list[str]) -> None:
    done = run(missing, words, "from ptkstore.cli.main import main; main()")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        f"ptk: the package {next(iter(missing))!r} is not installed: install ptkstore with its extra"
    )


def test_connecting_says_what_to_install() -> None:
    done = run({"pydantic_settings"}, [], "import ptkstore; ptkstore.connect('nowhere')")
    last = done.stderr.splitlines()[-1]
    assert last.startswith(
        "ModuleNotFoundError: the package 'pydantic_settings' is not installed: install ptkstore"
    )
    assert "During handling" not in done.stderr


def test_a_module_of_our_own_that_is_missing_is_a_fault() -> None:
    with pytest.raises(ModuleNotFoundError), errors_in_one_line():
        raise ModuleNotFoundError("no", name="ptkstore.gone")
