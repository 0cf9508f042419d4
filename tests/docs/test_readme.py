"""What the README and the pages that it leads to show runs as it is written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ptkstore.cli.main import app
from tests.support.pages import anchors


@pytest.fixture(scope="module")
def readme(repository: Path) -> str:
    return (repository / "README.md").read_text()


def printed_by(example: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_the_python_example_prints_what_it_promises_and_the_same_when_run_again(
    readme: str, tmp_path: Path
) -> None:
    marked = readme[readme.index("<!-- example: tested as it stands -->") :]
    example, shown = re.findall(r"```(?:python)?\n(.*?)```", marked, re.DOTALL)[:2]
    first, again = (printed_by(example, tmp_path) for _ in range(2))
    assert again == first
    words = [re.sub(r"\d+\.\d{3,}", "NOISY", text).split() for text in (first, shown)]
    assert words[0] == words[1]
    printed = re.search(r"^\[\{'mph_mean': (\S+)\}\] (\S+)$", first, re.MULTILINE)
    assert printed is not None, first
    mean, epsilon = map(float, printed.groups())
    assert epsilon == 0.5
    assert 9.0 < mean < 15.0  # 12 mph in truth; the noise of 800 rows at epsilon 0.5 is far below 3 mph


@pytest.mark.long
def test_the_example_of_the_library_prints_the_loss_and_a_table(readme: str, tmp_path: Path) -> None:
    marked = readme[readme.index("<!-- example of the library: tested as it stands -->") :]
    example, shown = re.findall(r"```(?:python)?\n(.*?)```", marked, re.DOTALL)[:2]
    printed = printed_by(example, tmp_path).splitlines()
    assert [line.split()[:2] for line in printed[:2]] == [line.split()[:2] for line in shown.splitlines()[:2]]
    assert len(printed) == len(shown.splitlines())


def test_every_command_of_the_quickstart_exists_with_the_options_it_shows(repository: Path) -> None:
    page = (repository / "docs/guide/quickstart.md").read_text()
    commands = re.findall(r"^(?:\.venv/bin/)?ptk (.+?)(?:\s+#.*)?$", page.replace("\\\n", " "), re.MULTILINE)
    assert len(commands) >= 8
    for command in commands:
        words = command.replace(" &", "").split()
        named = [w for w in words if not w.startswith("-")]
        depth = 2 if named[0] in ("stream", "ledger", "team", "token", "grant", "catalog") else 1
        shown = CliRunner().invoke(app, [*named[:depth], "--help"], env={"COLUMNS": "200"})
        assert shown.exit_code == 0, command
        for option in (w for w in words if w.startswith("--")):
            assert option in shown.output, f"{command}: {option}"


def leads_nowhere(page: Path, link: str) -> bool:
    file, _, anchor = link.partition("#")
    target = page.parent / file if file else page
    return not target.exists() or (
        target.suffix == ".md" and anchor != "" and anchor not in anchors(target.read_text())
    )


def test_every_file_and_heading_the_docs_link_to_is_there(repository: Path) -> None:
    tops = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "ptklib/README.md")
    pages = [*(repository / top for top in tops), *sorted((repository / "docs").rglob("*.md"))]
    links = [
        (page, link)
        for page in pages
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text())
        if "://" not in link
    ]
    assert any("#" in link for _, link in links)
    assert [f"{page.name}: {link}" for page, link in links if leads_nowhere(page, link)] == []


@pytest.mark.parametrize(
    ("link", "nowhere"),
    [
        ("b.md", False),
        ("c.md", True),
        ("b.md#what-ptk-is-not", False),
        ("b.md#other", True),
        ("#here", False),
        ("#there", True),
    ],
)
def test_links_that_lead_nowhere_are_seen(tmp_path: Path, link: str, nowhere: bool) -> None:
    (tmp_path / "a.md").write_text("# Here\n")
    (tmp_path / "b.md").write_text("## What `ptk` is (not)\n")
    assert leads_nowhere(tmp_path / "a.md", link) is nowhere
