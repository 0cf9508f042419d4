"""Work of which only a few are done at once, so that it leaves threads for all other pages."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from ptkstore.errors import Unavailable

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Few:
    """Places for calls; one that finds none free is refused at once, and waits in no thread.

    Parameters
    ----------
    most : int
        How many calls run at once.
    """

    def __init__(self, most: int) -> None:
        self._places = threading.BoundedSemaphore(most)

    def guarding(self, call: Callable[_P, _T]) -> Callable[_P, _T]:
        """Return the call, which raises `Unavailable` while all places are taken."""

        def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            if not self._places.acquire(blocking=False):
                raise Unavailable("as many of these as may be are being made")
            try:
                return call(*args, **kwargs)
            finally:
                self._places.release()

        return guarded
