"""Models that devices train: the instances of each, as the server of instances keeps them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from ptkstore.domain.ptks.start_from import StartFrom
from ptkstore.domain.streams.report_counts import Counts
from ptkstore.domain.tickets import Refusal
from ptkstore.domain.versions.device_models import DeviceModel

if TYPE_CHECKING:
    from ptklib.arrays import Floats
    from ptklib.draw_discard.instances import Instances as Weights
    from ptklib.draw_discard.specification import Specification


@dataclass(frozen=True, slots=True)
class Epoch:
    """The life of one set of instances of a PTK.

    Parameters
    ----------
    id : str
        Random; no other epoch has it.
    begun_for : str
        The model that it began for: `DevicePtk.begun_for` of that time.
    """

    id: str
    begun_for: str


@dataclass(frozen=True, slots=True)
class Start:
    """Public weights that an epoch begins around.

    Parameters
    ----------
    weights : ndarray of shape (n_weights,) or None
        As a version published them; None for zero.
    reports : int or None
        How many reports were put in all when they were published, in coarse steps; 0 where none was. None of a version
        that does not say it.
    """

    weights: Floats | None = None
    reports: int | None = 0


@dataclass(frozen=True, slots=True)
class Counted:
    """Instances, (k, n_weights), int32.

    Parameters
    ----------
    instances : ndarray
    reports : int
        How many they count for since their model began; `Instances.puts` are those of their epoch alone.
    after_loss : bool
        Whether their epoch began because the instances of another one were lost.
    """

    instances: Weights
    reports: int
    after_loss: bool = False


@dataclass(frozen=True, slots=True)
class DevicePtk:
    """A PTK that devices train, as the catalog has it now.

    Parameters
    ----------
    ptk_id, stream : str
    specification : Specification
    window, window_ends : int, datetime
        The window whose version the reports of now enter.
    report_epsilon, reports_per_window, reports_in_all : float, int, int
        The loss that the stream allows to a report, and the most that a device may send.
    start_from : StartFrom or None
        The central version that its first epoch began around.
    refused_window : int or None
        The newest window whose average was refused.
    last_rollback : int or None
        The newest version that a rollback made.
    has_given_up : bool
        Whether it is trained no longer, as no version of it was accepted in time.
    last : callable
        Reads where the last version was, or what the model began with before the first. None if that version cannot be
        read, `Unavailable` while it is on its way to the lake.
    start : callable
        Reads what a new epoch begins around: `last`, or what the model began with where that is None; `Unavailable` as
        there, and where nobody can read `start_from`.
    """

    ptk_id: str
    stream: str
    specification: Specification
    window: int
    window_ends: datetime
    report_epsilon: float
    reports_per_window: int
    reports_in_all: int
    start_from: StartFrom | None = None
    refused_window: int | None = None
    last_rollback: int | None = None
    has_given_up: bool = False
    last: Callable[[], Start | None] = Start
    start: Callable[[], Start] = Start

    @property
    def model(self) -> DeviceModel:
        """The model that it trains."""
        return DeviceModel(self.specification.digest, self.start_from)

    @property
    def begun_for(self) -> str:
        """Identifier of what an epoch of it is for, 64 characters.

        It follows from the specification, the start, the last refused average and the last rollback. An epoch that
        began for something else is over.
        """
        digest = self.specification.digest
        if self.refused_window is None and self.start_from is None and self.last_rollback is None:
            return digest
        said = f"{digest} {self.start_from} {self.refused_window}"
        if self.last_rollback is not None:
            said += f" {self.last_rollback}"
        return hashlib.sha256(said.encode()).hexdigest()

    @property
    def shape(self) -> tuple[int, int]:
        """Of its instances: (k, n_weights)."""
        return self.specification.k, self.specification.n_weights


ReadDevicePtk = Callable[[str], DevicePtk]
"""Reads a PTK that devices train afresh; `UnknownName` if there is none of this id."""


class InstancesView(Protocol):
    """Instances, for reading."""

    def epoch(self, ptk_id: str) -> Epoch | None:
        """Return the epoch of a PTK; None if none has begun, or if its instances were lost.

        Raises
        ------
        Unavailable
            When nobody can tell now.
        """

    def all(self, ptk_id: str, epoch: str, *, shape: tuple[int, int] | None = None) -> Weights:
        """Return the k instances of an epoch, (k, n_weights), int32; where a shape is said, of no other.

        Raises
        ------
        UnknownName
            When the epoch is over, or its instances were lost, or are no instances of one length.
        Unavailable
            When nobody can tell now.
        """

    def read_window(
        self,
        ptk_id: str,
        epoch: str,
        window: int,
        *,
        since: int | None,
        shape: tuple[int, int] | None = None,
    ) -> tuple[Counted, Counts]:
        """Return the instances of an epoch as a window closes, and what came of reports meanwhile.

        Both are of one moment, but for reports that are being written then. The first read of a window remembers what
        had been counted, and the next window counts from there. So if a window is read again, some reports count twice
        and none is missing. Reading it again counts from the same place.

        Parameters
        ----------
        ptk_id, epoch : str
        window : int
        since : int or None
            The window that is counted from, which was read before; None: from the beginning of the epoch.
        shape : tuple or None
            As of `all`.

        Raises
        ------
        UnknownName
            As of `all`; nothing is remembered then.
        Unavailable
            When nobody can tell now.
        """

    def counted(self, ptk_id: str, epoch: str) -> Counted:
        """Return `all` with the number of reports of the same moment."""


class Instances(InstancesView, Protocol):
    """Instances of PTKs."""

    def puts(self, ptk_id: str, epoch: str) -> int:
        """Return how many reports were put since an epoch began, those before it left out; 0 where it is over or lost.

        Raises
        ------
        Unavailable
            When nobody can tell now.
        """

    def begin(
        self,
        ptk_id: str,
        begun_for: str,
        instances: Weights,
        *,
        reports: int = 0,
        after_loss: bool = False,
        replaces: Epoch | None = None,
    ) -> Epoch:
        """Begin an epoch in place of the one that the caller saw; return the one that there is then.

        Of processes that begin one at the same time, one succeeds and the others return its epoch.

        Parameters
        ----------
        ptk_id : str
        begun_for : str
            Read after `replaces`: so nobody brings back a specification that was replaced meanwhile.
        instances : ndarray of shape (k, n_weights), int32
            The instances at the start.
        reports : int, default 0
            How many reports these count for.
        after_loss : bool, default False
            As of `Counted`.
        replaces : Epoch or None
            The epoch that the caller saw. Its instances are forgotten. If there is another one by now, it does not
            change.

        Raises
        ------
        Unavailable
            When nothing can be kept now.
        """

    def forget_older(self, ptk_id: str) -> None:
        """Forget the rest of epochs that are over; repeatable. It looks at all keys of the server."""

    def ptk_ids(self) -> frozenset[str]:
        """Name the PTKs of which an epoch was begun and not forgotten; `Unavailable` when nobody can tell now."""

    def forget(self, ptk_id: str) -> None:
        """End the epoch of a PTK and forget its instances; repeatable. `Unavailable` when that cannot be done now."""

    def check(self) -> None:
        """Raise `Refused` if what is overwritten in this server may be kept somewhere, `Unavailable` if it is away."""


class Reports(Protocol):
    """Draws and puts of devices: each call is awaited, and no two wait for each other.

    Each raises `Unavailable` when nobody answers, or the epoch's instances cannot be kept.
    """

    async def draw(
        self, ptk_id: str, epoch: str, k: int, mark: bytes, seconds: int
    ) -> memoryview | bytes | Refusal:
        """Spend a ticket on a draw, and return the bytes of a uniformly random instance of k.

        Parameters
        ----------
        mark : bytes
            By which the ticket is remembered.
        seconds : int
            For how long, at least.
        """

    async def may_put(self, ptk_id: str, epoch: str, mark: bytes) -> Refusal | None:
        """Return why `spend` would refuse a ticket now; None if it would not. Nothing is spent."""

    async def spend(self, ptk_id: str, epoch: str, mark: bytes) -> Refusal | None:
        """Spend a ticket, with which something was drawn, on a put; None if it may be put now."""

    async def put(self, ptk_id: str, epoch: str, k: int, report: bytes) -> Refusal | None:
        """Write a report over a uniformly random instance of k, whichever was drawn; None if it counts."""

    async def count_refused(self, ptk_id: str, epoch: str, reason: str) -> None:
        """Count a report that was refused; of an epoch that is over, nothing is counted.

        Parameters
        ----------
        reason : str
            One of a fixed set, so that counts have a fixed size.
        """
