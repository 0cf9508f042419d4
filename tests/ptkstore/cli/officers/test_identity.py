"""`ptk team`, `ptk token`, `ptk grant`, `ptk audit-log`, `ptk api`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ptkstore.cli.main import app
from ptkstore.settings import Settings
from ptkstore.wiring import Service
from ptkstore.wiring.identity import Identity
from tests.support.world import World

Run = Callable[..., Result]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def ptk(home: Path) -> Run:
    return lambda *arguments: CliRunner().invoke(app, [*arguments, "--home", str(home)])


def told(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_first_administrators_token_is_made_in_the_home(ptk: Run, home: Path) -> None:
    made = told(ptk("token", "create", "--admin", "--json"))
    assert (made["team"], made["scopes"]) == ("administrators", "administrator")
    service = Service(Settings(home=home))
    try:
        assert Identity(service).identify(made["text"]).administers
    finally:
        service.close()
    assert made["text"].startswith(made["token"] + "_")
    assert "text" not in told(ptk("token", "list", "--json"))[0]


def test_a_team_that_is_not_there_is_told_how_to_create(ptk: Run, home: Path) -> None:
    world = World(home)
    world.stream()
    world.service.close()
    for words in (
        ["token", "create", "--team", "officer", "--scope", "officer"],
        ["grant", "add", "officer", "taxi", "officer"],
    ):
        refused = ptk(*words)
        assert refused.exit_code == 2
        assert refused.stderr.endswith("there is no team 'officer'; create it: ptk team create officer\n")


def test_standard_output_of_a_new_token_is_the_token_alone(ptk: Run, home: Path) -> None:
    made = ptk("token", "create", "--admin")
    (text,) = made.stdout.splitlines()
    name = text[: len("ptk_") + 16]
    rotated = ptk("token", "rotate", name)
    (new,) = rotated.stdout.splitlines()
    service = Service(Settings(home=home))
    try:
        assert Identity(service).identify(text).administers
        assert Identity(service).identify(new).administers
    finally:
        service.close()
    for about, its_id in ((made.stderr, name), (rotated.stderr, new[: len(name)])):
        assert about.startswith("This token of team administrators is shown this once, and valid until ")
        assert about.endswith(f"Its id, for ptk token rotate and revoke, is {its_id}\n")
        assert text not in about
        assert new not in about


def test_teams_tokens_and_grants_come_and_go_and_leave_a_trace(ptk: Run, home: Path) -> None:
    world = World(home)
    world.stream()
    world.service.close()
    assert told(ptk("team", "create", "ads", "--json")) == {"team": "ads"}
    made = told(
        ptk("token", "create", "--team", "ads", "--scope", "developer", "--scope", "consumer", "--json")
    )
    assert made["scopes"] == "developer,consumer"
    name = made["token"].removeprefix("ptk_")
    assert told(ptk("grant", "add", "ads", "taxi", "developer", "--json"))["role"] == "developer"
    assert told(ptk("grant", "list", "--json")) == [{"team": "ads", "stream": "taxi", "role": "developer"}]
    rotated = told(ptk("token", "rotate", name, "--overlap-hours", "1", "--json"))
    assert rotated["token"] != made["token"]
    assert told(ptk("token", "revoke", rotated["token"], "--json"))["revoked"] is True
    assert ptk("grant", "remove", "ads", "taxi", "developer").exit_code == 0
    assert told(ptk("grant", "list", "--json")) == []
    assert told(ptk("team", "list", "--json")) == [{"team": "ads"}]
    trail = told(ptk("audit-log", "--json"))
    assert [(e["team"], e["action"], e["subject"], e["outcome"]) for e in trail] == [
        ("local", "team.create", "team/ads", "done"),
        ("local", "token.issue", "team/ads", "done"),
        ("local", "grant.add", "grant/ads/taxi/developer", "done"),
        ("local", "token.rotate", f"token/{name}", "done"),
        ("local", "token.revoke", f"token/{rotated['token'].removeprefix('ptk_')}", "done"),
        ("local", "grant.remove", "grant/ads/taxi/developer", "done"),
    ]
    assert "grant.remove" in ptk("audit-log", "--after", "10").output
    assert told(ptk("audit-log", "--from", "2020-01-01", "--to", "2999-01-01", "--json")) == trail
    assert told(ptk("audit-log", "--from", "2020-01-01", "--limit", "2", "--json")) == trail[:2]
    for nothing in (("--to", "2020-01-01"), ("--from", "2999-01-01")):
        assert told(ptk("audit-log", *nothing, "--json")) == []
        assert "no actions on record match" in ptk("audit-log", *nothing).output
    assert told(ptk("audit-log", "--team", "local", "--after", "100", "--json")) == []
    assert "no actions on record match" in ptk("audit-log", "--team", "ads").output
    unknown = ptk("audit-log", "--team", "adds")
    assert unknown.exit_code == 2
    assert "did you mean 'ads'?" in unknown.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("token", "create"),
        ("token", "create", "--team", "nobody", "--scope", "producer"),
        ("token", "create", "--team", "administrators"),
        ("token", "revoke", "ptk_0000000000000000_the-secret-that-nobody-should-type"),
        ("token", "rotate", "short"),
        ("token", "revoke", "0" * 16),
        ("team", "create", "Ads"),
        ("grant", "add", "*", "*", "developer"),
        ("grant", "add", "administrators", "nowhere", "producer"),
        ("grant", "remove", "administrators", "taxi", "producer"),
        ("api", "--certificate", "x.pem"),
        ("api", "--port", "99999"),
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_wrong_use(ptk: Run, arguments: tuple[str, ...]) -> None:
    told(ptk("token", "create", "--admin", "--json"))
    result = ptk(*arguments)
    assert result.exit_code == 2, result.output
    assert "the-secret" not in result.output


def test_serving_takes_the_place_of_the_command(
    ptk: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(ptk("token", "create", "--admin", "--json"))
    seen: list[Any] = []
    monkeypatch.setattr("os.execve", lambda *call: seen.append(call))
    assert ptk("api", "--host", "0.0.0.0", "--port", "9000").exit_code == 0
    ((_, argv, env),) = seen
    assert argv[1:] == ("-m", "ptkstore.serving", "--host", "0.0.0.0", "--port", "9000")
    assert env["PTK_HOME"] == str(home)


def test_the_id_of_a_token_is_asked_for_as_it_is_shown(ptk: Run) -> None:
    told(ptk("token", "create", "--admin", "--json"))
    (shown,) = told(ptk("token", "list", "--json"))
    assert len(shown["token"]) == len("ptk_") + 16
    result = ptk("token", "revoke", "short")
    assert "what ptk token list shows in its column `token`: ptk_ and 16 characters" in " ".join(
        result.output.split()
    )


@pytest.mark.parametrize("of", ["token", "grant"])
def test_a_list_of_an_unknown_team_says_so(ptk: Run, of: str) -> None:
    ptk("team", "create", "riders")
    result = ptk(of, "list", "--team", "rider")
    assert (result.exit_code, "there is no team 'rider'; did you mean 'riders'?" in result.stderr) == (
        2,
        True,
    )
    assert told(ptk(of, "list", "--team", "riders", "--json")) == []


def test_grants_on_an_unknown_stream_are_no_empty_list(ptk: Run) -> None:
    ptk("team", "create", "riders")
    result = ptk("grant", "list", "--stream", "taxi")
    assert (result.exit_code, "there is no stream 'taxi'" in result.stderr) == (2, True)
    assert "no grants match" in ptk("grant", "list", "--team", "riders").stdout
