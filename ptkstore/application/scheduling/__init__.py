"""Schedulers: who waits on a stream, and what its strategy proposes."""

from typing import TYPE_CHECKING

from ptklib import lazy

if TYPE_CHECKING:
    from ptkstore.application.scheduling import read_queue as read_queue
    from ptkstore.application.scheduling import simulate_stream as simulate_stream
else:
    __getattr__ = lazy.modules(__name__)
