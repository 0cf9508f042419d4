"""The log: JSON lines of ids, steps and fixed codes on standard error, nothing else (differences.md F6, F9).

The library that writes it is loaded by whoever logs, or configures it: many processes never do.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime
from typing import Any

from ptkstore.errors import PtkStoreError

_STDERR = 2
_waiting = False


def configure_logging(*, when_needed: bool = False) -> None:
    """Write one JSON object per line to standard error.

    A process that must log whatever happens to it does all of this at its start; a command does it `when_needed`.
    """
    global _waiting
    _waiting = when_needed
    if when_needed:
        return
    import structlog

    # Where the process began without one, its number is some other file's by now.
    lines = _Lines(_STDERR if sys.__stderr__ is not None else os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC))
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(sort_keys=True),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=lambda *_: lines,
        cache_logger_on_first_use=True,
    )


class _Lines:
    """A file, a system call for each line and no lock: a destructor may log in the middle of any other line.

    Logging never raises. A line that cannot be written, as on a full disk or a closed pipe, is lost;
    the next line that is written follows one that says how many were.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lost, self._torn = 0, False

    def msg(self, line: str) -> None:
        """Write it and a line's end."""
        lost, self._lost = self._lost, 0
        if lost and not self._wrote(_lines_lost(lost)):
            self._lost += lost + 1
        elif not self._wrote(line):
            self._lost += 1

    debug = info = warning = error = critical = msg

    def _wrote(self, line: str) -> bool:
        data = b"\n" * self._torn + line.encode(errors="backslashreplace") + b"\n"
        rest = data
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            self._torn |= len(rest) < len(data)
            return False
        self._torn = False
        return True


def _lines_lost(number: int) -> str:
    said = {"event": "log lines were lost", "level": "warning", "lines": number}
    return json.dumps(said | {"timestamp": datetime.now(UTC).isoformat()}, sort_keys=True)


def logger(name: str = "ptkstore") -> Any:
    """Return the logger of this name."""
    import structlog

    if _waiting:
        configure_logging()
    return structlog.get_logger(name)


def code_of(error: Exception) -> str:
    """Describe an error in a line: the text of one that is not ours may hold anything (differences.md F9)."""
    return error.code if isinstance(error, PtkStoreError) else type(error).__name__


def log_code(event: str, job_id: str, code: str) -> None:
    """Log a line with a fixed code; messages of errors are not logged."""
    logger().warning(event, job=job_id, code=code)
