"""The page of codes has each code that the program gives to a job, a notice or a dead letter, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from infra.docs.reference import codes
from ptkstore import errors
from ptkstore.adapters.sandbox.messages import codes as sandbox
from ptkstore.domain.codes import GROUPS
from ptkstore.domain.jobs import Outcome
from ptkstore.domain.notices import CODES_PAGE, code_page
from ptkstore.domain.ptks.accept_deadlines import GivenUp
from tests.support.pages import anchors

TAKES = {
    "Notice": 2,
    "of_run": 1,
    "notify_owners": 2,
    "_notify_owners": 2,
    "notify_trainers": 2,
    "notify_of_profile": 1,
    "NotDelivered": 0,
    "RunFailed": 0,
    "Ended": 1,
}
"""Where each of these calls has its code."""


Names = dict[str, str]


def constants(tree: ast.Module) -> Names:
    """The texts that a module gives to names."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and isinstance(node.value.value, str):
                found[target.id] = node.value.value
    return found


def program(root: Path) -> dict[str, ast.Module]:
    """Each module by its name."""
    paths = [path for folder in ("ptkstore", "workers") for path in (root / folder).rglob("*.py")]
    paths.remove(root / "ptkstore/domain/codes.py")  # has the sentences, and gives no code
    return {
        ".".join(path.relative_to(root).with_suffix("").parts): ast.parse(path.read_text(encoding="utf-8"))
        for path in paths
    }


def known_to(tree: ast.Module, of_modules: dict[str, Names]) -> Names:
    """The texts that names of a module stand for, imported ones too."""
    imported = {
        alias.asname or alias.name: of_modules[node.module][alias.name]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in of_modules
        for alias in node.names
        if alias.name in of_modules[node.module]
    }
    return imported | constants(tree)


def said(given: ast.expr, named: Names) -> Iterator[str]:
    """The codes that an expression may be, as far as it shows them."""
    match given:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Name(id=name) if name in named:
            yield named[name]
        case ast.Attribute(value=ast.Name(id=kind), attr="code") if hasattr(errors, kind):
            yield getattr(errors, kind).code
        case ast.IfExp(body=one, orelse=other):
            yield from said(one, named)
            yield from said(other, named)


def given(root: Path) -> set[str]:
    """The codes that calls of the program give, and those of profiles that functions return."""
    trees = program(root)
    of_modules = {name: constants(tree) for name, tree in trees.items()}
    found: set[str] = set()
    for tree in trees.values():
        named = known_to(tree, of_modules)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = str(getattr(node.func, "attr", getattr(node.func, "id", "")))
                place = TAKES.get(name, len(node.args))
                for one in node.args[place : place + 1]:
                    found.update(said(one, named))
            elif isinstance(node, ast.Return) and node.value is not None:
                found.update(code for code in said(node.value, named) if code.startswith("profile"))
    return found


def written() -> set[str]:
    return {code for group in GROUPS.values() for code in group}


def test_each_code_that_a_call_gives_has_a_section(repository: Path) -> None:
    found = given(repository)
    assert {
        "budget-denied",
        "dead-letter",
        "ptk-rejected",
        "threshold-gone",
        "profile-set-too-small",
    } <= found
    assert len(found) > 40
    assert found - written() == set()


def test_each_outcome_each_end_of_a_process_and_each_verdict_has_a_section() -> None:
    of_processes = {one for name, one in vars(sandbox).items() if name.isupper()}
    assert len(of_processes) > 8
    given_up = {f"validation-{why}" for why in GivenUp}
    assert {*Outcome, *of_processes, *given_up, "validation-retry"} - written() == set()


def test_there_is_no_section_about_a_code_that_the_program_has_not(repository: Path) -> None:
    texts = {
        node.value
        for tree in program(repository).values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
    }
    composed = {f"validation-{why}" for why in (*GivenUp, "retry")}
    assert written() - composed - texts == set()


def test_each_code_has_one_section_and_its_address_leads_there(repository: Path) -> None:
    found = anchors((repository / CODES_PAGE).read_text(encoding="utf-8"))
    assert len(written()) == sum(map(len, GROUPS.values()))
    for code in written():
        page, _, anchor = code_page(code).partition("#")
        assert page == CODES_PAGE
        assert anchor in found, code


def test_no_other_page_has_a_list_of_codes(repository: Path) -> None:
    apart = {"timeout", "confidence-used-up"}  # a setting and a state of validations have these names, too
    found = [
        (page.name, code)
        for page in sorted((repository / "docs").rglob("*.md"))
        for code in re.findall(r"^\| `([a-z0-9-]+)`", page.read_text(encoding="utf-8"), re.MULTILINE)
        if code in written() - apart
    ]
    assert found == []


def test_commands_that_the_page_names_are_there(repository: Path) -> None:
    there = set(
        re.findall(r"^### (ptk .+)$", (repository / "docs/reference/commands.md").read_text(), re.MULTILINE)
    )
    named = {one.strip() for one in re.findall(r"`(ptk [a-z -]+[a-z])", codes.page())}
    assert len(named) > 6
    assert named - there == set()
