"""A team's repository on the command line: begun, planned, applied, pruned, destroyed."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ptkstore.sdk import load_repository
from ptkstore.sdk.repository import plan_checks
from tests.support.command_line import Line

SCHEMA = "at:timestamp,hour:int64,speed:float64"


def create(line: Line, *more: str) -> None:
    line.run(
        *("stream", "create", "taxi", "--team", "taxi", "--time-column", "at", "--epsilon", "1"),
        *("--schema", SCHEMA, *more),
    )


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return Line(tmp_path / "home")


def with_team_code(folder: Path) -> None:
    """Take the comment signs from the example of team code."""
    text = (folder / "ptks.py").read_text()
    before, mark, after = text.partition("# from ptkstore import TeamFunctions\n")
    assert mark
    lines = [line.removeprefix("#").removeprefix(" ") for line in (mark + after).splitlines()]
    lines = [" " * (len(line) - len(line.lstrip())) + line.lstrip() for line in lines]
    (folder / "ptks.py").write_text(before + "\n".join(lines) + "\n")


def test_a_new_repository_works_at_once(line: Line, tmp_path: Path) -> None:
    folder = tmp_path / "taxi"
    made = line.json("init", str(folder), "--stream", "taxi")
    assert made["team"] == "taxi"
    assert set(made["files"]) == {
        "team.toml",
        "ptks.py",
        "trip_counts.py",
        "README.md",
        ".github/workflows/ptks.yml",
    }
    assert "{" not in (folder / "team.toml").read_text()
    (job,) = yaml.safe_load((folder / ".github/workflows/ptks.yml").read_text())["jobs"].values()
    assert "PTK_TOKEN" not in job["env"]
    assert [step["run"] for step in job["steps"] if "PTK_TOKEN" in step.get("env", {})] == [
        "ptk plan .",
        "ptk apply .",
    ]
    (install,) = [step["run"] for step in job["steps"] if "pip install" in step.get("run", "")]
    unset = subprocess.run(["bash", "-c", install], env={}, capture_output=True, text=True, check=False)
    assert (unset.returncode, "set the variable PTK_PACKAGE" in unset.stderr) == (127, True)
    wheels = "ptklib @ https://x/ptklib.whl\nptkstore[service] @ https://x/ptkstore.whl"
    pip = "pip() { cat $3; }; " + install
    asked = subprocess.run(
        ["bash", "-c", pip],
        env={"PTK_PACKAGE": wheels, "PATH": os.environ["PATH"]},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.stdout == wheels + "\n"
    create(line)
    (planned,) = line.json("plan", str(folder))
    assert (planned["action"], planned["ptk_id"], planned["epsilon"]) == (
        "register",
        "taxi.speed_by_hour",
        0.1,
    )
    line.run("apply", str(folder))
    assert [p["action"] for p in line.json("plan", str(folder))] == ["keep"]


@pytest.mark.long
@pytest.mark.usefixtures("sandbox")
def test_the_example_of_team_code_passes_its_checks(line: Line, tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    line.run("init", str(folder), "--team", "taxi", "--stream", "taxi")
    with_team_code(folder)
    assert [ptk.name for ptk in load_repository(folder).ptks] == ["speed_by_hour", "trip_counts"]
    create(line, "--minimum-assurance", "asserted")
    own = line.json("plan", str(folder), "--skip-audit")[1]
    assert (own["checks"], own["assurance"]) == ("passed", "asserted")
    assert own["reason"] == "12 checks, without the audit"


def test_a_plan_that_left_checks_out_says_so_and_is_no_refusal(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_checks, "SECONDS_EACH", -1.0)
    folder = tmp_path / "repository"
    line.run("init", str(folder), "--team", "taxi", "--stream", "taxi")
    create(line)
    told = line.run("plan", str(folder)).stdout
    assert "checks partly" in told
    assert "0 of 15 checks, as they take long" in told
    assert [one["checks"] for one in line.json("plan", str(folder))] == ["partly"]


def test_a_plan_ends_with_1_and_says_what_apply_would_refuse_and_why(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_checks, "SECONDS", 3600.0)
    monkeypatch.setattr(plan_checks, "SECONDS_EACH", 3600.0)
    folder = tmp_path / "repository"
    line.run("init", str(folder), "--team", "taxi", "--stream", "taxi")
    with_team_code(folder)
    create(line)  # which wants more than asserted
    told = line.run("plan", str(folder), code=1)
    assert "refused, ptk-rejected" in told.stdout
    assert "'asserted' is below" in told.stdout
    assert "checks passed" in told.stdout  # of the other one
    assert "checking taxi.speed_by_hour on synthetic rows" in told.stderr
    library, own = json.loads(line.run("plan", str(folder), "--skip-audit", "--json", code=1).stdout)
    assert (library["checks"], library["refused"]) == ("passed", None)
    assert (own["checks"], own["refused"]) == (None, "ptk-rejected")
    assert own["reason"] in line.refused("apply", str(folder), code=1)
    assert line.json("list") == []  # not even what comes first


def test_nothing_that_is_there_is_overwritten(line: Line, tmp_path: Path) -> None:
    (tmp_path / "ptks.py").write_text("mine")
    assert "ptks.py" in line.refused("init", str(tmp_path), "--team", "taxi", code=1)
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == ["ptks.py"]
    assert (tmp_path / "ptks.py").read_text() == "mine"


@pytest.mark.parametrize("words", [("--team", "Taxi Team"), ("--team", "taxi", "--stream", "a b"), ()])
def test_a_name_that_no_team_can_have_begins_nothing(
    line: Line, tmp_path: Path, words: tuple[str, ...]
) -> None:
    folder = tmp_path / "no team's name"
    line.refused("init", str(folder), *words, code=2)
    assert not folder.exists()


def test_what_is_not_declared_is_pruned_or_destroyed_only_on_request(line: Line, tmp_path: Path) -> None:
    folder = tmp_path / "taxi"
    line.run("init", str(folder), "--stream", "taxi")
    create(line)
    line.run("apply", str(folder))
    (folder / "ptks.py").write_text("")
    assert line.json("apply", str(folder)) == []
    assert [p["action"] for p in line.json("plan", str(folder))] == ["stay"]
    assert [p["action"] for p in line.json("plan", str(folder), "--prune")] == ["deregister"]
    assert "frees epsilon 0.1" in line.run("plan", str(folder), "--prune").stdout
    assert "nothing was done" in line.run("destroy", str(folder)).stdout
    assert len(line.json("list")) == 1
    assert [p["action"] for p in line.json("destroy", str(folder), "--yes")] == ["deregister"]
    assert line.json("list") == []
    assert line.json("apply", str(folder), "--prune") == []


def begun(line: Line, tmp_path: Path) -> Path:
    """A repository whose PTK is registered."""
    folder = tmp_path / "taxi"
    line.run("init", str(folder), "--stream", "taxi")
    create(line)
    line.run("apply", str(folder))
    return folder


def test_a_plan_shows_each_field_that_changes_what_stays_and_a_summary(line: Line, tmp_path: Path) -> None:
    folder = begun(line, tmp_path)
    declared = (folder / "ptks.py").read_text()
    assert line.run("plan", str(folder)).stdout.splitlines()[-1] == "1 unchanged"
    bounds, target = '{"speed": (0.0, 60.0)}', "target=0.1,"
    assert bounds in declared
    assert target in declared
    changed = declared.replace(bounds, '{"speed": (0.0, 90.0)}').replace(target, "target=0.2,", 1)
    (folder / "ptks.py").write_text(changed)
    told = line.run("plan", str(folder), "--skip-audit").stdout.splitlines()
    assert "    bounds.speed[1] 60.0 -> 90.0" in told
    assert "    target 0.1 -> 0.2" in told
    assert told[-1] == "1 to update"
    (row,) = line.json("plan", str(folder), "--skip-audit")
    assert row["changes"] == [
        {"field": "bounds.speed[1]", "before": 60.0, "after": 90.0},
        {"field": "target", "before": 0.1, "after": 0.2},
    ]
    left = "room left on taxi after this: epsilon 0.9, delta 0 a window, of epsilon 1, delta 0 (accountant renyi)"
    assert told[-2] == left
    assert row["room"] == {
        "epsilon": 0.9,
        "delta": 0.0,
        "capacity_epsilon": 1.0,
        "capacity_delta": 0.0,
        "accountant": "renyi",
        "context": "",
    }
    (folder / "ptks.py").write_text(declared.replace('name="speed_by_hour"', 'name="speed"'))
    told = line.run("plan", str(folder), "--skip-audit").stdout.splitlines()
    assert any(text.startswith("! stays taxi.speed_by_hour  reserves epsilon 0.1") for text in told)
    assert told[-1] == "1 to register, 1 stays registered though undeclared"
    new, old = line.json("plan", str(folder), "--skip-audit")
    assert [(row["action"], row["ptk_id"], row["stream"]) for row in (new, old)] == [
        ("register", "taxi.speed", "taxi"),
        ("stay", "taxi.speed_by_hour", "taxi"),
    ]
    assert (old["epsilon"], old["epsilon_before"], old["changes"]) == (0.1, 0.1, [])


def test_apply_and_destroy_say_that_it_was_done(line: Line, tmp_path: Path) -> None:
    folder = tmp_path / "taxi"
    line.run("init", str(folder), "--stream", "taxi")
    create(line)
    assert line.run("apply", str(folder)).stdout.splitlines()[-1] == "Done: 1 PTK was registered."
    assert line.run("apply", str(folder)).stdout.splitlines()[-1] == "Done: 1 PTK was left as it is."
    assert "Done" not in line.run("plan", str(folder), "--skip-audit").stdout
    assert line.run("destroy", str(folder)).stdout.splitlines()[-1] == "nothing was done: say --yes to do it"
    assert (
        line.run("destroy", str(folder), "--yes").stdout.splitlines()[-1] == "Done: 1 PTK was deregistered."
    )


def test_where_ptks_wait_a_plan_says_what_a_training_loses_and_nothing_is_reserved(
    line: Line, tmp_path: Path
) -> None:
    folder = tmp_path / "taxi"
    line.run("init", str(folder), "--stream", "taxi")
    create(line, "--scheduler", "adaptive")
    told = line.run("apply", str(folder)).stdout
    assert "taxi.speed_by_hour  epsilon 0.1, delta 0 a training\n" in told
    (folder / "ptks.py").write_text("")
    told = line.run("plan", str(folder)).stdout
    assert (
        "! stays taxi.speed_by_hour  may lose epsilon 0.1, delta 0 a training; --prune deregisters it\n"
        in told
    )
    assert "taxi.speed_by_hour  waits no longer\n" in line.run("plan", str(folder), "--prune").stdout


def test_a_ptk_that_devices_train_stays_without_reserving_anything(line: Line, tmp_path: Path) -> None:
    folder = tmp_path / "safety"
    folder.mkdir()
    (folder / "team.toml").write_text('team = "safety"\n')
    (folder / "ptks.py").write_text(
        "from ptklib import DrawDiscardModel\nfrom ptkstore import PTK\n"
        'phishy = PTK("phishy", "phones", DrawDiscardModel({"links": (0, 20)}, "spam", epsilon=3.47))\n'
    )
    line.run(
        *("stream", "create", "phones", "--team", "safety", "--schema", "at:timestamp,links:int64,spam:bool"),
        *("--time-column", "at", "--rows", "on-devices", "--report-epsilon", "3.47"),
        *("--reports-per-window", "1", "--reports-in-all", "8"),
    )
    line.run("apply", str(folder))
    (folder / "ptks.py").write_text("")
    told = line.run("plan", str(folder)).stdout
    assert (
        "! stays safety.phishy  a device loses epsilon 3.47 per report (3.47 per weight), 3.47 per window, "
        "27.76 in all; no block is charged; --prune deregisters it\n"
    ) in told
    assert "reserves" not in told
    assert "the repository declares no PTK: assign each to a name in its ptks.py\n" in told
    pruned = line.run("plan", str(folder), "--prune").stdout
    assert "deregister safety.phishy  devices report no more to it; what they lost stays lost\n" in pruned
    assert "declares no PTK: assign" in line.run("apply", str(folder)).stdout
    line.run("destroy", str(folder), "--yes")
    assert line.run("destroy", str(folder)).stdout == "the team has no PTK\n"


def test_a_plan_says_who_pays_for_tests_of_what_devices_train(line: Line, tmp_path: Path) -> None:
    folder = tmp_path / "safety"
    folder.mkdir()
    (folder / "team.toml").write_text('team = "safety"\n')
    (folder / "ptks.py").write_text(
        "from ptklib import DrawDiscardModel\nfrom ptkstore import PTK\n"
        'phishy = PTK("phishy", "phones", DrawDiscardModel({"links": (0, 20)}, "spam", epsilon=3.47), target=0.3,\n'
        '             accept={"metric": "loss", "epsilon": 0.2, "stream": "mails"})\n'
    )
    columns = ("--team", "safety", "--schema", "at:timestamp,links:int64,spam:bool", "--time-column", "at")
    line.run(
        *("stream", "create", "phones", *columns, "--rows", "on-devices", "--report-epsilon", "3.47"),
        *("--reports-per-window", "1", "--reports-in-all", "8"),
    )
    assert "mails" in line.run("plan", str(folder), code=1).output  # there is no such stream
    line.run("stream", "create", "mails", *columns, "--epsilon", "1")
    said = "27.76 in all; each verdict costs epsilon 0.2 of a test block of mails"
    assert said in line.run("plan", str(folder)).stdout
    (row,) = line.json("plan", str(folder))
    assert row["verdict"] == {"stream": "mails", "epsilon": 0.2}
    line.run("apply", str(folder))
    (folder / "ptks.py").write_text("")
    assert f"{said}; --prune deregisters it" in line.run("plan", str(folder)).stdout


@pytest.mark.parametrize(
    "scheduler",
    [
        ("--scheduler", "adaptive"),
        ("--scheduler", "budgeting", "--least-significance", "2", "--most-significance", "10"),
    ],
)
def test_no_room_is_told_where_ptks_wait(line: Line, tmp_path: Path, scheduler: tuple[str, ...]) -> None:
    folder = tmp_path / "taxi"
    line.run("init", str(folder), "--stream", "taxi")
    create(line, *scheduler)
    told = line.run("plan", str(folder), "--skip-audit").stdout
    assert "1 to register" in told
    assert "room left" not in told
    (row,) = line.json("plan", str(folder), "--skip-audit")
    assert row["room"] is None


def test_what_was_pruned_by_mistake_comes_back(line: Line, tmp_path: Path) -> None:
    folder = begun(line, tmp_path)
    declared = (folder / "ptks.py").read_text()
    (folder / "ptks.py").write_text(declared.replace('name="speed_by_hour"', 'name="speed"'))
    line.run("apply", str(folder), "--prune", "--yes")
    (folder / "ptks.py").write_text(declared)
    told = line.run("plan", str(folder), "--skip-audit").stdout.splitlines()
    assert "    comes back: its name was deregistered before" in told
    told = line.run("apply", str(folder), "--prune", "--yes").stdout.splitlines()
    assert "    comes back: its name was deregistered before" in told
    assert [row["ptk"] for row in line.json("list")] == ["taxi.speed_by_hour"]
    assert line.run("plan", str(folder)).stdout.splitlines()[-1] == "1 unchanged"


def test_without_a_terminal_nothing_is_pruned_unless_yes_is_said(line: Line, tmp_path: Path) -> None:
    folder = begun(line, tmp_path)
    (folder / "ptks.py").write_text("")
    told = line.refused("apply", str(folder), "--prune", code=1)
    assert "--prune deregisters taxi.speed_by_hour" in told
    assert "say --yes" in told
    assert len(line.json("list")) == 1
    assert [p["action"] for p in line.json("apply", str(folder), "--prune", "--yes")] == ["deregister"]
    assert line.json("list") == []


@pytest.mark.parametrize(("answer", "code", "left"), [(b"n\n", 1, 1), (b"\n", 1, 1), (b"y\n", 0, 0)])
def test_on_a_terminal_apply_asks_before_it_prunes(
    line: Line, tmp_path: Path, answer: bytes, code: int, left: int
) -> None:
    folder = begun(line, tmp_path)
    (folder / "ptks.py").write_text("")
    keyboard, terminal = os.openpty()
    os.write(keyboard, answer)
    words = [sys.executable, "-m", "ptkstore.cli.main", "apply", str(folder), "--prune"]
    environment = {**os.environ, "PTK_HOME": str(line.home)}
    done = subprocess.run(words, stdin=terminal, capture_output=True, text=True, env=environment, check=False)
    os.close(keyboard)
    os.close(terminal)
    assert "--prune deregisters taxi.speed_by_hour" in done.stderr
    assert (done.returncode, len(line.json("list"))) == (code, left), done.stderr


def test_a_teams_ptks_are_destroyed_without_what_declared_them(line: Line, tmp_path: Path) -> None:
    folder = tmp_path / "taxi"
    line.run("init", str(folder), "--stream", "taxi")
    create(line)
    line.run("apply", str(folder))
    (folder / "ptks.py").write_text("raise SystemExit('not to be run')")
    assert [p["action"] for p in line.json("destroy", str(folder))] == ["deregister"]
    (folder / "ptks.py").unlink()
    line.run("destroy", str(folder), "--yes")
    assert line.json("list") == []


@pytest.mark.parametrize("command", ["plan", "apply", "destroy"])
def test_a_folder_that_is_no_repository_is_told_how_one_is_begun(
    line: Line, tmp_path: Path, command: str
) -> None:
    create(line)
    told = line.refused(command, str(tmp_path), code=2)
    assert f"{tmp_path} is no team's repository, as it has no team.toml" in told
    assert "ptk init FOLDER --team NAME" in told


def test_a_team_without_a_name_is_told_of_by_its_file(line: Line, tmp_path: Path) -> None:
    create(line)
    (tmp_path / "team.toml").write_text("name = 'taxi'")
    assert f'{tmp_path / "team.toml"} needs: team = "<name>"' in line.refused("plan", str(tmp_path), code=2)


def test_a_ptk_is_renamed_on_a_full_stream_and_each_end_of_it_is_on_record(
    line: Line, tmp_path: Path
) -> None:
    folder = tmp_path / "taxi"
    line.run("init", str(folder), "--stream", "taxi")
    create(line, "--delta", "0")
    declared = (folder / "ptks.py").read_text().replace("epsilon=0.1,", "epsilon=0.9,", 1)
    (folder / "ptks.py").write_text(declared)
    line.run("apply", str(folder))
    (folder / "ptks.py").write_text(declared.replace('name="speed_by_hour"', 'name="speed"'))
    assert "It would fit with --prune" in line.run("plan", str(folder), "--skip-audit", code=1).stdout
    line.run("plan", str(folder), "--prune", "--skip-audit")
    line.run("apply", str(folder), "--prune", "--yes")
    assert [row["ptk"] for row in line.json("list")] == ["taxi.speed"]
    trail = [(row["action"], row["subject"], row["outcome"]) for row in line.json("audit-log")]
    assert trail[-3:] == [
        ("ptk.exchange", "ptk/taxi.speed", "done"),
        ("ptk.exchange", "ptk/taxi.speed_by_hour", "done"),
        ("ptk.exchange", "stream/taxi", "done"),
    ]


def test_the_sandbox_is_tried_and_its_want_explained(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(line)
    monkeypatch.setenv("PTK_BUBBLEWRAP", str(tmp_path / "nowhere"))
    assert "not installed" in line.refused("sandbox", code=1)


@pytest.mark.usefixtures("sandbox")
def test_a_sandbox_that_holds_is_said_to(line: Line) -> None:
    create(line)
    assert line.json("sandbox") == {"sandbox": "works"}


def test_init_names_commands_that_work_as_they_are(line: Line, tmp_path: Path) -> None:
    told = line.run("init", str(tmp_path / "a team"), "--team", "taxi", "--stream", "trips").stdout
    commands = [text.strip() for text in told.splitlines() if text.startswith("  ptk ")]
    assert [command.split()[1] for command in commands] == ["stream", "plan", "apply"]
    for command in commands:
        line.run(*shlex.split(command)[1:])
    assert [row["ptk"] for row in line.json("list")] == ["taxi.speed_by_hour"]
    folder = str(tmp_path / "other")
    found = line.json("init", folder, "--team", "taxi", "--stream", "trips")
    assert found["next"] == [command.replace(f"'{tmp_path / 'a team'}'", folder) for command in commands]


def test_a_fault_names_the_ptk_and_the_file_that_declares_it(line: Line, tmp_path: Path) -> None:
    folder = tmp_path / "taxi"
    line.run("init", str(folder), "--stream", "taxi")
    create(line)
    declared = (folder / "ptks.py").read_text()
    where = "PTK taxi.speed_by_hour in ptks.py"

    def faulty(old: str, new: str) -> None:
        assert old in declared
        (folder / "ptks.py").write_text(declared.replace(old, new))

    faulty("epsilon=0.1", "epsilon=-1")
    for command in ("plan", "apply"):
        assert f"{where}: epsilon must be in" in line.refused(command, str(folder), code=2)
    faulty("target=0.1", "target=-1")
    assert f"{where}: the target must be" in line.refused("apply", str(folder), code=2)
    told = line.run("plan", str(folder), code=1).stdout.splitlines()
    assert told[-1] == "1 to register; refused or failed, see ptks.py: taxi.speed_by_hour"
    faulty('"speed"', '"sped"')
    refused = line.refused("apply", str(folder), code=2)
    assert "in ptks.py" not in refused
    assert "ptks.py: PTK taxi.speed_by_hour reads column 'sped'" in refused
    faulty('name="speed_by_hour"', 'name="Speed"')
    assert "PTK taxi.Speed in ptks.py: PTK name 'Speed' must" in line.refused("plan", str(folder), code=2)
    faulty("target=0.1", "targt=0.1")
    at = 1 + declared[: declared.index("speed_by_hour = PTK(")].count("\n")
    assert f"ptks.py, line {at}, does not run: TypeError: " in line.refused("plan", str(folder), code=2)


def test_a_plan_tells_of_an_unknown_stream_beside_the_ptk(line: Line, tmp_path: Path) -> None:
    folder = tmp_path / "taxi"
    line.run("init", str(folder), "--stream", "taxi")
    create(line)
    declared = (folder / "ptks.py").read_text()
    (folder / "ptks.py").write_text(declared.replace('stream="taxi"', 'stream="taxis"', 1))
    reason = "PTK taxi.speed_by_hour in ptks.py: there is no stream 'taxis'; did you mean 'taxi'?"
    told = line.run("plan", str(folder), code=1).stdout.splitlines()
    assert told[:3] == [
        "+ register taxi.speed_by_hour  epsilon 0.1, delta 0 a window",
        "    refused, unknown-name",
        f"    {reason}",
    ]
    assert line.refused("apply", str(folder), code=2) == f"unknown-name: {reason}"


def test_apply_says_what_it_left(line: Line, tmp_path: Path) -> None:
    folder = tmp_path / "taxi"
    line.run("init", str(folder), "--stream", "taxi")
    create(line)
    line.run("apply", str(folder))
    declared = (folder / "ptks.py").read_text()
    (folder / "ptks.py").write_text(declared.replace('name="speed_by_hour"', 'name="speed"', 1))
    told = line.run("apply", str(folder)).stdout.splitlines()
    assert told[-2:] == [
        "! stays taxi.speed_by_hour  reserves epsilon 0.1, delta 0 a window; --prune deregisters it",
        "Done: 1 PTK was registered, 1 was left registered, though undeclared.",
    ]
    assert [row["action"] for row in line.json("apply", str(folder))] == ["keep"]
