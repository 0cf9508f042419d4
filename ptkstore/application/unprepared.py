"""Tell owners of a window on which nothing is trained, because its rows could not be put into parts."""

from __future__ import annotations

from datetime import datetime

from ptkstore.domain.windows import NOT_PREPARED, WindowId
from ptkstore.ports.catalog import Notice, UnitOfWork


def tell_not_prepared(uow: UnitOfWork, window: WindowId, team: str, now: datetime) -> None:
    """Leave word for the stream's team and for each team whose PTK would have been trained.

    One code stands for all causes: which it was may depend on how many rows there are. The worker's log has it.
    """
    uow.notify_owner(Notice(now, team, f"{window.stream} window {window.index}", NOT_PREPARED))
    for spec in uow.ptks.find(stream=window.stream):
        if window.index % spec.every == 0:
            uow.notify_owner(Notice(now, spec.team, f"{spec.ptk_id} window {window.index}", NOT_PREPARED))
