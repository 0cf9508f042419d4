"""What `ptk --help` and a command that only reads load: imports are most of what either costs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from pkgutil import walk_packages

import pytest

from ptkstore import application
from tests.support.world import World

READS = (
    ("list",),
    ("versions", "taxi.speed"),
    ("stream", "list"),
    ("notices",),
)
"""Not `show`, which reads how a PTK is planned, and not `stream show`, which looks for keys and files."""
# A catalog is read by SQLAlchemy, settings and arguments by pydantic, tables are drawn by Rich.
HELP_NEEDS = {"typer"}
A_READ_NEEDS = HELP_NEEDS | {
    "orjson",
    "pydantic",
    "pydantic_settings",
    "rich",
    "sqlalchemy",
}
A_BUDGET_NEEDS = A_READ_NEEDS | {"numpy"}  # which adds up the blocks of a stream
A_SHOW_NEEDS = A_BUDGET_NEEDS | {"pyarrow"}
FOLDERS = {
    module.name for module in walk_packages(application.__path__, "ptkstore.application.") if module.ispkg
}
READING_USE_CASES = {
    "essential_thread",
    "read_deliveries",
    "exposure",
    "read_notices",
    "known_teams",
    "read_trainings",
}
NOT_NEEDED = (
    "alembic",
    "celery",
    "click",
    "cryptography",
    "dp_accounting",
    "fastapi",
    "feast",
    "fsspec",
    "httpx",
    "numpy",
    "opendp",
    "orjson",
    "pandas",
    "psycopg",
    "pyarrow",
    "pydantic",
    "pydantic_settings",
    "redis",
    "rich",
    "s3fs",
    "scipy",
    "sklearn",
    "sqlalchemy",
    "structlog",
    "typer",
)
"""What the product loads somewhere; a command may load those that it needs."""

RUN = """
import json, sys
from ptkstore.cli.main import app
for words in json.loads(sys.argv[1]):
    app(words, standalone_mode=False)
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""

WORKER = """
import json, sys, workers.process
print(json.dumps(sorted(sys.modules)))
"""
SERVER = """
import json, os, sys
from ptkstore.api import server
from ptkstore.settings import load_settings
from ptkstore.wiring import Service

def run(*_):
    print(json.dumps(sorted(sys.modules)), flush=True)
    os._exit(0)

server.Server.run = run
server.serve(Service(load_settings(sys.argv[1])), [], beside=lambda _: None)
"""


def loaded(*commands: tuple[str, ...]) -> set[str]:
    """The modules of a new process that ran these commands."""
    command = [sys.executable, "-c", RUN, json.dumps(commands)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stderr
    return set(json.loads(ended.stderr.splitlines()[-1]))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> str:
    home = tmp_path_factory.mktemp("reads") / "home"
    made = World(home)
    made.stream()
    made.register()
    made.publish(0)
    return str(home)


def test_help_loads_no_command() -> None:
    modules = loaded(("--help",))
    assert sorted(set(NOT_NEEDED) & modules - HELP_NEEDS) == []
    assert {name for name in modules if name.startswith("ptkstore.cli.")} == {
        "ptkstore.cli.commands",
        "ptkstore.cli.lacking",
        "ptkstore.cli.lazily",
        "ptkstore.cli.main",
    }
    rooms = (
        "ptklib",
        "ptkstore.domain",
        "ptkstore.ports",
        "ptkstore.application",
        "ptkstore.wiring",
        "ptkstore.sdk.",
    )
    assert [name for name in modules if name.startswith(rooms)] == []


def test_a_read_loads_what_it_needs(home: str) -> None:
    modules = loaded(*((*words, "--home", home) for words in READS))
    assert sorted(set(NOT_NEEDED) & modules - A_READ_NEEDS) == []
    assert "sqlalchemy.dialects.postgresql" not in modules  # this catalog is a file
    assert use_cases(modules) == READING_USE_CASES


def test_a_budget_is_added_up_without_what_trains(home: str) -> None:
    modules = loaded(("budget", "taxi", "--home", home))
    assert sorted(set(NOT_NEEDED) & modules - A_BUDGET_NEEDS) == []
    assert use_cases(modules) <= READING_USE_CASES | {
        "snapshot",
        "budgets",
        "charging",
        "loss_parts",
        "odometers",
        "verification",
    }


def test_a_ptk_with_the_epsilon_it_declares_is_shown_without_its_estimator(home: str) -> None:
    """Of one with `epsilons` the menu follows from its family's formula, which is a method of the estimator."""
    modules = loaded(("show", "taxi.speed", "--home", home))
    assert sorted(set(NOT_NEEDED) & modules - A_SHOW_NEEDS) == []


@pytest.mark.parametrize("program", [WORKER, SERVER])
def test_a_service_has_every_use_case_before_it_forks_or_answers(program: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", program, str(tmp_path / "home")]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    names = {module.name for module in walk_packages(application.__path__, "ptkstore.application.")}
    assert use_cases(set(json.loads(ended.stdout))) == use_cases(names)


def test_a_use_case_that_is_not_there_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'train_everything'"):
        getattr(application, "train_everything")  # noqa: B009 - mypy knows that there is none


def use_cases(modules: set[str]) -> set[str]:
    """The modules of the use cases among these."""
    names = [name.split(".") for name in modules if name.startswith("ptkstore.application.")]
    return {parts[-1] for parts in names if ".".join(parts) not in FOLDERS}
