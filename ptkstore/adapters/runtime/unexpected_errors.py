"""Unforeseen errors: reported by kind and place, as their text may contain anything (differences.md F9)."""

from __future__ import annotations

import logging
import sys
import threading
import traceback
import warnings
from contextlib import suppress
from types import TracebackType
from typing import TextIO

from ptkstore.adapters.runtime.log import logger
from ptkstore.errors import PtkStoreError


def place_of(error: BaseException) -> str:
    """Name file and line that raised it, as seen from where modules are found."""
    frames = traceback.extract_tb(error.__traceback__)
    return _below_path(f"{frames[-1].filename}:{frames[-1].lineno}") if frames else "?"


def _below_path(place: str) -> str:
    for prefix in sorted(sys.path, key=len, reverse=True):
        if prefix and place.startswith(prefix):
            return place.removeprefix(prefix).lstrip("/")
    return place


class _Records(logging.Handler):
    """Tells who logged what kind of error where, and nothing of the message."""

    def emit(self, record: logging.LogRecord) -> None:
        """One line, or none: whose log call this is expects no error."""
        with suppress(Exception):
            self._tell(record)

    def _tell(self, record: logging.LogRecord) -> None:
        place = _below_path(f"{record.pathname}:{record.lineno}")
        said = {"logger": record.name, "place": place}
        given: object = record.exc_info  # typed as a triple; Celery hands over a number
        error = given[1] if isinstance(given, tuple) else sys.exception() if given else None
        if isinstance(error, BaseException):
            said |= {"kind": type(error).__name__, "raised_at": place_of(error)}
        log = logger()
        tell = log.error if record.levelno >= logging.ERROR else log.warning
        tell("a library says something", **said)


def log_no_texts() -> None:
    """Have our own errors logged whole, and without its text whatever else a process says on its way or at its end.

    That is what ends the process, a thread or a task of it, what libraries log where nobody set up their loggers,
    and what they warn of.
    """

    def of_process(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, kind(), None)
        else:
            _log("process", error)

    def of_thread(ended: threading.ExceptHookArgs) -> None:
        if not issubclass(ended.exc_type, SystemExit):  # a thread that ends itself
            _log("thread", ended.exc_value)

    def of_nobody(ignored: sys.UnraisableHookArgs) -> None:
        _log("destructor or callback", ignored.exc_value)

    def of_warning(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        with suppress(Exception):
            place = _below_path(f"{filename}:{lineno}")
            logger().warning("a library warns", kind=category.__name__, place=place)

    logging.raiseExceptions = False  # a handler of a library that fails would print the text of its record
    warnings.showwarning = of_warning
    sys.excepthook, threading.excepthook, sys.unraisablehook = of_process, of_thread, of_nobody
    records = _Records(logging.WARNING)
    # a root without handlers is what `logging.basicConfig` waits for, and absl calls it at its first line
    logging.basicConfig(handlers=[records], force=True)
    logging.lastResort = records  # of loggers that do not propagate


def _log(what: str, error: BaseException | None) -> None:
    with suppress(BaseException):  # Python prints the original where a hook fails
        log = logger()
        if isinstance(error, PtkStoreError):  # our own words: names and codes
            log.error(f"{what} ended", code=error.code, why=str(error))
        elif error is not None:
            log.error(f"{what} failed unexpectedly", kind=type(error).__name__, place=place_of(error))
