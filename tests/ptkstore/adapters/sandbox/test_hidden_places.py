"""Whatever of the store lies on this machine, team code is not run where the sandbox would show it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from ptkstore.errors import InvalidRequest, NoSandbox
from ptkstore.sdk import Store
from ptkstore.settings import Settings, load_settings
from ptkstore.wiring import Service

SHOWN = Path(pa.__file__).parent / "place"
"""In the packages, which the sandbox shows; nothing is written there."""


@pytest.fixture
def program(tmp_path: Path) -> str:
    made = tmp_path / "bwrap"
    made.write_text("#!/bin/sh\nexit 1\n")
    made.chmod(0o755)
    return str(made)


@pytest.mark.parametrize(
    "setting",
    [
        {"home": SHOWN},
        {"keys_url": str(SHOWN)},
        {"keys_url": f"file://{SHOWN}"},
        {"raw_url": str(SHOWN)},
        {"raw_url": f"file://{SHOWN}"},
        {"lake_url": f"file://{SHOWN}"},
        {"lake_url": f"local://{SHOWN}"},
        {"lake_url": f"simplecache::file://{SHOWN}"},
        {"database_url": f"sqlite:///{SHOWN}"},
        {"database_url": f"sqlite+pysqlite:///{SHOWN}?timeout=9"},
        {"database_url": f"sqlite:///file:{SHOWN}?uri=true"},
    ],
    ids=str,
)
def test_a_place_that_the_sandbox_would_show_is_refused(
    tmp_path: Path, program: str, setting: dict[str, str]
) -> None:
    settings = Settings(**{"home": tmp_path / "home", "bubblewrap": program, **setting})
    with pytest.raises(NoSandbox, match="directory that the sandbox needs"):
        Service(settings).sandbox.check()


def test_a_link_that_leads_to_a_shown_place_is_seen(tmp_path: Path, program: str) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "keys").symlink_to(SHOWN)
    with pytest.raises(NoSandbox, match="directory that the sandbox needs"):
        Service(Settings(home=tmp_path / "home", bubblewrap=program)).sandbox.check()


def test_the_probe_looks_for_every_place_absolute_and_behind_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "real").mkdir()
    (tmp_path / "lake").symlink_to(tmp_path / "real")
    settings = Settings(
        home=Path("home"),
        lake_url="lake",
        raw_url="s3://bucket/raw",
        database_url="sqlite:///db/catalog.db",
    )
    assert settings.places == tuple(
        str(tmp_path / name) for name in ("home", "home/keys", "lake", "real", "db/catalog.db")
    )
    remote = Settings(home=Path("home"), lake_url="s3://b/lake", database_url="postgresql://h/ptk")
    assert settings.places[0] in remote.places
    assert not any("s3" in place or "postgresql" in place for place in remote.places)


def test_keys_lie_where_the_setting_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(Settings(home=tmp_path / "home", keys_url=f"file://{tmp_path / 'apart'}"))
    Store(service).create_stream(
        "taxi", team="taxi", schema={"at": "timestamp"}, time_column="at", epsilon=1.0
    )
    service.signer.public_key()
    assert list((tmp_path / "apart").iterdir())
    assert not (tmp_path / "home" / "keys").exists()
    service.close()
    monkeypatch.setenv("PTK_KEYS_URL", "s3://bucket/keys")
    with pytest.raises(InvalidRequest, match=r"PTK_KEYS_URL .*file locks"):
        load_settings(tmp_path / "home")
