"""The main job as a newcomer runs it: `ptk demo`, then plain Feast, then `ptk demo` again."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ptkstore.cli.demo import report
from ptkstore.errors import InvalidRequest
from tests.support.waiting import free_port

pytestmark = pytest.mark.long

CONSUMER = """
import feast, sys, json
assert not any(name.startswith("ptk") for name in sys.modules)
store = feast.FeatureStore(sys.argv[1])
print(json.dumps(store.get_online_features(
    ["taxi__speed_by_hour:speed_mph_mean", "taxi__speed_by_hour:count"], [{"hour": h} for h in range(24)]).to_dict()))
print(json.dumps(store.get_online_features(
    ["ptk_state:version", "ptk_state:epsilon"], [{"ptk": "taxi.speed_by_hour"}]).to_dict()))
"""


def demo(folder: Path, *options: str) -> dict[str, Any]:
    """Run the command as a user does; the report it wrote."""
    command = [sys.executable, "-m", "ptkstore.cli.main", "demo", "--home", str(folder / "home")]
    command += ["--report", str(folder / "report.json"), *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    logs = [p.read_text()[-2000:] for p in sorted((folder / "home" / "log").glob("*.log"))]
    assert done.returncode == 0, (done.stdout, done.stderr, logs)
    (folder / "said").write_text(done.stderr)
    (folder / "told").write_text(done.stdout)
    made: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return made


def check(made: dict[str, Any], windows: int, versions: int) -> None:
    """What every run must show."""
    assert made["windows_closed"] == windows
    assert {p["ptk_id"]: p["versions"] for p in made["ptks"]} == dict.fromkeys(
        ("taxi.long_trip_counts", "taxi.speed_by_hour", "taxi.speed_by_zone"), versions
    )
    assert made["epsilon_g"] == 1.0
    assert made["max_block_epsilon"] == pytest.approx(0.8, abs=1e-9)
    assert made["deliveries"]["sent"] == made["deliveries"]["verified"] > 0
    assert made["deliveries"]["failed"] == 0
    assert made["raw_files_remaining"] == 0
    assert len(made["lookups"]) == 27
    assert all(isinstance(row["value"], float | int) for row in made["lookups"])


def check_next_steps(commands: list[str]) -> None:
    """The three commands work as they were printed, copied into a shell."""
    status, lookup, ui = commands

    def shown(command: str) -> str:
        done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120, check=True)  # noqa: S602
        return done.stdout

    assert "published  9 versions" in shown(status)
    assert "speed_mph_mean" in shown(lookup)
    serving = subprocess.Popen(
        [*shlex.split(ui), "--no-browser", "--port", str(free_port())], stdout=subprocess.PIPE, text=True
    )
    assert serving.stdout is not None
    assert serving.stdout.readline().startswith("open within two minutes, once: http://127.0.0.1:")
    serving.send_signal(signal.SIGINT)
    serving.communicate(timeout=60)


def test_the_demo_runs_can_be_read_with_feast_alone_and_runs_again_in_the_same_home(tmp_path: Path) -> None:
    first = demo(tmp_path, "--days", "3")
    check(first, windows=3, versions=3)
    assert first["deliveries"]["sent"] == 9
    said = (tmp_path / "said").read_text()
    assert "creating the stream\n" in said
    assert "interrupted" not in said
    truths = {(r["view"], r["feature"], str(r["entity"])): r["true_value"] for r in first["lookups"]}
    for row in first["lookups"]:
        if row["view"] == "taxi__speed_by_hour" and row["feature"] == "count":
            # std of the noise of three releases is 30, of the split at most 38: seven times both
            assert abs(row["value"] - truths[row["view"], row["feature"], str(row["entity"])]) < 350
    told = (tmp_path / "told").read_text().partition("Next steps\n")[2]
    check_next_steps([one.partition(":")[2].strip() for one in told.splitlines()])
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") >= 3
    assert "true values" in page.lower()
    done = subprocess.run(
        [sys.executable, "-c", CONSUMER, str(tmp_path / "home" / "feast")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    features, state = (json.loads(line) for line in done.stdout.splitlines()[-2:])
    assert len(features["speed_mph_mean"]) == 24
    assert all(0.0 <= mean <= 60.0 for mean in features["speed_mph_mean"])
    assert (state["version"], state["epsilon"]) == ([3], [pytest.approx(0.2)])
    second = demo(tmp_path, "--days", "1")
    check(second, windows=4, versions=4)
    assert second["deliveries"]["sent"] == 3
    said = (tmp_path / "said").read_text()
    assert "applying the team's repository\n" in said
    assert "creating" not in said
    assert "interrupted" not in said


@pytest.mark.soak
def test_an_interrupted_demo_goes_on_when_it_is_run_again(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "ptkstore.cli.main",
        "demo",
        "--home",
        str(tmp_path / "home"),
        "--days",
        "3",
    ]
    with subprocess.Popen([*command, "--report", str(tmp_path / "r.json")], cwd=tmp_path) as running:
        deadline = time.monotonic() + 300
        while not list(
            (tmp_path / "home" / "raw").glob("taxi/1/parts/*")
        ):  # the second day is being worked on
            assert time.monotonic() < deadline
            assert running.poll() is None
            time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        running.wait(60)
    made = demo(tmp_path, "--days", "1")
    check(made, windows=3, versions=3)


@pytest.mark.parametrize("file", ["nyc_green_taxi.parquet", "nyc_yellow_taxi_2016.parquet"])
def test_the_demo_runs_on_real_trips(real_data: Path, tmp_path: Path, file: str) -> None:
    if not (real_data / file).is_file():
        pytest.skip(f"{file} is not among the real data")
    made = demo(tmp_path, "--data", str(real_data / file), "--days", "2")
    check(made, windows=2, versions=2)
    assert made["source"] == file


def test_a_report_inside_the_home_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    with pytest.raises(InvalidRequest, match="outside the PTK home"):
        report.check_target(tmp_path / "home" / "report.json", tmp_path / "home")
