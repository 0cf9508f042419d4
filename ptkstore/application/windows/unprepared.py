"""Tell owners of a window on which nothing is trained."""

from __future__ import annotations

from datetime import datetime

from ptkstore.domain.notices import Notice
from ptkstore.domain.streams.windows import NOT_PREPARED, WindowId
from ptkstore.ports.catalog import UnitOfWork


def notify_not_prepared(uow: UnitOfWork, window: WindowId, team: str, now: datetime) -> None:
    """Say that the window's rows could not be put into parts: to the stream's team, too.

    One code is for all causes: which it was may depend on how many rows there are. The worker's log has it.
    """
    uow.notify_owner(Notice(now, team, NOT_PREPARED, window.stream, window_index=window.index))
    notify_trainers(uow, window, NOT_PREPARED, now)


def notify_trainers(uow: UnitOfWork, window: WindowId, code: str, now: datetime) -> None:
    """Leave word for the team of each PTK that would have been trained on the window."""
    for spec in uow.ptks.find(stream=window.stream):
        if spec.trains_on(window.index):
            uow.notify_owner(Notice(now, spec.team, code, ptk_id=spec.ptk_id, window_index=window.index))
