"""The import rules of pyproject.toml hold, and break when they should.

The rules are checked on a small tree with the project's room names, so that a rule which sees nothing is
found even while the project itself has no fault.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.architecture.source import REPOSITORY

Fault = tuple[str, str, str]
"""A module, its text, and the rule it breaks."""

# The smallest tree with the rooms: what each module imports.
ROOMS = {
    "ptklib/__init__.py": "",
    "ptklib/exceptions.py": "",
    "ptklib/mechanisms/__init__.py": "def draw():\n    import opendp",
    "ptklib/accounting/__init__.py": "import dp_accounting",
    "ptklib/base.py": "import sklearn\nimport ptklib.mechanisms",
    "ptklib/counts.py": "import ptklib.base",
    "ptklib/statistics.py": "import ptklib.base",
    "ptkstore/__init__.py": "def __getattr__(name):\n    from ptkstore import sdk",
    "ptkstore/errors.py": "",
    "ptkstore/domain/__init__.py": "import ptkstore.errors",
    "ptkstore/ports/__init__.py": "import ptkstore.domain",
    "ptkstore/application/__init__.py": "import ptkstore.ports\nimport ptklib.base",
    "ptkstore/adapters/__init__.py": "",
    "ptkstore/adapters/sql/__init__.py": "import sqlalchemy\nimport ptkstore.ports",
    "ptkstore/adapters/feast/__init__.py": "def load():\n    import feast",
    "ptkstore/adapters/feast/publishing.py": "",
    "ptkstore/adapters/feast/reading.py": "",
    "ptkstore/adapters/sandbox/__init__.py": "",
    "ptkstore/adapters/sandbox/parent/__init__.py": "import ptkstore.adapters.sandbox.messages",
    "ptkstore/adapters/sandbox/child.py": "import ptkstore.adapters.sandbox.messages",
    "ptkstore/adapters/sandbox/messages.py": "",
    "ptkstore/wiring.py": "import ptkstore.adapters.sql\nimport ptkstore.application",
    "ptkstore/cli/__init__.py": "import typer\nimport ptkstore.wiring",
    "ptkstore/sdk/__init__.py": "import httpx\nimport ptkstore.errors",
    "workers/__init__.py": "",
    "workers/app.py": "import celery\nimport ptkstore.wiring",
}


def lint(tree: Path) -> subprocess.CompletedProcess[str]:
    """Run the project's import rules on a tree."""
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    for name, text in ROOMS.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return tmp_path


def test_the_project_keeps_its_import_rules():
    result = lint(REPOSITORY)

    assert result.returncode == 0, result.stdout + result.stderr


def test_the_decision_record_lists_every_room_in_the_order_of_the_rules():
    rules = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    layers = {one["id"]: one.get("layers") for one in rules["tool"]["importlinter"]["contracts"]}
    record = (REPOSITORY / "docs/adr/0001-rooms-and-import-rules.md").read_text(encoding="utf-8")
    for root in ("service", "library"):
        listed = re.search(rf"^- {root}: `([^`]+)`", record, re.MULTILINE)
        assert listed is not None
        assert " ".join(listed[1].split()).split(" > ") == [
            room.replace("(", "").replace(")", "") for room in layers[root]
        ]


def test_the_decision_record_says_which_rooms_are_yet_to_come():
    rules = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    record = (REPOSITORY / "docs/adr/0001-rooms-and-import-rules.md").read_text(encoding="utf-8")
    missing = []
    for contract in rules["tool"]["importlinter"]["contracts"]:
        if contract["id"] in ("service", "library"):
            rooms = re.findall(r"\w+", " ".join(contract["layers"]))
            places = [REPOSITORY / contract["containers"][0] / room for room in rooms]
            missing += [
                p.name
                for p in places
                if not (p / "__init__.py").is_file() and not p.with_suffix(".py").is_file()
            ]
    told = re.search(r"Yet to come, with a place in the rules and no module: (.*?)\.$", record, re.MULTILINE)
    assert told is not None
    assert re.findall(r"`(\w+)`", told[1]) == missing


def test_imports_that_point_down_are_kept(tree: Path):
    result = lint(tree)

    assert result.returncode == 0, result.stdout + result.stderr


