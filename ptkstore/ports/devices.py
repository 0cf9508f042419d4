"""Models that devices train: the instances of each, as the server of instances keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ptklib.draw_discard.instances import Instances as Weights


@dataclass(frozen=True, slots=True)
class Epoch:
    """The life of one set of instances of a PTK.

    Parameters
    ----------
    id : str
        Random; no other epoch has it.
    specification : str
        Digest of the specification that its instances are of.
    """

    id: str
    specification: str


class InstancesView(Protocol):
    """Instances, for reading."""

    def epoch(self, ptk_id: str) -> Epoch | None:
        """Return the epoch of a PTK; None if none has begun, or if its instances were lost.

        Raises
        ------
        Unavailable
            When nobody can tell now.
        """

    def all(self, ptk_id: str, epoch: str) -> Weights:
        """Return the k instances of an epoch, (k, n_weights), int32.

        Raises
        ------
        UnknownName
            When the epoch is over, or its instances were lost.
        Unavailable
            When nobody can tell now.
        """


class Instances(InstancesView, Protocol):
    """Instances of PTKs."""

    def begin(self, ptk_id: str, specification: str, instances: Weights) -> Epoch:
        """Begin an epoch, unless there is one of this specification; return the one that there is then.

        Parameters
        ----------
        ptk_id : str
        specification : str
            Its digest.
        instances : ndarray of shape (k, n_weights), int32
            What it begins with. Those of another specification are forgotten.

        Raises
        ------
        Unavailable
            When nothing can be kept now.
        """
