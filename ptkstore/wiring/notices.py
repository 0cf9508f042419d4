"""Use cases of what owners are told, bound to the adapters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ptkstore import application
from ptkstore.domain.notices import Notice
from ptkstore.wiring.adapters import Adapters


class Notices(Adapters):
    """Words left for teams, and what became of trainings."""

    def notices(
        self,
        team: str | None = None,
        *,
        since: datetime | None = None,
        skip: int = 0,
        limit: int | None = None,
        newest: bool = False,
    ) -> Sequence[Notice]:
        """See `application.delivery.read_notices`."""
        return application.delivery.read_notices.notices_of(
            team, since=since, skip=skip, limit=limit, newest=newest, begin=self.read
        )

    def trainings(
        self, ptk_id: str, *, start: int = 0, limit: int | None = None, newest: bool = False
    ) -> tuple[application.training.read_trainings.Training, ...]:
        """See `application.training.read_trainings`."""
        return application.training.read_trainings.trainings_of(
            ptk_id, start=start, limit=limit, newest=newest, begin=self.read
        )
