"""The mark: how far a stream's journal had come when the key store last opened a window for it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ptkstore.adapters.keys import files
from ptkstore.errors import CatalogBehind
from ptkstore.ports.keys import JournalView


@dataclass(frozen=True, slots=True)
class Mark:
    """A point of a journal. Sequence 0 stands for a journal not yet seen."""

    ledger_id: str
    sequence: int
    digest: str


UNSEEN = Mark("", 0, "")


def write_mark(path: Path, mark: Mark) -> None:
    """Remember `mark`, durably."""
    content = {"ledger_id": mark.ledger_id, "sequence": mark.sequence, "digest": mark.digest}
    files.replace(path, json.dumps(content).encode())


def read_mark(path: Path, stream: str) -> Mark:
    """The mark, or `CatalogBehind` when it is lost: without it no journal can be told from an old one."""
    try:
        content = json.loads(path.read_bytes())
        mark = Mark(content["ledger_id"], content["sequence"], content["digest"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        raise CatalogBehind(
            f"the key store has no readable mark of stream {stream!r}; its windows stay shut"
        ) from None
    if type(mark.sequence) is not int or mark.sequence < 0:
        raise CatalogBehind(f"the key store has no readable mark of stream {stream!r}; its windows stay shut")
    return mark


def advanced(mark: Mark, journal: JournalView, stream: str) -> Mark:
    """The mark after looking at `journal`, or `CatalogBehind` when that does not continue what was seen."""
    ledger_id, head = journal.ledger_id, journal.head(stream)
    if mark.sequence and ledger_id != mark.ledger_id:
        raise CatalogBehind(f"stream {stream!r} was opened for another ledger; this catalog opens nothing")
    if head < mark.sequence:
        raise CatalogBehind(
            f"the journal of stream {stream!r} ends before the last spend that was seen; it opens nothing"
        )
    if mark.sequence and journal.digest_at(stream, mark.sequence) != mark.digest:
        raise CatalogBehind(
            f"the journal of stream {stream!r} differs from the one that was seen; it opens nothing"
        )
    digest = journal.digest_at(stream, head)
    if head < 1 or not digest:
        raise CatalogBehind(f"the journal of stream {stream!r} holds no spend; it opens nothing")
    return Mark(ledger_id, head, digest)
