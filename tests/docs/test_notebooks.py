"""The notebooks: stored as they were run, with outputs that their cells still print, and nothing of the machine."""

from __future__ import annotations

import copy
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest

from tests.architecture.source import REPOSITORY

FOLDER = REPOSITORY / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def _runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("execute_notebooks", FOLDER / "execute.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


runner = _runner()


def notebook(*outputs: Any) -> Any:
    """A title, and a cell with these outputs."""
    cell = nbformat.v4.new_code_cell("print(1)", execution_count=1, outputs=list(outputs))
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Title"), cell])


def printed(text: str) -> Any:
    return nbformat.v4.new_output("stream", name="stdout", text=text)


def shown(**data: str) -> Any:
    return nbformat.v4.new_output(
        "display_data", data={name.replace("_", "/"): text for name, text in data.items()}
    )


def test_there_are_notebooks() -> None:
    assert len({path.name[:2] for path in NOTEBOOKS}) == len(NOTEBOOKS) >= 5
    assert runner.notebooks() == NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_as_it_was_run(path: Path) -> None:
    assert runner.faults(path) == []
    assert runner.plainly(runner.read(path)) == runner.read(path)
    assert "ptk" in json.dumps([cell.source for cell in runner.read(path).cells])


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_prints_what_is_stored(path: Path) -> None:
    assert runner.differences(runner.read(path), runner.executed(path)) == []


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (printed("epsilon 0.1, 20,000 rows\n"), printed("epsilon -2e-05,  7 rows")),
        (printed("[ 680. , 8047.85812855]"), printed("[681.5, 8.04785812855e+03]")),
        (printed("It is 2."), printed("It is 2.5.")),
        (printed("┏━━━┓ value"), printed("┏━━━━━━━┓ value")),
        (printed("key dbf74faac2492b65"), printed("key 0123456789abcdef")),
        (shown(image_png="AAAA", text_plain="a"), shown(image_png="BBBB", text_plain="b")),
        (shown(text_html="<td>1</td>"), shown(text_html="<td>2.5</td>")),
    ],
)
def test_numbers_and_layout_may_differ(before: Any, now: Any) -> None:
    assert runner.differences(notebook(before), notebook(now)) == []


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ([printed("declared: 2")], [printed("proven: 2")]),
        ([], [printed("1")]),
        ([printed("1")], []),
        ([shown(image_png="A")], [shown(text_plain="a")]),
        ([shown(text_html="<b>1</b>")], [shown(text_html="<i>1</i>")]),
    ],
)
def test_words_and_kinds_of_outputs_may_not_differ(before: list[Any], now: list[Any]) -> None:
    (told,) = runner.differences(notebook(*before), notebook(*now))

    assert told.startswith("cell 1 (print(1))")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda one: one.cells[1].update(execution_count=None), "not run in order"),
        (
            lambda one: one.cells[1].update(outputs=[printed("see /home/ada/x.py")]),
            "shows a path of the machine",
        ),
        (
            lambda one: one.cells[1].update(outputs=[shown(text_html='"/tmp/a1"')]),
            "shows a path of the machine",
        ),
        (lambda one: one.cells[1].update(outputs=[printed("a" * 300_000)]), "more than 300000 bytes"),
        (lambda one: one.cells[0].update(source="No title"), "does not begin with a title"),
        (
            lambda one: one.cells[1].update(
                outputs=[nbformat.v4.new_output("error", ename="E", evalue="", traceback=[])]
            ),
            "cell 1 failed",
        ),
    ],
)
def test_what_is_wrong_with_a_stored_notebook_is_told(tmp_path: Path, change: Any, told: str) -> None:
    sound = notebook(printed("1 of 2, see https://example.org/home/"))
    wrong = copy.deepcopy(sound)
    change(wrong)

    for one in (sound, wrong):
        nbformat.write(one, tmp_path / f"{'sound' if one is sound else 'wrong'}.ipynb")

    assert runner.faults(tmp_path / "sound.ipynb") == []
    (fault,) = runner.faults(tmp_path / "wrong.ipynb")
    assert told in fault


def test_streams_that_were_cut_are_joined_and_metadata_go() -> None:
    ran = notebook(printed("a"), printed("b"))
    ran.cells[1].metadata["execution"] = {"iopub.execute_input": "2026-01-01"}
    ran.metadata["language_info"] = {"name": "python", "version": "3.11.7"}

    plain = runner.plainly(ran)

    assert [output.text for output in plain.cells[1].outputs] == ["ab"]
    assert plain.cells[1].metadata == {}
    assert plain.metadata.language_info == {"name": "python"}


@pytest.mark.long
def test_a_cell_that_fails_is_an_error(tmp_path: Path) -> None:
    broken = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")])
    nbformat.write(broken, tmp_path / "broken.ipynb")

    with pytest.raises(runner.CellExecutionError, match="ZeroDivisionError"):
        runner.executed(tmp_path / "broken.ipynb")
