"""How many more PTKs like one fit into a stream, as a number and in words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ptkstore.domain.accounting.losses import Loss


class Basis(StrEnum):
    """What the count is of.

    `window`: PTKs beside the registered ones, each trained on every window that it asks for. `fresh-block`: losses
    that one block without any loss takes, where PTKs wait for blocks. `life`: trainings on the blocks of users, which
    live as long as the stream.
    """

    WINDOW = "window"
    FRESH_BLOCK = "fresh-block"
    LIFE = "life"


@dataclass(frozen=True, slots=True)
class RoomForMore:
    """How many more of the loss of one PTK fit. With `is_least` counting ended there, and more may fit."""

    ptk_id: str
    loss: Loss
    more: int
    is_least: bool
    basis: Basis

    @property
    def sentence(self) -> str:
        """The number in words."""
        count = f"at least {self.more}" if self.is_least else str(self.more or "no")
        s, es = ("", "") if count == "1" else ("s", "es")
        match self.basis:
            case Basis.WINDOW:
                return f"Room for {count} more PTK{s} like {self.ptk_id}, at {self.loss} a window."
            case Basis.FRESH_BLOCK:
                like = f"like that of {self.ptk_id}, {self.loss}"
                return f"A fresh block has room for {count} loss{es} {like}."
            case Basis.LIFE:
                return f"Room for {count} more training{s} of {self.ptk_id}, at {self.loss} each."

    @property
    def assumes(self) -> str:
        """What the number rests on, in words."""
        match self.basis:
            case Basis.WINDOW:
                return (
                    "It is the check that a registration has to pass. Copies of the last PTK join the registered ones "
                    "on one window, each with the least loss that it was promised. Nothing is reserved by it."
                )
            case Basis.FRESH_BLOCK:
                return (
                    "PTKs of this stream wait for blocks, and a registration is refused only if no block could serve "
                    "it. The number is of a block that has lost nothing, and counts no PTK that waits."
                )
            case Basis.LIFE:
                return (
                    "The blocks of users live as long as the stream. The number is of the part with the most room "
                    "left, for trainings on all of its rows, and counts no training of another PTK."
                )
