"""What nobody foresaw: told by its kind and its place, as its text may hold anything (PAPERS F9)."""

from __future__ import annotations

import sys
import threading
import traceback
from types import TracebackType

import structlog

from ptkstore.errors import PtkStoreError


def place_of(error: BaseException) -> str:
    """File and line that raised it, as seen from where modules are found."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "?"
    for prefix in sorted(sys.path, key=len, reverse=True):
        if prefix and place.startswith(prefix):
            return place.removeprefix(prefix).lstrip("/")
    return place


def log_no_texts() -> None:
    """Have what ends this process, or a thread of it, logged: our own errors whole, others without their texts."""

    def of_process(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
        else:
            _log("process", error)

    def of_thread(ended: threading.ExceptHookArgs) -> None:
        if ended.exc_value is not None:
            _log("thread", ended.exc_value)

    def of_nobody(ignored: sys.UnraisableHookArgs) -> None:
        if ignored.exc_value is not None:
            _log("destructor or callback", ignored.exc_value)

    sys.excepthook, threading.excepthook, sys.unraisablehook = of_process, of_thread, of_nobody


def _log(what: str, error: BaseException) -> None:
    log = structlog.get_logger("ptkstore")
    if isinstance(error, PtkStoreError):  # our own words: names and codes
        log.error(f"{what} ended", code=error.code, why=str(error))
    else:
        log.error(f"{what} failed unexpectedly", kind=type(error).__name__, place=place_of(error))
