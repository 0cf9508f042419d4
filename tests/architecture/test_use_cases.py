"""Use cases never call each other: what two of them share is a rule, or a module that a noun names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.architecture.source import REPOSITORY

APPLICATION = REPOSITORY / "ptkstore/application"
VERBS = {
    "allocate", "answer", "authorize", "average", "claim", "close", "collect", "compare", "create", "deliver", "detect",
    "diff", "evaluate", "evolve", "exchange", "expire", "export", "forget", "grant", "ingest", "issue",
    "materialize", "place", "prepare", "profile", "read", "recommend", "record", "recover", "redeliver",
    "register", "resume", "revoke", "rollback", "rotate", "schedule", "send", "simulate", "subscribe", "trace", "train",
    "upgrade", "validate",
}  # fmt: skip
_DOTTED = re.compile(r"(?:ptkstore\.)?application\.(\w+\.\w+)")
RULES = {"profile_plans", "profile_requests", "profile_runs"}
"""Modules that begin with a word which is a verb elsewhere."""


def is_use_case(name: str) -> bool:
    return name.split("_")[0] in VERBS and name not in RULES


def imported_by(path: Path) -> set[str]:
    """The modules of `application` that a module imports, those inside functions included, as `folder.module`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ptkstore.application"):
            parts = str(node.module).split(".")[2:]
            found.update(".".join([*parts, name.name][:2]) for name in node.names)
        if isinstance(node, ast.Attribute) and (dotted := _DOTTED.match(ast.unparse(node))):
            found.add(dotted[1])
    return found


def modules() -> dict[str, Path]:
    return {
        f"{path.parent.name}.{path.stem}": path
        for path in APPLICATION.glob("*/*.py")
        if path.stem != "__init__"
    }


def test_no_use_case_imports_another() -> None:
    calls = {
        (name, other)
        for name, path in modules().items()
        for other in imported_by(path)
        if is_use_case(other.split(".")[-1])
    }
    assert calls == set()


def test_what_works_on_jobs_is_a_use_case() -> None:
    """The names tell: a job's module that no verb of the list names would escape the rule above."""
    work = imported_by(REPOSITORY / "ptkstore/wiring/work.py")
    jobs = {name.split(".")[1] for name in work if name in modules()} - {
        "checkpoints",
        "commit_retry",
        "device_models",
        "team_code_source",
        "paid_run",
        "release_ticks",
    }
    assert len(jobs) > 8
    assert {name for name in jobs if not is_use_case(name)} == set()


def test_use_cases_are_in_folders_that_are_read_at_a_glance() -> None:
    folders = [path for path in APPLICATION.iterdir() if path.is_dir() and path.name != "__pycache__"]
    assert {path.name for path in APPLICATION.glob("*.py")} == {"__init__.py"}
    assert {path.name for path in folders if len(list(path.glob("*.py"))) > 15} == set()
