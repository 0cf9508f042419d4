"""Names complete in a shell: through the protocol of bash and zsh, and in a real bash."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from ptkstore.adapters.sql.names import names_on_server
from ptkstore.cli import completion
from ptkstore.cli.commands import COMMANDS
from ptkstore.cli.lazily import load
from tests.support.world import World

PTK = str(Path(sys.executable).with_name("ptk"))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two streams, two PTKs, one of them gone, two versions, a subscription, teams."""
    world = World(tmp_path_factory.mktemp("store") / "home")
    world.stream()
    world.stream("bikes")
    world.register()
    world.register("gone")
    for day in range(2):
        world.publish(day)
    world.service.deregister_ptk("taxi.gone")
    world.service.close()
    return world.service.settings.root


def complete(line: str, home: Path, shell: str = "bash", **more: str) -> list[str]:
    """What a shell gets; the line ends with what is being typed."""
    words = line.split(" ")
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    if shell == "zsh":
        asked = {"_TYPER_COMPLETE_ARGS": line}
    env = {k: v for k, v in os.environ.items() if not k.startswith("PTK_")}
    env |= {"PTK_HOME": str(home), "_PTK_COMPLETE": f"complete_{shell}", **asked, **more}
    done = subprocess.run([PTK], env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""
    return done.stdout.split() if shell == "bash" else [done.stdout]


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("ptk show ", ["taxi.speed"]),
        ("ptk show taxi.s", ["taxi.speed"]),
        ("ptk show bikes", []),
        ("ptk budget ", ["bikes", "taxi"]),
        ("ptk diff taxi.speed ", ["v2", "v1"]),
        ("ptk diff taxi.speed v1 v", ["v2", "v1"]),
        ("ptk stream show b", ["bikes"]),
        ("ptk ledger verify --stream t", ["taxi"]),
        ("ptk rollback taxi.speed --to ", ["v2", "v1"]),
        ("ptk sho", ["show"]),
        ("ptk show --j", ["--json"]),
    ],
)
def test_names_are_completed(home: Path, line: str, found: list[str]) -> None:
    assert complete(line, home) == found


def test_zsh_gets_the_same_names(home: Path) -> None:
    (told,) = complete("ptk show taxi", home, "zsh")
    assert '"taxi.speed"' in told
    assert "gone" not in told


def test_the_home_of_the_line_is_asked(home: Path, tmp_path: Path) -> None:
    assert complete(f"ptk show --home {home} ", tmp_path / "other") == ["taxi.speed"]


@pytest.mark.parametrize("kind", ["nothing", "no catalog", "empty", "url", "server"])
def test_where_no_catalog_answers_nothing_is_said(tmp_path: Path, home: Path, kind: str) -> None:
    where, more = tmp_path / "home", {}
    if kind in ("no catalog", "empty"):
        where.mkdir()
        (where / "catalog.db").write_bytes(
            b"no catalog at all, and long enough" if kind == "no catalog" else b""
        )
    elif kind == "url":
        where, more = home, {"PTK_URL": "http://127.0.0.1:9"}
    elif kind == "server":
        more = {"PTK_DATABASE_URL": "postgresql://ptk:secret@127.0.0.1:9/none"}
    assert complete("ptk show ", where, **more) == []
    if kind == "nothing":
        assert not where.exists()


def test_a_writer_that_holds_the_catalog_holds_up_no_shell(home: Path) -> None:
    with sqlite3.connect(home / "catalog.db", isolation_level=None) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert complete("ptk show ", home) == ["taxi.speed"]
        writer.execute("ROLLBACK")


@pytest.mark.real
def test_names_of_a_catalog_on_a_server(tmp_path: Path, fresh_postgres_url: str) -> None:
    world = World(tmp_path / "home", database_url=fresh_postgres_url)
    world.stream()
    world.register()
    assert names_on_server(fresh_postgres_url, "ptk") == ["taxi.speed"]
    assert names_on_server(fresh_postgres_url.replace("+psycopg", ""), "stream") == ["taxi"]
    assert names_on_server(fresh_postgres_url, "version", "taxi.speed") == []
    world.service.close()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_a_real_bash_completes_by_the_script_that_it_is_given(home: Path) -> None:
    script = """
        eval "$(_PTK_COMPLETE=source_bash ptk)"
        complete -p ptk
        COMP_WORDS=(ptk budget b) COMP_CWORD=2
        _ptk_completion ptk
        echo "found: ${COMPREPLY[*]}"
    """
    env = {**os.environ, "PTK_HOME": str(home), "PATH": f"{Path(PTK).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stderr == ""
    assert "-F _ptk_completion ptk" in done.stdout
    assert done.stdout.splitlines()[-1] == "found: bikes"


def test_every_command_that_is_completed_takes_what_is_completed() -> None:
    """A command that takes another argument first would be completed with wrong names."""
    known = {name for entries in COMMANDS.values() for name in entries}
    names = {
        "ptk": {"ptk_id", "features", "name"},
        "version": {"one", "other"},
        "subscription": {"subscription_id"},
        "stream": {"stream", "name"},
        "team": {"team"},
        "token": {"token_id"},
    }
    for path, kinds in completion.ARGUMENTS.items():
        first, _, inner = path.partition(" ")
        assert first in known
        command = load(first)
        command = command.commands[inner] if inner else command  # type: ignore[attr-defined]
        taken = [str(one.name) for one in command.params if one.param_type_name == "argument"]
        for kind, name in zip(kinds, taken, strict=False):
            assert name in names[kind], path
        assert len(taken) >= len(kinds), path
