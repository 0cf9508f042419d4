"""Read the odometers of a stream: what has been lost, and by whom."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ptklib.accounting import pld_epsilon
from ptklib.privacy import PrivacyLoss
from ptkstore.domain.blocks import blocks_below
from ptkstore.domain.filters import BlockRecord
from ptkstore.domain.journal import ChainLine, Entry
from ptkstore.domain.odometers import Odometers, Releases, odometers_of
from ptkstore.domain.streams import Stream
from ptkstore.ports.catalog import CatalogView, Read
from ptkstore.ports.streams import Progress


@dataclass(frozen=True, slots=True)
class Books:
    """A stream's blocks and journal at one moment."""

    stream: Stream
    progress: Progress
    blocks: tuple[BlockRecord, ...]
    lines: tuple[ChainLine, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The lines that are charges."""
        return tuple(line for line in self.lines if isinstance(line, Entry))


def books_of(stream: str, uow: CatalogView) -> Books:
    """Blocks and journal; in a transaction that reads one moment, nobody writes in between."""
    known = uow.streams.get(stream)
    blocks, _ = uow.ledger.created(stream)
    return Books(known, uow.streams.progress(stream), blocks, uow.ledger.chain(stream))


def read_odometers(stream: str, *, begin: Read) -> Odometers:
    """All odometers of a stream, over all of its blocks."""
    with begin() as uow:
        books = books_of(stream, uow)
    return odometers_on(books, books.blocks)


def odometers_on(books: Books, blocks: Sequence[BlockRecord]) -> Odometers:
    """The odometers of some of the blocks."""
    doubt = blocks_below(books.progress.retired_before, books.stream.policy)
    return odometers_of(
        blocks,
        books.entries,
        tight_epsilon,
        lambda number: doubt is not None and doubt.lo <= number < doubt.hi,
    )


def tight_epsilon(releases: Releases, delta: float) -> float:
    """The figure of privacy loss distributions for a list of releases (differences.md F1: for reports alone)."""
    losses = [
        PrivacyLoss(loss.epsilon, loss.delta, json.loads(event))
        for (event, loss), count in releases.items()
        for _ in range(count)
    ]
    return pld_epsilon(losses, delta)