FAULTS = [
    ("ptklib/base.py", "import ptkstore.errors", "workers > ptkstore > ptklib"),
    ("ptkstore/wiring.py", "def later():\n    import workers.app", "workers > ptkstore > ptklib"),
    ("ptkstore/domain/rules.py", "import ptkstore.ports", "Rooms of the service"),
    ("ptkstore/application/use.py", "def f():\n    import ptkstore.adapters.sql", "Rooms of the service"),
    (
        "ptkstore/ports/hints.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import ptkstore.wiring",
        "Rooms of the service",
    ),
    ("ptkstore/sdk/output.py", "import ptkstore.cli", "Rooms of the service"),
    ("ptkstore/errors.py", "import ptkstore", "Rooms of the service"),
    ("ptkstore/utils.py", "", "Rooms of the service"),
    ("ptklib/trees.py", "import ptklib.counts", "PTK families are independent"),
    ("ptklib/exceptions.py", "import ptklib.base", "Rooms of the library"),
    ("ptklib/helpers.py", "", "Rooms of the library"),
    ("ptkstore/adapters/feast/versions.py", "import ptkstore.adapters.sql", "Adapter rooms"),
    (
        "ptkstore/adapters/sandbox/parent/runs.py",
        "def f():\n    import ptkstore.adapters.sandbox.child",
        "sides of the sandbox",
    ),
    (
        "ptkstore/adapters/feast/reading.py",
        "def f():\n    import ptkstore.adapters.feast.publishing",
        "Publishing and reading",
    ),
    ("ptkstore/domain/a.py", "import ptkstore.domain.b\n", "No import cycle"),
    ("ptklib/counts.py", "def noise():\n    import opendp.prelude", "OpenDP only"),
    ("ptklib/mechanisms/spend.py", "import dp_accounting.pld", "dp-accounting only"),
    ("ptkstore/application/fit.py", "import sklearn.base", "scikit-learn and SciPy only"),
    ("ptkstore/application/wake.py", "import celery", "Celery only"),
    ("workers/publish.py", "def f():\n    import feast", "Feast only"),
    ("ptkstore/adapters/feast/versions.py", "import sqlalchemy.orm", "SQL only"),
    ("ptkstore/adapters/sql/catalog.py", "import alembic.op", "Migrations only"),
    ("workers/notify.py", "import httpx", "HTTP clients only"),
    ("ptkstore/adapters/sql/seal.py", "import cryptography.fernet", "Cryptography only"),
    ("ptklib/base.py", "import fsspec", "Object stores only"),
    ("workers/queue.py", "import redis", "Redis only"),
    ("ptkstore/wiring.py", "import pydantic_settings", "pydantic-settings only"),
    ("ptkstore/cli/serve.py", "import uvicorn", "HTTP server only"),
    ("ptkstore/cli/page.py", "import jinja2", "Templates only"),
    ("ptkstore/wiring.py", "import opentelemetry.trace", "OpenTelemetry only"),
    ("workers/bars.py", "import rich.progress", "Terminal and charts only"),
    ("ptkstore/wiring.py", "import psutil", "Tools of the tests"),
    ("ptkstore/adapters/feast/versions.py", "import dill", "Nothing that runs code"),
]


def apart(faults: Iterable[Fault]) -> list[list[Fault]]:
    """Groups in which no two faults are in one module or break one rule, so that a tree can have all of a group."""
    groups: list[list[Fault]] = []
    for fault in faults:
        free = (g for g in groups if all(o[0] != fault[0] and o[2] != fault[2] for o in g))
        group = next(free, None)
        if group is None:
            groups.append([fault])
        else:
            group.append(fault)
    return groups


def told_of_rules(output: str) -> dict[str, str]:
    """What is told of each broken rule, by its name."""
    _, _, told = output.partition("Broken contracts\n")
    parts = re.split(r"^(.+)\n-+\n", told, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("faults", apart(FAULTS), ids=len)
def test_an_import_that_points_elsewhere_breaks_its_rule(tree: Path, faults: list[Fault]):
    for module, text, broken in faults:
        if "cycle" in broken:
            (tree / "ptkstore/domain/b.py").write_text("def back():\n    import ptkstore.domain.a\n")
        (tree / module).write_text(text + "\n")

    result = lint(tree)

    assert result.returncode == 1, result.stdout + result.stderr
    told = told_of_rules(result.stdout)
    for module, _, broken in faults:
        name = module.removesuffix(".py").replace("/", ".")
        assert [rule for rule, why in told.items() if broken in rule and names(why, name)], (
            name,
            result.stdout,
        )


def names(told: str, module: str) -> bool:
    """Whether a module is named, by its whole name or, in a cycle, below the package of the cycle."""
    package, _, last = module.rpartition(".")
    whole = rf"(?<![\w.]){re.escape(module)}\b"
    below = rf"\b{re.escape(package)}\b[\s\S]*(?<!\w)\.{last}\b"
    return re.search(rf"{whole}|{below}", told) is not None
