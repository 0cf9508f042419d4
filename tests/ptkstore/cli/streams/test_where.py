"""Which store a command works on: the one that is named, or none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ptkstore.adapters.processes import Supervisor
from ptkstore.errors import Refused
from tests.support.command_line import CREATE, Line

COMMANDS = [
    CREATE,
    ["stream", "prepare", "taxi", "0"],
    ["close", "taxi"],
    ["rollback", "taxi.speed", "--to", "1"],
    ["ledger", "recover"],
    ["team", "create", "ads"],
    ["token", "create", "--team", "ads"],
    ["lake", "garbage"],
    ["catalog", "status"],
    ["catalog", "upgrade"],
    ["work"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_a_command_that_works_in_a_home_only_says_so_where_a_url_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: Sequence[str]
) -> None:
    monkeypatch.setenv("PTK_URL", "https://ptk.example.org")
    ptk = Line(tmp_path / "home")
    assert "PTK_URL names a store behind HTTP" in ptk.refused(*words, code=2)
    assert not ptk.home.exists()


def test_a_home_that_is_named_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = str(tmp_path / "home")
    monkeypatch.setenv("PTK_URL", "https://ptk.example.org")
    ptk = Line(tmp_path / "elsewhere")
    ptk.run(*CREATE, "--home", home)
    assert [one["stream"] for one in ptk.json("stream", "list", "--home", home)] == ["taxi"]


def test_in_a_home_that_is_refused_no_lock_is_left(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(Refused, match="is not a directory"):
        Supervisor(tmp_path).start()
    assert {one.name for one in tmp_path.iterdir()} == {"log", "elsewhere"}
