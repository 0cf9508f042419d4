"""The pages of docs/reference/ that are made from the program are as it is, and each error leads to its section."""

from __future__ import annotations

import ast
import io
import json
import re
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

import ptklib.exceptions
import ptkstore
from infra.docs.reference.__main__ import pages
from infra.docs.reference.benchmarks import machines, number
from infra.docs.reference.marks import escaped, prose, table
from ptklib.exceptions import PtklibError
from ptkstore import errors
from ptkstore.cli import output
from ptkstore.cli.main import app
from ptkstore.settings import Settings
from ptkstore.wire.problems import Problem

REFERENCE = Path("docs/reference")


def anchors(page: str) -> set[str]:
    """The anchors of the sections of errors."""
    return {heading.lower() for heading in re.findall(r"^### ([\w-]+)$", page, re.MULTILINE)}


def codes(root: Path) -> set[str]:
    """The codes that classes of errors declare, wherever they are."""
    return {
        statement.value.value
        for folder in ("ptkstore", "workers")
        for path in (root / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.Assign)
        and ast.unparse(statement.targets[0]) == "code"
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    }


@pytest.mark.parametrize("name", sorted(pages()))
def test_a_page_is_as_the_program_is(repository: Path, name: str) -> None:
    assert (repository / REFERENCE / name).read_text(encoding="utf-8") == pages()[name], "run: make reference"


def test_each_code_has_a_section(repository: Path) -> None:
    from ptkstore.api.problems import _CODES

    found = anchors((repository / REFERENCE / "errors.md").read_text(encoding="utf-8"))
    assert len(codes(repository)) > 25
    assert codes(repository) | set(_CODES.values()) <= found


def test_the_page_of_each_error_of_the_library_is_there(repository: Path) -> None:
    kinds = [
        kind
        for kind in vars(ptklib.exceptions).values()
        if isinstance(kind, type) and issubclass(kind, PtklibError)
    ]
    assert len(kinds) > 8
    for kind in kinds:
        error = (
            kind("message", "column") if "column" in str(kind.__init__.__code__.co_names) else kind("message")
        )
        page, _, anchor = error.page.partition("#")
        assert anchor in anchors((repository / page).read_text(encoding="utf-8")), kind
        assert error.__notes__ == [f"see {error.page}"]
        assert str(error) == "message"


