"""Shares of blocks: the rows of the table of allowances."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """The part of one block that one PTK may use, in whole units of the coordinate at which the block is counted."""

    ptk_id: str
    block: int
    nano: int
    delta_atto: int
    coordinate: int = 0
