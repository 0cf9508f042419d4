"""The commands of the backup guide, run as they stand, on real databases: what they promise holds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ptkstore.domain.streams.blocks import BlockState
from tests.faults import scenario
from tests.faults.rig import Rig, rig
from tests.services.postgres import Postgres, _binaries

pytestmark = [pytest.mark.real, pytest.mark.long]


@pytest.fixture(scope="module")
def guide(repository: Path) -> dict[str, str]:
    """The commands by what they are for."""
    text = (repository / "docs" / "guide" / "backup.md").read_text()
    found = dict(re.findall(r"<!-- tested: ([a-z ]+) -->\n```bash\n(.*?)```", text, re.DOTALL))
    assert set(found) == {
        f"{vendor} {act}" for vendor in ("sqlite", "postgresql") for act in ("backup", "check", "restore")
    }
    return found


@contextmanager
def store(home: Path, url: str | None) -> Iterator[Rig]:
    with rig(home, database_url=url) as made:
        yield made


def run(commands: str, home: Path, backup: Path, url: str | None, programs: Path | None, **more: str) -> str:
    """In a shell that stops at the first command that fails."""
    places = [str(Path(sys.executable).parent), *([str(programs)] if programs else []), os.environ["PATH"]]
    env = {
        "PATH": ":".join(places),
        "PTK_HOME": str(home),
        "BACKUP": str(backup),
        "HOME": str(backup),
        **more,
    }
    if url is not None:
        env["PTK_DATABASE_URL"] = url.replace("postgresql+psycopg:", "postgresql:")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def publish(chain: Rig, window: int) -> None:
    chain.close(window)
    chain.work(chain.service())


def programs_of(postgres: Postgres) -> Path:
    return _binaries(postgres.directory, None)


@pytest.mark.parametrize("vendor", ["sqlite", "postgresql"])
def test_a_store_goes_on_from_a_backup_without_what_it_may_have_forgotten(
    vendor: str, guide: dict[str, str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    home, backup = tmp_path / "home", tmp_path / "backup"
    backup.mkdir()
    url, programs = None, None
    if vendor == "postgresql":
        url = request.getfixturevalue("fresh_postgres_url")
        programs = programs_of(request.getfixturevalue("postgres"))
    with store(home, url) as chain:
        scenario.create_stream(chain.store)
        scenario.register(chain.store, [scenario.LONG])
        publish(chain, 0)
        run(guide[f"{vendor} backup"], home, backup, url, programs)
        publish(chain, 1)  # spent, published, and forgotten by the copy
    assert not [path for path in backup.rglob("*") if "keys" in path.parts or path.suffix == ".key"]
    said = run(guide[f"{vendor} restore"], home, backup, url, programs)
    assert "1 version taken over" in said
    with store(home, url) as chain:
        chain.store.close_windows(scenario.STREAM, scenario.end_of(1))
        chain.work(chain.service())
        blocks = chain.store.service.budget(scenario.STREAM)
        assert {b.state for b in blocks if b.number // 128 == 1} == {BlockState.RETIRED}
        publish(chain, 2)
        assert [one.number for one in chain.store.service.versions(scenario.LONG)] == [1, 2, 3]
        assert chain.store.service.verify_ledger(scenario.STREAM).faults == ()
        (shown,) = chain.store.look_up(["ptk_state:version"], [{"ptk": scenario.LONG}])
        assert shown == {"version": 3}


def key_files(home: Path) -> dict[str, bytes]:
    """The content of the key store, but for the files of locks."""
    found = (path for path in (home / "keys").rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in found if "locks" not in path.parts}


@pytest.mark.parametrize("vendor", ["sqlite", "postgresql"])
def test_a_backup_is_checked_without_restoring_it(
    vendor: str, guide: dict[str, str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    home, backup = tmp_path / "home", tmp_path / "backup"
    backup.mkdir()
    url, programs, more = None, None, {"PTK_URL": "http://127.0.0.1:9", "TMPDIR": str(tmp_path / "scratch")}
    (tmp_path / "scratch").mkdir()
    if vendor == "postgresql":
        url = request.getfixturevalue("fresh_postgres_url")
        postgres: Postgres = request.getfixturevalue("postgres")
        programs = programs_of(postgres)

    def checked() -> str:
        commands = guide[f"{vendor} check"].replace("taxi.speed_by_hour", scenario.LONG)
        if vendor == "sqlite":
            return run(commands, home, backup, url, programs, **more)
        with postgres.fresh_database() as scratch:
            more["SCRATCH_URL"] = scratch.replace("postgresql+psycopg:", "postgresql:")
            return run(commands, home, backup, url, programs, **more)

    with store(home, url) as chain:
        scenario.create_stream(chain.store)
        scenario.register(chain.store, [scenario.LONG])
        publish(chain, 0)
        run(guide[f"{vendor} backup"], home, backup, url, programs)
        before = key_files(home)
        said = checked()
        assert "the journal adds up" in said
        assert re.search(r"1 │ elected .*│ +True │", said)
        assert key_files(home) == before
        publish(chain, 1)
        assert "ends before the last spend that was seen" in (said := checked())
        assert "exit code 1" in said
        publish(chain, 2)  # the service works as before
        assert chain.store.service.verify_ledger(scenario.STREAM).faults == ()
    assert list((tmp_path / "scratch").iterdir()) == []
    (state,) = (backup / "lake").rglob("v00000001/*.parquet")
    state.write_bytes(state.read_bytes()[:-1] + b"x")
    with pytest.raises(AssertionError, match="differs from its hash"):
        checked()


def test_a_copy_is_never_written_over_anything(guide: dict[str, str], tmp_path: Path) -> None:
    home, backup = tmp_path / "home", tmp_path / "backup"
    backup.mkdir()
    with store(home, None) as chain:
        scenario.create_stream(chain.store)
        first = guide["sqlite backup"].splitlines()[0]
        run(first, home, backup, None, None)
        copy = (backup / "catalog.db").read_bytes()
        with pytest.raises(AssertionError, match="exists"):
            run(first, home, backup, None, None)
    assert (backup / "catalog.db").read_bytes() == copy
    assert (backup / "catalog.db").stat().st_mode & 0o777 == 0o600
