"""Team code that tests run, and the sandbox they run it in; a pytest plugin."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ptklib import TeamCode
from ptkstore.adapters.sandbox.parent import Bubblewrap, BubblewrapSandbox, Limits
from ptkstore.domain.ptks.bundles import pack, sha256_of
from ptkstore.errors import NoSandbox
from ptkstore.ports.team_code import Examined, Finding
from tests.support.plugins.lacking import without

ROOMY = Limits(timeout_seconds=300.0, memory_bytes=4 << 30)
HOURS = {
    "hours": {
        "keys": ["hour"],
        "columns": [["hour", "int64"], ["trips", "int64"]],
        "domains": {"hour": {"first": 0, "last": 23}},
    }
}
GOOD = """\
import numpy as np
import pyarrow as pa
from ptklib.mechanisms import laplace


def train_dp(trainset_iter, epsilon, previous_model_state, previous_config):
    counts = np.zeros(24, dtype=np.int64)
    for table in trainset_iter:
        hours = table.column("hour").drop_null().to_numpy()
        counts += np.bincount(hours[(hours >= 0) & (hours < 24)], minlength=24)
    noisy = laplace(counts, l1_sensitivity=1, epsilon=epsilon)
    if previous_model_state is not None:
        noisy = noisy + previous_model_state["hours"].column("trips").to_numpy()
    return {"hours": pa.table({"hour": np.arange(24), "trips": noisy})}


def evaluate(testset_iter, model_state):
    return float(sum(table.num_rows for table in testset_iter) > 0)
"""
REPOSITORY = """\
from ptkstore import PTK, TeamFunctions
from own import evaluate, train_dp

trips = PTK(
    name="trips",
    stream="taxi",
    target=TARGET,
    estimator=TeamFunctions(
        train_dp=train_dp,
        eval=evaluate,
        columns=["hour"],
        tables={
            "hours": {
                "keys": ["hour"],
                "columns": {"hour": "int64", "trips": "int64"},
                "domains": {"hour": range(24)},
            }
        },
        synthetic={"hour": range(24)},
        epsilon=0.1,
    ),
)
"""


def bundle_with(code: str, **files: str) -> bytes:
    """A bundle of the module `own` and others."""
    return pack({name + ".py": text.encode() for name, text in {"own": code, **files}.items()})


def described(bundle: bytes, **changes: Any) -> Mapping[str, Any]:
    """`own:train_dp` of a bundle as data."""
    fields: dict[str, Any] = {
        "bundle": sha256_of(bundle),
        "code": "own:train_dp",
        "columns": ["hour"],
        "tables": HOURS,
        "synthetic": {"hour": list(range(24))},
        "epsilon": 0.1,
        "noise_names": [],
    }
    spec: Mapping[str, Any] = TeamCode(**{**fields, **changes}).to_spec()
    return spec


def write_repository(folder: Path, code: str = GOOD, *, target: float = 0.1, ptks: str = REPOSITORY) -> Path:
    """A team's repository with code of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "team.toml").write_text('team = "taxi"\n')
    (folder / "ptks.py").write_text(ptks.replace("TARGET", str(target)))
    (folder / "own.py").write_text(code)
    return folder


class Inspector:
    """In place of the sandbox, whose own tests are elsewhere: says what it is told to say."""

    def __init__(self) -> None:
        self.works = True
        self.findings: tuple[Finding, ...] = (Finding("loads", "passed"),)
        self.said: dict[str, Any] = {}
        self.examined: list[Mapping[str, Any]] = []
        self.checked = 0

    def check(self) -> None:
        self.checked += 1
        if not self.works:
            raise NoSandbox("no sandbox here")

    def examine(self, estimator: Mapping[str, Any], bundle: bytes, runs: int, team: str = "") -> Examined:
        self.check()
        self.examined.append(estimator)
        params = estimator["params"]
        names = ("columns", "selected", "epsilon", "delta", "unit", "max_rows_per_unit")
        tables = {name: form.to_json() for name, form in TeamCode(**params).table_schemas().items()}
        said = {name: params[name] for name in names} | {"tables": tables} | self.said
        return Examined(said, self.findings)


@cache
def not_installed() -> str | None:
    """Why there is no bubblewrap, which every machine can have."""
    command = shutil.which(Bubblewrap().command)
    if command is None:
        return "it is not installed: apt-get install bubblewrap"
    tried = subprocess.run([command, "--version"], capture_output=True, check=False, timeout=120)
    return None if tried.returncode == 0 else f"what is installed does not run: {_last_line(tried.stderr)}"


@cache
def not_let() -> str | None:
    """Why bubblewrap can make no sandbox on this machine; what is wrong with ours is for the tests to find."""
    apart = ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--ro-bind", "/", "/")
    user = () if os.getuid() == 0 else ("--unshare-user",)
    tried = subprocess.run(
        [Bubblewrap().command, *user, *apart, "/bin/true"], capture_output=True, check=False, timeout=120
    )
    return None if tried.returncode == 0 else _last_line(tried.stderr)


def _last_line(told: bytes) -> str:
    return (told.decode(errors="replace").strip().splitlines() or ["it says nothing"])[-1]


@pytest.fixture
def sandbox() -> BubblewrapSandbox:
    """The sandbox of this machine.

    Where bubblewrap is not installed the test fails in continuous integration. Where it is, and the kernel or the
    container lets it make no namespaces, no installation helps: the test is skipped there too, and says so.
    """
    if (why := not_installed()) is not None:
        without("bubblewrap", why)
    if (why := not_let()) is not None:
        without(
            "namespaces for bubblewrap", f"this machine or container lets it make none ({why})", in_ci=False
        )
    return BubblewrapSandbox(Bubblewrap(), ROOMY)
