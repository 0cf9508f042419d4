"""The schedule: closes windows by the clock. Any number may run; the catalog's lock orders them."""

from __future__ import annotations

from contextlib import closing

from ptkstore.adapters.world import configure_logging, log_code, log_no_texts
from ptkstore.application.signs_of_life import ProcessRole
from ptkstore.errors import PtkStoreError
from ptkstore.wiring import Service
from workers.life import Life
from workers.process import make_service, stop_event

PERIOD_SECONDS = 1.0


def main() -> None:
    """Run until told to stop."""
    configure_logging()
    log_no_texts()
    with closing(make_service()) as service:
        stop, life = stop_event(), Life(service, ProcessRole.SCHEDULE)
        while not stop.wait(PERIOD_SECONDS):
            pass_once(service, life)


def pass_once(service: Service, life: Life) -> None:
    """Close what is due; trouble, whatever it is, does not keep the next pass from going on."""
    try:
        for stream in service.streams_by_clock():
            close_due(service, stream)
        life.show()
    except Exception as error:  # noqa: BLE001 - a probe that misses signs of life ends what never goes on
        log_code("schedule waits", "-", _code(error))


def close_due(service: Service, stream: str) -> None:
    """Close what is due on one stream; trouble with it, whatever it is, does not keep the others waiting."""
    try:
        service.close_windows(stream)
    except Exception as error:  # noqa: BLE001 - the text of another error may hold anything (differences.md F9)
        log_code("windows not closed", stream, _code(error))


def _code(error: Exception) -> str:
    return error.code if isinstance(error, PtkStoreError) else type(error).__name__


if __name__ == "__main__":
    main()
