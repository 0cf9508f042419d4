"""What a process writes when something ends it, or a thread of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ptkstore.application.operations.essential_thread import FAILED_STATUS
from tests.faults.machine import ROOT

pytestmark = pytest.mark.long

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
from ptkstore.adapters.runtime import configure_logging, log_no_texts
def fails():
    raise KeyError("{CANARY}")
configure_logging()
log_no_texts()
thread = threading.Thread(target=fails)
thread.start()
thread.join()
"""
IN_A_DESTRUCTOR = f"""
from ptkstore.adapters.runtime import configure_logging, log_no_texts
class Fails:
    def __del__(self):
        raise KeyError("{CANARY}")
configure_logging()
log_no_texts()
Fails()
"""
IN_A_TASK = f"""
import asyncio
import gc
from ptkstore.adapters.runtime import configure_logging, log_no_texts
async def fails():
    raise KeyError("{CANARY}")
async def main():
    task = asyncio.create_task(fails())
    await asyncio.sleep(0)
    del task
    gc.collect()
configure_logging()
log_no_texts()
asyncio.run(main())
"""
IN_A_LIBRARY = f"""
import logging
from ptkstore.adapters.runtime import configure_logging, log_no_texts
configure_logging()
log_no_texts()
try:
    raise KeyError("{CANARY}")
except KeyError:
    {{how}}
"""
LIBRARY_LOGS = [
    f'logging.getLogger("a.library").exception("what of {CANARY}")',
    f'logging.getLogger("a.library").log(45, "what of {CANARY}", exc_info=True)',
    f'logging.lastResort.handle(logging.LogRecord("a.library", 40, "<string>", 9, "{CANARY}", (), 1))',
]
INTERRUPTED = f"""
from ptkstore.adapters.runtime import configure_logging, log_no_texts
configure_logging()
log_no_texts()
try:
    raise ValueError("{CANARY}")
except ValueError:
    raise KeyboardInterrupt("{CANARY}")
"""
WHILE_A_LINE_IS_WRITTEN = f"""
import faulthandler
import gc
import os
from ptkstore.adapters.runtime import configure_logging, log_code, log_no_texts
faulthandler.dump_traceback_later(60, exit=True)
class Fails:
    def __del__(self):
        raise KeyError("{CANARY}")
configure_logging()
log_no_texts()
write = os.write
def slowly(*given):
    gc.collect()  # as any allocation may
    return write(*given)
os.write = slowly
fails = Fails()
fails.itself = fails
del fails
log_code("first", "-", "ok")
"""


WHILE_NOTHING_CAN_BE_WRITTEN = """
import os
write = os.write
def full(descriptor, data):
    os.write = write  # its reader goes on
    raise BlockingIOError("the pipe is full")
os.write = full
"""
FAILING = {
    "process": IN_A_LIBRARY.partition("try:")[0] + f'{{now}}\nraise KeyError("{CANARY}")',
    "thread": IN_A_THREAD.replace("thread.start()", "{now}\nthread.start()"),
    "destructor": IN_A_DESTRUCTOR.replace("\nFails()", "\n{now}\nFails()"),
}
AFTER_A_LIBRARY_SET_UP_THE_ROOT = f"""
import logging
from ptkstore.adapters.runtime import configure_logging, log_no_texts
{{before}}
configure_logging()
log_no_texts()
configure_logging()
log_no_texts()  # as in a worker
from absl import logging as absl
absl.warning("what of {CANARY}")
logging.basicConfig()
logging.getLogger("a.library").error("what of {CANARY}")
"""


WARNS = f"""
import warnings
from ptkstore.adapters.runtime import configure_logging, log_no_texts
configure_logging()
log_no_texts()
warnings.warn("what of {CANARY}")
"""
ENDS_ITSELF = IN_A_THREAD.replace("KeyError(", "SystemExit(")


def last_words(tmp_path: Path, code: str, **settings: str) -> tuple[int, dict[str, Any]]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PTK_HOME": str(tmp_path / "home"), **settings}
    status, [line] = all_words(code, env)
    return status, json.loads(line)


