"""What a process writes when something ends it, or a thread of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.faults.machine import ROOT

CANARY = "Ann 271828"
ENDS = f"""
import sys
from workers import {{module}} as ended
def fails(*_):
    raise KeyError("{CANARY}")
{{where}} = fails
sys.exit(ended.main())
"""
IN_A_THREAD = f"""
import threading
from ptkstore.adapters.world import configure_logging, log_no_texts
def fails():
    raise KeyError("{CANARY}")
configure_logging()
log_no_texts()
thread = threading.Thread(target=fails)
thread.start()
thread.join()
"""
IN_A_DESTRUCTOR = f"""
from ptkstore.adapters.world import configure_logging, log_no_texts
class Fails:
    def __del__(self):
        raise KeyError("{CANARY}")
configure_logging()
log_no_texts()
Fails()
"""


def last_words(tmp_path: Path, code: str, **settings: str) -> tuple[int, dict[str, Any]]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PTK_HOME": str(tmp_path / "home"), **settings}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert CANARY not in done.stdout + done.stderr
    [line] = done.stderr.splitlines()
    return done.returncode, json.loads(line)


@pytest.mark.parametrize(
    ("module", "where"),
    [
        ("schedule", "ended.make_service"),
        ("relay", "ended.process.make_service"),
        ("worker", "ended.load_settings"),
    ],
)
def test_what_nobody_foresaw_is_logged_by_its_kind_and_place(tmp_path: Path, module: str, where: str) -> None:
    status, line = last_words(tmp_path, ENDS.format(module=module, where=where))
    assert status == 1
    told = {name: line[name] for name in ("event", "kind", "place")}
    assert told == {"event": "process failed unexpectedly", "kind": "KeyError", "place": "<string>:5"}


def test_a_thread_that_fails_says_no_more_of_it(tmp_path: Path) -> None:
    status, line = last_words(tmp_path, IN_A_THREAD)
    assert (status, line["event"], line["kind"]) == (0, "thread failed unexpectedly", "KeyError")


def test_a_destructor_that_fails_says_no_more_of_it(tmp_path: Path) -> None:
    status, line = last_words(tmp_path, IN_A_DESTRUCTOR)
    told = (status, line["event"], line["kind"])
    assert told == (0, "destructor or callback failed unexpectedly", "KeyError")


@pytest.mark.parametrize(
    "module", ["workers.schedule", "workers.relay", "workers.worker", "ptkstore.api.__main__"]
)
def test_a_setting_that_does_not_parse_is_named_without_its_value(tmp_path: Path, module: str) -> None:
    code = f"import sys; sys.argv[1:] = []; from {module} import main; main()"
    status, line = last_words(tmp_path, code, PTK_LEASE_SECONDS=CANARY)
    assert (status, line["event"], line["code"]) == (1, "process ended", "invalid-request")
    assert "PTK_LEASE_SECONDS" in line["why"]
