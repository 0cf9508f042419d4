"""What owners are told by a store behind the HTTP API."""

from __future__ import annotations

from datetime import datetime

from ptkstore.application.training.read_trainings import Training
from ptkstore.domain.notices import Notice
from ptkstore.sdk.notices import notice_of, training_of
from ptkstore.sdk.remote.transport import Transport, path_of


class RemoteNotices:
    """What a client asks of notices and trainings, over HTTP."""

    _http: Transport

    def notices(self, team: str | None = None, *, since: datetime | None = None) -> tuple[Notice, ...]:
        """Words left for the token's team; an administrator's choice."""
        params = {"team": team, "since": None if since is None else since.isoformat()}
        return tuple(self._http.pages(path_of("notices"), notice_of, params))

    def trainings(self, ptk_id: str) -> tuple[Training, ...]:
        """What became of the trainings of a PTK of the token's team."""
        return tuple(self._http.pages(path_of("ptks", ptk_id, "trainings"), training_of))
