"""The schedule: closes windows by the clock. Any number may run; the catalog's lock orders them.

Beside that it writes instances of models down that devices train.
"""

from __future__ import annotations

from contextlib import closing

from ptkstore.adapters.runtime import code_of, configure_logging, log_code, log_no_texts
from ptkstore.application.operations.liveness import ProcessRole
from ptkstore.wiring import Service
from workers.checkpoints import Checkpoints
from workers.liveness import LivenessReporter
from workers.process import make_service, stop_event

PERIOD_SECONDS = 1.0


def main() -> None:
    """Run until told to stop."""
    configure_logging()
    log_no_texts()
    with closing(make_service()) as service:
        stop, liveness = stop_event(), LivenessReporter(service, ProcessRole.SCHEDULE)
        checkpoints = Checkpoints(service, stop).start()
        more = False
        while not stop.wait(0 if more else PERIOD_SECONDS):
            more = pass_once(service, liveness)
        checkpoints.join()


def pass_once(service: Service, liveness: LivenessReporter) -> bool:
    """Close some of what is due on every stream, and tell whether one has more: it continues after all others.

    Trouble, whatever it is, does not keep the next pass from going on.
    """
    more = False
    try:
        for stream in service.streams_by_clock():
            more = close_due(service, stream) or more
        liveness.show()
    except Exception as error:  # noqa: BLE001 - a probe that misses signs of life ends what never goes on
        log_code("schedule waits", "-", code_of(error))
        return False
    return more


def close_due(service: Service, stream: str) -> bool:
    """Close some windows of one stream; trouble with it, whatever it is, does not keep the others waiting."""
    try:
        return service.close_some_windows(stream)
    except Exception as error:  # noqa: BLE001 - the text of another error may hold anything (differences.md F9)
        log_code("windows not closed", stream, code_of(error))
        return False


if __name__ == "__main__":
    main()
