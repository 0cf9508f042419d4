"""The outbox relay: delivers to subscribers, and hints every other job that is due until it is done."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Self

from ptkstore.adapters.runtime import configure_logging, log_code, log_no_texts
from ptkstore.application.operations.essential_thread import EssentialThread
from ptkstore.application.operations.liveness import ProcessRole
from ptkstore.errors import OutcomeUnknown, PtkStoreError, Unavailable
from ptkstore.wiring import Service
from workers import process
from workers.app import make_app
from workers.broker import Broker
from workers.liveness import LivenessReporter

PERIOD_SECONDS = 0.1
LOOK_SECONDS = 0.2  # how often an idle relay looks for deliveries
HINT_AGAIN_SECONDS = 2.0
STALLED_SECONDS = 120.0  # a pass whose catalog does not answer takes a minute
DRAIN_SECONDS = 4.0  # for calls that are on their way when the relay is told to stop
LAST_WORDS_SECONDS = 4.0  # for the pass that was under way, and to write down
LAST_HINT_SECONDS = 1.0  # with both former ones below a supervisor's 10
BATCH = 200
MOST_WAITING = 400


class Relay:
    """Sends each due job's id, and sends it again while the job stays due. Losing a hint or the relay only delays."""

    def __init__(
        self,
        due: Callable[[int], tuple[str, ...]],
        send: Callable[[str], None],
        waiting: Callable[[], int],
    ) -> None:
        """`waiting` tells how many hints are in the queue: beyond `MOST_WAITING` no more are sent."""
        self._due = due
        self._send = send
        self._waiting = waiting
        self._hinted: dict[str, float] = {}

    def pass_once(self, now: float) -> int:
        """Look once at the catalog, and return how many hints were sent."""
        # workers are busy or gone; what is due is hinted at once they read on
        if self._waiting() >= MOST_WAITING:
            return 0
        due = self._due(BATCH)
        self._hinted = {
            job: at for job, at in self._hinted.items() if job in due and now - at < HINT_AGAIN_SECONDS
        }
        fresh = [job for job in due if job not in self._hinted]
        for job in fresh:
            self._send(job)
            self._hinted[job] = now
        return len(fresh)


class Deliverer:
    """Delivers what is due, from a thread of its own: a slow broker does not hold it up, nor it the hints."""

    def __init__(self, service: Service, stop: threading.Event) -> None:
        self._deliveries, self._stop = service.due_deliveries(), stop
        self._passed_at = time.monotonic()
        self._thread = EssentialThread(self._run, "deliveries")

    def passed_within(self, seconds: float) -> bool:
        """Tell whether it looked for deliveries so recently; one that hangs, or fails for no known reason, did not."""
        return time.monotonic() - self._passed_at < seconds

    def start(self) -> Self:
        """Deliver until told to stop."""
        self._thread.start()
        return self

    def join(self) -> None:
        """Wait, not for long, until all that was claimed is delivered or given back."""
        self._thread.join(DRAIN_SECONDS + LAST_WORDS_SECONDS)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._guarded(self._pass)
        self._guarded(lambda: self._deliveries.drain(DRAIN_SECONDS))

    def _pass(self) -> None:
        waits = not self._deliveries.pass_once(PERIOD_SECONDS)
        self._passed_at = time.monotonic()
        if waits:
            self._stop.wait(LOOK_SECONDS)

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except PtkStoreError as error:
            self._passed_at = time.monotonic()
            log_code("deliveries wait", "-", error.code)
            self._stop.wait(1.0)
        except Exception as error:  # noqa: BLE001 - the text of another error may hold anything (differences.md F9)
            log_code("deliveries failed unexpectedly", "-", type(error).__name__)
            self._stop.wait(1.0)


class Hinter:
    """Hints what is due and shows that the relay lives, from a thread of its own.

    It shows no life while deliveries do not pass.

    A broker that is away only delays: workers hear of nothing then, and subscribers of everything. A call to one that
    does not answer ends with its time limit, not with a signal: a relay that has to stop leaves it behind. An
    unforeseen exception ends the relay, for its supervisor to begin anew.
    """

    def __init__(
        self,
        relay: Relay,
        alive: LivenessReporter,
        stop: threading.Event,
        well: Callable[[], bool] = lambda: True,
    ) -> None:
        """`well` tells whether everything beside it works."""
        self._relay, self._liveness, self._stop, self._well = relay, alive, stop, well
        self.failed = False
        self._thread = EssentialThread(self._run, "hints")

    def start(self) -> Self:
        """Hint until told to stop."""
        self._thread.start()
        return self

    def join(self) -> None:
        """Let a hint that is being sent be sent, if that is done at once."""
        self._thread.join(LAST_HINT_SECONDS)

    def _run(self) -> None:
        while not self._stop.wait(PERIOD_SECONDS):
            try:
                if self._well():
                    self._liveness.show()
                self._relay.pass_once(time.monotonic())
            except (Unavailable, OutcomeUnknown, OSError) as error:
                log_code("hints wait", "-", type(error).__name__)
                self._stop.wait(1.0)
            except Exception as error:  # noqa: BLE001 - the text of another error may hold anything (differences.md F9)
                if self._stop.is_set():  # what it works with is being closed beside it
                    return
                log_code("hints failed unexpectedly", "-", type(error).__name__)
                self.failed = True
                self._stop.set()


def main() -> int:
    """Run until told to stop; 1 if something unforeseen ended it."""
    stop = process.stop_event()
    configure_logging()
    log_no_texts()
    service = process.make_service()
    broker = Broker(make_app(service.broker_url))
    relay = Relay(service.due_for_workers, broker.hint, broker.waiting)
    deliverer = Deliverer(service, stop).start()
    well = partial(deliverer.passed_within, STALLED_SECONDS)
    hinter = Hinter(relay, LivenessReporter(service, ProcessRole.RELAY), stop, well).start()
    stop.wait()
    deliverer.join()
    hinter.join()
    service.close()  # sends the spans that are left
    return int(hinter.failed)


if __name__ == "__main__":
    sys.exit(main())
