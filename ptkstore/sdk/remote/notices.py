"""What owners are told by a store behind the HTTP API."""

from __future__ import annotations

from datetime import datetime

from ptkstore.application.training.read_trainings import Training
from ptkstore.domain.notices import Notice
from ptkstore.sdk.notices import notice_of, training_of
from ptkstore.sdk.remote.transport import Transport, path_of


class RemoteNotices:
    """What `StoreService` has on notices and trainings, over HTTP."""

    _http: Transport

    def notices(self, team: str | None = None, *, since: datetime | None = None) -> tuple[Notice, ...]:
        params = {"team": team, "since": None if since is None else since.isoformat()}
        return tuple(self._http.pages(path_of("notices"), notice_of, params))

    def trainings(self, ptk_id: str) -> tuple[Training, ...]:
        return tuple(self._http.pages(path_of("ptks", ptk_id, "trainings"), training_of))