def all_words(code: str, env: Mapping[str, str]) -> tuple[int, list[str]]:
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert CANARY not in done.stdout + done.stderr
    return done.returncode, done.stderr.splitlines()


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


def test_a_thread_that_ends_itself_says_nothing() -> None:
    assert all_words(ENDS_ITSELF, {**os.environ, "PYTHONPATH": str(ROOT)}) == (0, [])


def test_what_a_library_warns_of_is_told_by_its_kind_and_place(tmp_path: Path) -> None:
    status, line = last_words(tmp_path, WARNS)
    told = (status, line["event"], line["level"], line["kind"], line["place"])
    assert told == (0, "a library warns", "warning", "UserWarning", "<string>:6")


def test_a_destructor_that_fails_says_no_more_of_it(tmp_path: Path) -> None:
    status, line = last_words(tmp_path, IN_A_DESTRUCTOR)
    told = (status, line["event"], line["kind"])
    assert told == (0, "destructor or callback failed unexpectedly", "KeyError")


def test_a_task_that_nobody_waits_for_says_no_more_of_it(tmp_path: Path) -> None:
    status, line = last_words(tmp_path, IN_A_TASK)
    told = (status, line["event"], line["logger"], line["level"], line["kind"], line["raised_at"])
    assert told == (0, "a library says something", "asyncio", "error", "KeyError", "<string>:6")


@pytest.mark.parametrize("how", LIBRARY_LOGS)
def test_what_a_library_logs_is_told_by_its_place(tmp_path: Path, how: str) -> None:
    status, line = last_words(tmp_path, IN_A_LIBRARY.format(how=how))
    told = (status, line["logger"], line["level"], line["kind"], line["place"])
    assert told == (0, "a.library", "error", "KeyError", "<string>:9")


@pytest.mark.parametrize("where", FAILING)
def test_what_fails_while_nothing_can_be_written_says_nothing(where: str) -> None:
    code = FAILING[where].replace("{now}", WHILE_NOTHING_CAN_BE_WRITTEN)
    status, lines = all_words(code, {**os.environ, "PYTHONPATH": str(ROOT)})
    assert (status, lines) == (where == "process", [])


@pytest.mark.parametrize("before", ["", "logging.basicConfig()"])
def test_no_library_sets_up_what_prints_the_texts_of_all_others(before: str) -> None:
    code = AFTER_A_LIBRARY_SET_UP_THE_ROOT.format(before=before)
    status, lines = all_words(code, {**os.environ, "PYTHONPATH": str(ROOT)})
    told = [(line["logger"], line["level"]) for line in map(json.loads, lines)]
    assert (status, told) == (0, [("absl", "warning"), ("a.library", "error")])


def test_an_interrupted_process_says_nothing_of_what_it_was_at() -> None:
    status, lines = all_words(INTERRUPTED, {**os.environ, "PYTHONPATH": str(ROOT)})
    assert (status, lines) == (-signal.SIGINT, ["KeyboardInterrupt"])


def test_a_destructor_that_fails_while_a_line_is_written_stops_nobody() -> None:
    status, lines = all_words(WHILE_A_LINE_IS_WRITTEN, {**os.environ, "PYTHONPATH": str(ROOT)})
    told = [json.loads(line)["event"] for line in lines]
    assert (status, told) == (0, ["destructor or callback failed unexpectedly", "first"])


