"""Use cases of streams: what they are, how they grow, what is kept of them."""

from typing import TYPE_CHECKING

from ptklib import lazy

if TYPE_CHECKING:
    from ptkstore.application.streams import create_stream as create_stream
    from ptkstore.application.streams import evolve_stream as evolve_stream
    from ptkstore.application.streams import exposure as exposure
    from ptkstore.application.streams import read_time_line as read_time_line
else:
    __getattr__ = lazy.modules(__name__)
