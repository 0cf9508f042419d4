"""Records of measured significance: noisy thresholds and their answers, and losses that were released."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime

from ptkstore.domain.draft_ids import draft_id
from ptkstore.domain.streams.windows import WindowId


@dataclass(frozen=True, slots=True)
class Threshold:
    """A noisy threshold that was paid for and has not answered "above"; a line of a window has one at most.

    Attributes
    ----------
    window, line
        The window whose profile part is compared with it, and the line of the budget that paid for it.
    reservation : str
        The key of the charge that paid for its noise.
    sealed : bytes
        Its secret, under a key that is made of that of the window and one of its own. Either may be destroyed.
    """

    window: WindowId
    line: str
    reservation: str
    sealed: bytes = field(repr=False)

    @property
    def key_id(self) -> str:
        """Names its own key in the key store."""
        return threshold_key_id(self.window, self.reservation)


def threshold_key_id(window: WindowId, reservation: str) -> str:
    """Return the name of the key of a threshold. It names the window, with which it is destroyed."""
    return draft_id(window, f"threshold-{hashlib.sha256(reservation.encode()).hexdigest()[:32]}")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One answer of a noisy threshold, as it was released.

    Attributes
    ----------
    job_id, ptk_id, window
        The comparison, the PTK whose newest version was compared, and where.
    since : datetime
        When the PTK had begun to wait: its answers count until it waits anew.
    above : bool
        Whether the window teaches the PTK enough.
    """

    job_id: str
    ptk_id: str
    window: WindowId
    since: datetime
    above: bool


@dataclass(frozen=True, slots=True)
class ReleasedLoss:
    """The clipped losses of a version on a window's profile part, added, as they were released with noise.

    Attributes
    ----------
    job_id, ptk_id, window
        The run that paid for the release, the PTK, and where.
    version : int
        The version of these losses: the number counts while this is the version that is compared.
    since : datetime
        When the PTK had begun to wait: a release that failed counts until it waits anew.
    noisy : float or None
        In clipped losses; None if the run failed, which grants nothing.
    """

    job_id: str
    ptk_id: str
    window: WindowId
    version: int
    since: datetime
    noisy: float | None
