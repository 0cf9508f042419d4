"""The machine's clock and log."""

from ptkstore.adapters.world.clock import SystemClock
from ptkstore.adapters.world.log import code_of, configure_logging, log_code
from ptkstore.adapters.world.requests import RequestLog
from ptkstore.adapters.world.steps import LoggedSteps, SilentSteps
from ptkstore.adapters.world.unexpected_errors import log_no_texts, place_of

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
