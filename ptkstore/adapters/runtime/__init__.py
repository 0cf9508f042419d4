"""The machine's clock and log."""

from ptkstore.adapters.runtime.clock import SystemClock
from ptkstore.adapters.runtime.log import code_of, configure_logging, log_code
from ptkstore.adapters.runtime.requests import RequestLog
from ptkstore.adapters.runtime.steps import LoggedSteps, SilentSteps
from ptkstore.adapters.runtime.unexpected_errors import log_no_texts, place_of

__all__ = [
    "LoggedSteps",
    "RequestLog",
    "SilentSteps",
    "SystemClock",
    "code_of",
    "configure_logging",
    "log_code",
    "log_no_texts",
    "place_of",
]
