"""The broker as the relay sees it: hints go out, and nobody reads more than a number."""

from __future__ import annotations

from celery import Celery
from kombu.exceptions import ChannelError, OperationalError
from kombu.transport.virtual import Channel

from ptkstore.errors import Unavailable
from workers.app import QUEUE

_NO_SUCH_QUEUE = "404"


class Broker:
    """Hints in a queue. Its connections are opened when they are needed, and again after they failed."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._connection = app.connection_for_read()
        self._channel: Channel | None = None

    def hint(self, job_id: str) -> None:
        """Put a job's id into the queue; `Unavailable` if nobody knows whether it got there."""
        try:
            self._app.send_task("ptk.run_job", (job_id,), ignore_result=True)
        except self._errors as error:
            raise _silent(error) from None

    def waiting(self) -> int:
        """Count the hints that nobody has read yet; `Unavailable` if the broker does not say."""
        try:
            if self._channel is None:
                self._channel = self._connection.channel()
            return int(self._channel.queue_declare(queue=QUEUE, passive=True).message_count)
        except self._errors as error:
            # nothing was ever sent
            if isinstance(error, ChannelError) and error.reply_code == _NO_SUCH_QUEUE:
                return 0
            # One that broke is not mended: kombu's own may fail for ever once its server was away.
            self._channel, self._connection = None, self._app.connection_for_read()
            raise _silent(error) from None

    @property
    def _errors(self) -> tuple[type[Exception], ...]:
        return (OperationalError, *self._connection.connection_errors, *self._connection.channel_errors)


def _silent(error: Exception) -> Unavailable:
    return Unavailable(f"the broker does not answer ({type(error).__name__})")
