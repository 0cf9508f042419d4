"""What the README shows runs as it is written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ptkstore.cli.main import app


@pytest.fixture(scope="module")
def readme(repository: Path) -> str:
    return (repository / "README.md").read_text()


def test_the_python_example_prints_what_it_promises(readme: str, tmp_path: Path) -> None:
    marked = readme[readme.index("<!-- example: tested as it stands -->") :]
    match = re.search(r"```python\n(.*?)```", marked, re.DOTALL)
    assert match is not None
    done = subprocess.run(
        [sys.executable, "-c", match[1]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = re.search(r"^\[\{'mph_mean': (\S+)\}\] (\S+)$", done.stdout, re.MULTILINE)
    assert printed is not None, done.stdout
    mean, epsilon = map(float, printed.groups())
    assert epsilon == 0.5
    assert 9.0 < mean < 15.0  # 12 mph in truth; the noise of 800 rows at epsilon 0.5 is far below 3 mph
    assert "taxi__speed_by_hour__mph_mean" in done.stdout


def test_every_command_of_the_readme_exists_with_the_options_it_shows(readme: str) -> None:
    commands = re.findall(
        r"^(?:\.venv/bin/)?ptk (.+?)(?:\s+#.*)?$", readme.replace("\\\n", " "), re.MULTILINE
    )
    assert len(commands) >= 8
    for command in commands:
        words = command.replace(" &", "").split()
        named = [w for w in words if not w.startswith("-")]
        depth = 2 if named[0] in ("stream", "ledger", "team", "token", "grant", "catalog") else 1
        shown = CliRunner().invoke(app, [*named[:depth], "--help"], env={"COLUMNS": "200"})
        assert shown.exit_code == 0, command
        for option in (w for w in words if w.startswith("--")):
            assert option in shown.output, f"{command}: {option}"


def test_every_file_the_docs_link_to_is_there(repository: Path) -> None:
    pages = [repository / "README.md", *sorted((repository / "docs").rglob("*.md"))]
    links = [
        (page, link)
        for page in pages
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text())
        if "://" not in link
    ]
    assert links
    assert [f"{page.name}: {link}" for page, link in links if not (page.parent / link).exists()] == []
