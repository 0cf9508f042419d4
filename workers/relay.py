"""The outbox relay: delivers to subscribers, and hints every other job that is due until it is done."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Self

from celery import Celery
from kombu.exceptions import ChannelError, OperationalError

from ptkstore.adapters.world import configure_logging, log_code
from ptkstore.application.signs_of_life import ProcessRole
from ptkstore.errors import OutcomeUnknown, PtkStoreError, Unavailable
from ptkstore.wiring import Service
from workers import process
from workers.app import QUEUE, make_app
from workers.life import Life

PERIOD_SECONDS = 0.1
LOOK_SECONDS = 0.2  # how often an idle relay looks for deliveries
HINT_AGAIN_SECONDS = 2.0
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
        """`waiting` tells how many hints lie in the queue: beyond `MOST_WAITING` no more are sent."""
        self._due = due
        self._send = send
        self._waiting = waiting
        self._hinted: dict[str, float] = {}

    def pass_once(self, now: float) -> int:
        """One look at the catalog; returns how many hints were sent."""
        if (
            self._waiting() >= MOST_WAITING
        ):  # workers are busy or gone; what is due is hinted at once they read on
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
        self._thread = threading.Thread(target=self._run, name="deliveries", daemon=True)

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
        if not self._deliveries.pass_once(PERIOD_SECONDS):
            self._stop.wait(LOOK_SECONDS)

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except PtkStoreError as error:
            log_code("deliveries wait", "-", error.code)
            self._stop.wait(1.0)
        except Exception as error:  # noqa: BLE001 - the text of any other error may hold anything (PAPERS F9)
            log_code("deliveries failed unexpectedly", "-", type(error).__name__)
            self._stop.wait(1.0)


class Hinter:
    """Hints what is due and shows that the relay lives, from a thread of its own.

    A call to a broker that does not answer ends with its time limit, not with a signal: who is told to stop leaves it
    behind. A hint that is lost with it only delays. What nobody foresaw ends the relay, for its supervisor to begin
    anew: a connection that broke within the client library may never work again.
    """

    def __init__(self, relay: Relay, life: Life, stop: threading.Event) -> None:
        self._relay, self._life, self._stop = relay, life, stop
        self.failed = False
        self._thread = threading.Thread(target=self._run, name="hints", daemon=True)

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
                self._relay.pass_once(time.monotonic())
                self._life.show()
            except (Unavailable, OutcomeUnknown, OperationalError, OSError) as error:
                log_code("hints wait", "-", type(error).__name__)
                self._stop.wait(1.0)
            except Exception as error:  # noqa: BLE001 - the text of any other error may hold anything (PAPERS F9)
                log_code("hints failed unexpectedly", "-", type(error).__name__)
                self.failed = True
                self._stop.set()


def main() -> int:
    """Run until told to stop; 1 if something unforeseen ended it."""
    stop = stop_event()
    configure_logging()
    service = process.make_service()
    app = make_app(service.broker_url)
    relay = Relay(
        partial(service.due, deliveries=False),
        lambda job_id: app.send_task("ptk.run_job", (job_id,), ignore_result=True) and None,
        lambda: queue_length(app),
    )
    deliverer = Deliverer(service, stop).start()
    hinter = Hinter(relay, Life(service, ProcessRole.RELAY), stop).start()
    stop.wait()
    deliverer.join()
    hinter.join()
    service.close()  # sends the spans that are left
    return int(hinter.failed)


def queue_length(app: Celery) -> int:
    """How many hints nobody has read yet."""
    with app.connection_or_acquire() as connection, connection.channel() as channel:
        try:
            return int(channel.queue_declare(queue=QUEUE, passive=True).message_count)
        except ChannelError:  # nothing was ever sent
            return 0


def stop_event() -> threading.Event:
    """An event that SIGTERM and SIGINT set."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


if __name__ == "__main__":
    sys.exit(main())
