"""The outbox relay: sends a hint for every job that is due, again and again until it is done."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

from celery import Celery
from kombu.exceptions import ChannelError, OperationalError

from ptkstore.adapters.world import configure_logging, log_code
from ptkstore.errors import Unavailable
from workers.app import QUEUE, make_app
from workers.process import make_service

PERIOD_SECONDS = 0.1
HINT_AGAIN_SECONDS = 2.0
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


def main() -> None:
    """Run until told to stop."""
    configure_logging()
    service = make_service()
    app = make_app(service.broker_url)
    relay = Relay(
        service.due,
        lambda job_id: app.send_task("ptk.run_job", (job_id,), ignore_result=True) and None,
        lambda: queue_length(app),
    )
    stop = stop_event()
    while not stop.wait(PERIOD_SECONDS):
        try:
            relay.pass_once(time.monotonic())
        except (Unavailable, OperationalError, OSError) as error:
            log_code("relay waits", "-", type(error).__name__)
            stop.wait(1.0)


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
    main()