@pytest.mark.parametrize("site", ["https://docs.example.org/ptk", "https://docs.example.org/ptk/"])
def test_an_error_names_its_page_on_the_site_of_the_documentation(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PTK_DOCS_URL", site)
    page = "https://docs.example.org/ptk/reference/errors.html"
    done = CliRunner().invoke(app, ["list", "--home", str(tmp_path), "--json"])
    assert json.loads(done.stdout)["error"]["page"] == f"{page}#invalid-request"
    assert errors.Refused("no").__notes__ == [f"see {page}#refused"]
    assert ptklib.exceptions.SchemaError("no").__notes__ == [f"see {page}#schemaerror"]
    problem = Problem(type="", title="", status=403, code="refused", detail="", request_id="")
    assert problem.model_dump()["page"] == f"{page}#refused"


@pytest.mark.parametrize("wrong", ["", "docs.example.org", "javascript:alert(1)", "https://d.example/\nsee"])
def test_what_is_no_site_leads_to_the_path(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTK_DOCS_URL", wrong)
    assert errors.Refused("no").page == "docs/reference/errors.md#refused"


def test_the_command_line_says_where_an_error_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = "docs/reference/errors.md#invalid-request"
    asked = ["list", "--home", str(tmp_path)]
    done = CliRunner().invoke(app, [*asked, "--json"])
    assert json.loads(done.stdout)["error"]["page"] == page
    for on_terminal, lines in ((True, ["", page]), (False, [""])):
        printed = io.StringIO()
        said = output._Terminal(force_terminal=on_terminal, no_color=True, width=500, file=printed)
        monkeypatch.setattr(output, "said", said)
        assert CliRunner().invoke(app, asked).exit_code == 2
        text = re.sub(r"\x1b\[\d+m", "", printed.getvalue()).splitlines()
        assert text[0].startswith("invalid-request: there is no store")
        assert text[1:] == lines[1:]


@pytest.mark.parametrize(("page", "package"), [("library.md", ptklib), ("client.md", ptkstore)])
def test_each_public_name_has_a_section(repository: Path, page: str, package: ModuleType) -> None:
    listed = re.findall(r"^::: [\w.]+\.(\w+)$", (repository / REFERENCE / page).read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(package.__all__)


def test_each_setting_has_a_line(repository: Path) -> None:
    page = (repository / REFERENCE / "settings.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `PTK_(\w+)` \|.*\|.*\|.*\|.*\|$", page, re.MULTILINE)
    assert sorted(name.lower() for name in named) == sorted(Settings.model_fields)


def test_each_topic_of_the_benchmarks_has_a_section_and_each_recorded_row_a_line(repository: Path) -> None:
    sections = json.loads((repository / "benchmarks/recorded.json").read_text(encoding="utf-8"))["sections"]
    topics = re.search(r"^topics := (.*)$", (repository / "Makefile").read_text(), re.MULTILINE)
    assert topics is not None
    measured = [topic for section in sections for topic in section["topics"]]
    assert sorted(measured) == sorted(topics[1].split())
    page = (repository / "docs/benchmarks.md").read_text(encoding="utf-8")
    for row in (row for section in sections for row in section["rows"]):
        assert f"\n| {row['measure']} ({row['unit']}) | " in page


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.9995, "0.9995"), (165.0, "165"), (4745.7, "4,746"), (-1.539e18, "-1.539e+18"), (0, "0")],
)
def test_numbers_of_the_benchmarks_are_rounded_and_written_in_full(value: float, text: str) -> None:
    assert number(value) == text


def test_a_machine_is_named_once_however_it_was_written() -> None:
    said = ["two cores", "2 cores, x86_64, Python 3.11.7", "two cores", "64 cores"]
    assert machines([{"machine": one} for one in said]) == ["2 cores, x86_64, Python 3.11.7", "64 cores"]


def rows_on_several_pages(pages: dict[str, str]) -> list[str]:
    """Rows of tables whose two or more decimal numbers a table of another page has in the same order."""
    where: dict[tuple[str, ...], set[str]] = {}
    for page, text in pages.items():
        for line in re.findall(r"^\|.*$", text, re.MULTILINE):
            numbers = tuple(re.findall(r"(?<![\w.,:-])\d*\.\d+(?![\w.])", line))
            where.setdefault(numbers, set()).add(page)
    return [" ".join(numbers) for numbers, found in where.items() if len(numbers) > 1 and len(found) > 1]


def test_measured_numbers_stand_in_a_table_of_one_page(repository: Path) -> None:
    paths = [path for path in (repository / "docs").rglob("*.md") if path.parent.name != "adr"]
    pages = {path.as_posix(): path.read_text(encoding="utf-8") for path in paths}
    assert rows_on_several_pages(pages) == []


def test_a_row_of_numbers_on_two_pages_is_seen() -> None:
    pages = {"a": "| pickups | 1.11 | 6.0 |\n| x | .5 | 2 |", "b": "| 1.11 | 6.0 |", "c": "1.11 | 6.0 | .5"}
    assert rows_on_several_pages(pages) == ["1.11 6.0"]


def test_text_of_the_program_is_no_markup() -> None:
    assert escaped("<home>, *all*, [x] and `a<b`") == "&lt;home>, \\*all\\*, \\[x\\] and `a<b`"
    assert prose("One\nline.\n\nAnother.\f hidden") == "One line.\n\nAnother."
    assert table(["a"], [["x|y"]]) == "| a |\n| --- |\n| x\\|y |"