def test_without_standard_error_lines_go_nowhere_and_not_into_the_next_file(tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
file = open({str(tmp_path / "next")!r}, "wb", buffering=0)
assert file.fileno() == 2
from ptkstore.adapters.runtime import configure_logging, log_code
configure_logging()
log_code("a line", "-", "ok")
"""
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" 2>&-', sys.executable, code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"")
    assert (tmp_path / "next").read_bytes() == b""


@pytest.mark.parametrize(
    "module", ["workers.schedule", "workers.relay", "workers.worker", "ptkstore.api.__main__"]
)
def test_a_setting_that_does_not_parse_is_named_without_its_value(tmp_path: Path, module: str) -> None:
    code = f"import sys; sys.argv[1:] = []; from {module} import main; main()"
    status, line = last_words(tmp_path, code, PTK_LEASE_SECONDS=CANARY)
    assert (status, line["event"], line["code"]) == (1, "process ended", "invalid-request")
    assert "PTK_LEASE_SECONDS" in line["why"]


NEVER_RAISES = """
import logging, os, sys
from ptkstore.adapters.runtime import LoggedSteps, RequestLog, configure_logging, log_code, log_no_texts
configure_logging()
log_no_texts()
at_first, heard = os.dup(2), os.dup(2)
def say():
    log_code("a line", "-", "ok")
    LoggedSteps().reached("step", "job")
    RequestLog().failed("request", ValueError())
    logging.getLogger("a.library").error("a library")
    logging.StreamHandler().handle(logging.LogRecord("x", 40, "y", 1, "", (), None))
{unwritable}
say()
os.dup2(heard, 2)
log_code("at last", "-", "ok")
"""
UNWRITABLE = {
    "full disk": 'os.dup2(os.open("/dev/full", os.O_WRONLY), 2)',
    "closed pipe": "reader, writer = os.pipe(); os.close(reader); os.dup2(writer, 2)",
    "no file": "os.close(2)",
}


@pytest.mark.parametrize("why", UNWRITABLE)
def test_what_cannot_be_written_raises_nothing_and_is_counted(why: str) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    status, lines = all_words(NEVER_RAISES.format(unwritable=UNWRITABLE[why]), env)
    told = [json.loads(line) for line in lines]
    assert status == 0
    assert [line["event"] for line in told] == ["log lines were lost", "at last"]
    assert told[0]["lines"] == 4


def test_a_line_that_was_cut_short_does_not_spoil_the_next() -> None:
    code = """
import os
from ptkstore.adapters.runtime import configure_logging, log_code
configure_logging()
write, left = os.write, [20]
def nearly_full(descriptor, data):
    if not left[0]:
        raise OSError(28, "No space left on device")
    left[0] -= (n := write(descriptor, data[: left[0]]))
    return n
os.write = nearly_full
log_code("first", "-", "ok")
os.write = write
log_code("second", "-", "ok")
"""
    status, lines = all_words(code, {**os.environ, "PYTHONPATH": str(ROOT)})
    assert (status, len(lines), len(lines[0])) == (0, 3, 20)
    assert [json.loads(line)["event"] for line in lines[1:]] == ["log lines were lost", "second"]


ENDS_WITH_ITS_THREAD = f"""
import threading
from ptkstore.adapters.runtime import configure_logging, log_no_texts
from ptkstore.application.operations.essential_thread import EssentialThread
def fails():
    raise {{error}}("{CANARY}")
configure_logging()
log_no_texts()
EssentialThread(fails, "works").start()
threading.Event().wait(60)
"""


@pytest.mark.parametrize("error", ["KeyError", "SystemExit"])
def test_a_process_whose_essential_thread_fails_ends_and_says_so(error: str) -> None:
    code = ENDS_WITH_ITS_THREAD.format(error=error)
    status, lines = all_words(code, {**os.environ, "PYTHONPATH": str(ROOT)})
    assert status == FAILED_STATUS
    assert [json.loads(line)["event"] for line in lines] == ["thread failed unexpectedly"] * (
        error == "KeyError"
    )


@pytest.mark.parametrize("thread", ["Deliverer._run", "Hinter._run"])
def test_a_relay_whose_thread_fails_ends(tmp_path: Path, thread: str) -> None:
    code = ENDS.format(module="relay", where=f"ended.{thread}")
    home = {"PTK_HOME": str(tmp_path / "home"), "PTK_REDIS_URL": "redis://127.0.0.1:1/0"}
    status, lines = all_words(code, {**os.environ, "PYTHONPATH": str(ROOT), **home})
    assert status == FAILED_STATUS
    assert json.loads(lines[0])["kind"] == "KeyError"
