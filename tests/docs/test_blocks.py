"""Each block of Python or of commands on a page is run by a test, or a list says why not and its calls are checked."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

import ptkstore
from ptkstore.cli.commands import COMMANDS
from ptkstore.cli.lazily import load
from tests.architecture.source import REPOSITORY

PAGES = sorted(
    path.relative_to(REPOSITORY / "docs").as_posix()
    for folder in ("concepts", "guide", "tutorials")
    for path in (REPOSITORY / "docs" / folder).glob("*.md")
)
RUN = {
    "concepts/allocation.md": ("test_concept_pages", "python 0"),
    "concepts/block.md": ("test_concept_pages", "python 0"),
    "concepts/budget.md": ("test_concept_pages", "python 0"),
    "concepts/guarantee.md": ("test_concept_pages", "python 0"),
    "concepts/not-protected.md": ("test_concept_pages", "python 0"),
    "concepts/ptk.md": ("test_concept_pages", "python 0"),
    "concepts/window.md": ("test_concept_pages", "python 0"),
    "guide/backup.md": ("test_backup_guide", "bash 0 1 2 3 4 5"),
    "guide/checks.md": ("test_library_guides", "python 0"),
    "guide/clustering.md": ("test_library_guides", "python 0"),
    "guide/counts.md": ("test_library_guides", "python 0"),
    "guide/covariance.md": ("test_library_guides", "python 0"),
    "guide/device-streams.md": ("test_device_guide", "bash 0 1 2 3, python 0"),
    "guide/draw_discard.md": ("test_library_guides", "python 0"),
    "guide/embeddings.md": ("test_library_guides", "python 0"),
    "guide/evaluations.md": ("test_blocks", "python 0"),
    "guide/feast.md": ("test_feast_guide", "python 3 5"),
    "guide/featurizing.md": ("test_subscription_guides", "python 0"),
    "guide/linear.md": ("test_library_guides", "python 0"),
    "guide/profiling.md": ("test_library_guides", "python 1 2 3 4"),
    "guide/ptks.md": ("test_blocks", "python 0"),
    "guide/scheduling.md": ("test_validation_guides", "bash 0"),
    "guide/sgd.md": ("test_library_guides", "python 0"),
    "guide/simulating.md": ("test_simulating_guide", "python 0"),
    "guide/statistics.md": ("test_library_guides", "python 0"),
    "guide/streams.md": ("test_blocks", "python 0"),
    "guide/subscriptions.md": ("test_subscription_guides", "python 0 1 2"),
    "guide/team-code.md": ("test_team_code_guide", "bash 0"),
    "guide/trees.md": ("test_library_guides", "python 0"),
    "guide/validated-versions.md": ("test_validation_guides", "bash 0"),
    "guide/validation.md": ("test_library_guides", "python 0 1 2 3 4 5 6"),
    "tutorials/administrator.md": ("test_tutorials", "bash 0 1 2 3 4 5 6 7"),
    "tutorials/consumer.md": ("test_tutorials", "bash 0 1 2 3 4 5 6 7 8"),
    "tutorials/data-scientist.md": ("test_tutorials", "bash 0 1 2 3 4"),
    "tutorials/officer.md": ("test_tutorials", "bash 0 1 2 3 4 5 6"),
    "tutorials/team-developer.md": ("test_tutorials", "bash 0 1 2 3 4 5 6 7"),
}
"""By page: the test that runs its blocks, and which of them, counted by kind."""

PART, SERVER = (
    "a part of what the page runs elsewhere, with `...`",
    "it asks a server that is not the reader's",
)
NOT_RUN = {
    "guide/checks.md python 1": "the estimator of the block before would be checked in full, for minutes",
    "guide/console-actions.md bash 0": "it opens a browser",
    "guide/console.md bash 0": "its server does not end",
    "guide/consume.md python 0": SERVER,
    "guide/consume.md bash 0": SERVER,
    "guide/consume.md python 1": SERVER,
    "guide/consume.md bash 1": SERVER,
    "guide/device-streams.md python 1": PART,
    "guide/device-streams.md python 2": PART,
    "guide/draw_discard.md python 1": "20,000 devices take the time of all other blocks together",
    "guide/feast.md python 0": SERVER,
    "guide/feast.md python 1": SERVER,
    "guide/feast.md python 2": SERVER,
    "guide/feast.md python 4": SERVER,
    "guide/privacy-units.md python 0": PART,
    "guide/privacy-units.md python 1": PART,
    "guide/profiling.md python 0": PART,
    "guide/quickstart-http.md python 0": SERVER,
    "guide/quickstart-http.md bash 0": SERVER,
    "guide/quickstart-http.md bash 1": SERVER,
    "guide/quickstart.md python 0": PART,
    "guide/streams.md bash 0": "its stream is the reader's",
    "guide/team-code.md python 0": "it is a file of a repository that `ptk init` makes",
    "guide/team-code.md python 1": PART,
    "guide/team-code.md python 2": PART,
    "guide/team-code.md python 3": PART,
    "guide/team-code.md python 4": PART,
    "guide/team-code.md python 5": PART,
    "guide/validated-versions.md python 0": PART,
    "guide/validated-versions.md python 1": PART,
    "guide/validated-versions.md python 2": PART,
}
"""Blocks that no test runs, with the reason; calls, commands and options in them are compared with the program."""


def blocks(page: str, kind: str) -> list[str]:
    """The blocks of a page of one kind."""
    text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
    found = re.findall(rf"^( *)```{kind}[^\n]*\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    return [re.sub(f"^{indent}", "", code, flags=re.MULTILINE) for indent, code in found]


def listed(page: str) -> list[str]:
    """The blocks of a page that a test runs."""
    kinds = (part.split() for part in RUN[page][1].split(", ")) if page in RUN else ()
    return [f"{page} {kind} {number}" for kind, *numbers in kinds for number in numbers]


def test_each_block_is_run_by_a_test_or_has_a_reason() -> None:
    there = {
        f"{page} {kind} {number}"
        for page in PAGES
        for kind in ("python", "bash")
        for number in range(len(blocks(page, kind)))
    }
    run = [block for page in RUN for block in listed(page)]
    assert len(run) > 2 * len(NOT_RUN)
    assert sorted([*run, *NOT_RUN]) == sorted(there)
    for page, (test, _) in RUN.items():
        text = (REPOSITORY / f"tests/docs/{test}.py").read_text(encoding="utf-8")
        assert re.search(rf"\b{page.partition('/')[2].removesuffix('.md')}\b", text), page


def test_a_ptk_of_a_guide_can_be_made() -> None:
    shown: dict[str, Any] = {}
    exec(blocks("guide/ptks.md", "python")[0], shown)  # noqa: S102
    assert shown["speed_by_hour"].name == "speed_by_hour"


def test_the_streams_and_ptks_of_guides_are_made(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for page, columns in (("streams", None), ("evaluations", {"hour": "int64", "speed": "float64"})):
        monkeypatch.setenv("PTK_HOME", str(tmp_path / page))
        if columns:
            with ptkstore.connect() as store:
                store.create_stream(
                    "rides", team="taxi", schema={"at": "timestamp"} | columns, time_column="at", epsilon=1.0
                )
        shown: dict[str, Any] = {}
        exec(blocks(f"guide/{page}.md", "python")[0], shown)  # noqa: S102
        with shown["store"] as store:
            assert [one["name"] for one in store.streams()] == ["rides"]
            assert [one["name"] for one in store.ptks()] == (["speed"] if columns else [])


def unknown_arguments(program: str) -> Iterator[str]:
    """Calls of imported names of ours with an argument that they do not have."""
    known: dict[str, Any] = {}
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] in ("ptklib", "ptkstore"):
            module = import_module(str(node.module))
            known |= {alias.asname or alias.name: getattr(module, alias.name, None) for alias in node.names}
    for node in ast.walk(ast.parse(program)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and callable(known.get(node.func.id))
        ):
            parameters = inspect.signature(known[node.func.id]).parameters
            if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
                continue
            names = {one.arg for one in node.keywords if one.arg is not None}
            yield from (f"{node.func.id}({name})" for name in sorted(names - set(parameters)))


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")])
def test_what_a_page_calls_takes_the_arguments_that_it_shows(page: str) -> None:
    assert list(unknown_arguments("\n".join(blocks(page, "python")))) == []


def commands(text: str) -> list[list[str]]:
    """The words of each call of `ptk` in a block."""
    text = re.sub(r"<<-? *'?(\w+)'?\n.*?^\1$", "", text.replace("\\\n", " "), flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"(?:^|[;&|(] *|\$ )(?:\S*bin/)?ptk +([^\n;&|)>]*)", text, re.MULTILINE)
    return [shlex.split(one, comments=True) for one in found]


def unknown_options(words: list[str]) -> str:
    """What the program does not know of a call, and nothing if it knows all."""
    below: dict[str, Any] | None = {name: None for entries in COMMANDS.values() for name in entries}
    command, rest = None, list(words)
    while below is not None and rest and not rest[0].startswith("-"):
        if rest[0] not in below:
            return f"no command {rest[0]}"
        command = below[rest[0]] if command else load(rest[0])
        below, rest = getattr(command, "commands", None), rest[1:]
    options = {name for one in getattr(command, "params", ()) for name in (*one.opts, *one.secondary_opts)}
    said = (word.partition("=")[0] for word in rest if word.startswith("--"))
    return " ".join(option for option in said if option not in options | {"--help"})


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "bash")])
def test_each_command_that_a_page_shows_exists_with_its_options(page: str) -> None:
    found = [words for block in blocks(page, "bash") for words in commands(block)]
    assert found or page == "tutorials/data-scientist.md"  # of the library alone
    assert [(words, wrong) for words in found if (wrong := unknown_options(words))] == []


def test_what_no_program_takes_is_seen() -> None:
    wrong = "from ptklib import HistoricalStatistics\nHistoricalStatistics(['a'], ..., keyz=1, epsilon=1)"
    assert list(unknown_arguments(wrong)) == ["HistoricalStatistics(keyz)"]
    shown = "cd x && ptk list --tags a   # comment\n.venv/bin/ptk stream shown b\nptk stream show \\\n  b --json\n"
    assert [unknown_options(words) for words in commands(shown)] == ["--tags", "no command shown", ""]
