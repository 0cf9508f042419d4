"""Every command that takes a name says which names are near one that is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cases import case
from tests.support.command_line import CREATE, Line, repository


@pytest.fixture
def line(tmp_path: Path) -> Line:
    made = Line(tmp_path / "home")
    made.run(*CREATE)
    made.run("team", "create", "weather")
    made.run("apply", repository(tmp_path / "team"))
    return made


COMMANDS = {
    "diff": ("diff", "taxi.sped", "1", "2"),
    "show": ("show", "taxi.sped"),
    "versions": ("versions", "taxi.sped"),
    "lineage": ("lineage", "taxi.sped"),
    "set-target": ("set-target", "taxi.sped", "0.2"),
    "lookup": ("lookup", "taxi.sped", "hour=8"),
    "subscribe": ("subscribe", "taxi.sped", "--endpoint", "redis-stream:x"),
    "rollback": ("rollback", "taxi.sped", "--to", "1"),
    "materialize": ("materialize", "taxi.sped"),
    "resume": ("resume", "taxi.sped"),
    "test-privacy": ("test-privacy", "taxi.sped"),
    "budget": ("budget", "taxy"),
    "close": ("close", "taxy"),
    "forget": ("forget", "taxy", "u1"),
    "ledger report": ("ledger", "export", "taxy", "--output", "x.json"),
    "ledger export": ("ledger", "export", "taxy"),
    "stream show": ("stream", "show", "taxy"),
    "stream recommend": ("stream", "recommend", "taxy"),
    "token create": ("token", "create", "--team", "weathr", "--scope", "developer"),
    "grant add": ("grant", "add", "weathr", "taxi", "consumer"),
}


def test_a_name_that_is_mistyped_is_told_with_the_right_one(line: Line) -> None:
    for words in COMMANDS.values():
        with case(str(words)):
            right = {"taxi.sped": "taxi.speed", "taxy": "taxi", "weathr": "weather"}
            (wanted,) = [right[word] for word in words if word in right]
            assert f"did you mean '{wanted}'" in line.run(*words, code=2).stderr


FAR = {
    ("stream", "show", "q"): "ptk stream list",
    ("resume", "q.q"): "ptk list",
    ("featurize", "q.q", "x.csv", "-o", "y.parquet"): "ptk list",
    ("token", "revoke", "ptk_0000000000000000"): "ptk token list",
    ("grant", "remove", "q", "q", "producer"): "ptk grant list",
    ("redeliver", "sub_0000000000000000"): "ptk subscriptions",
}


def test_a_name_that_is_near_none_is_told_with_the_command_that_lists_them(line: Line) -> None:
    for words, listed in FAR.items():
        with case(str(words)):
            assert line.run(*words, code=2).stderr.endswith(f"; see: {listed}\n")
