"""The mark: how far a stream's journal had come when the key store last opened a window for it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ptkstore.adapters.keys import files
from ptkstore.errors import CatalogBehind
from ptkstore.ports.keys import JournalView


@dataclass(frozen=True, slots=True)
class Mark:
    """A point of a journal, and below which window all may have been opened. Sequence 0: a journal not yet seen."""

    ledger_id: str
    sequence: int
    digest: str
    opened_before: int = 0


UNSEEN = Mark("", 0, "")


def write_mark(path: Path, mark: Mark) -> None:
    """Remember `mark`, durably."""
    files.replace(path, json.dumps(asdict(mark)).encode())


def read_mark(path: Path, stream: str) -> Mark:
    """Read the mark, or raise `CatalogBehind` when it is lost: nothing else tells an old journal from the newest."""
    try:
        content = json.loads(path.read_bytes())
        mark = Mark(content["ledger_id"], content["sequence"], content["digest"], content["opened_before"])
        if any(type(number) is not int or number < 0 for number in (mark.sequence, mark.opened_before)):
            raise ValueError
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        raise CatalogBehind(
            f"the key store has no readable mark of stream {stream!r}; its windows stay shut"
        ) from None
    return mark


def advanced(mark: Mark, journal: JournalView, stream: str) -> Mark:
    """Advance the mark to `journal`, or raise `CatalogBehind` when that does not continue what was seen."""
    ledger_id, head = journal.ledger_id, journal.head(stream)
    if mark.ledger_id and ledger_id != mark.ledger_id:
        raise CatalogBehind(f"stream {stream!r} was opened for another ledger; this catalog opens nothing")
    if head < mark.sequence:
        raise CatalogBehind(
            f"the journal of stream {stream!r} ends before the last spend that was seen; it opens nothing"
        )
    if mark.sequence and journal.digest_at(stream, mark.sequence) != mark.digest:
        raise CatalogBehind(
            f"the journal of stream {stream!r} differs from the one that was seen; it opens nothing"
        )
    return replace(mark, ledger_id=ledger_id, sequence=head, digest=journal.digest_at(stream, head) or "")
