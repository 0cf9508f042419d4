"""The log of requests: ids, route templates, statuses and fixed codes, nothing that was sent (differences.md F9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptkstore.adapters.runtime.log import logger
from ptkstore.adapters.runtime.unexpected_errors import place_of

if TYPE_CHECKING:  # the command line loads this room for its help, and no other
    from ptkstore.ports.tracing import RequestSeen


class RequestLog:
    """One line per request, and one more for each that failed for no reason of ours."""

    def __init__(self) -> None:
        self._log = logger("ptkstore.api")

    def serving(self, host: str, port: int) -> None:
        """Log where requests may come from now on."""
        self._log.info("serving", host=host, port=port)

    def answered(self, seen: RequestSeen) -> None:
        """Log an answered request; its status is 0 if the client was gone."""
        self._log.info(
            "request",
            request=seen.request_id,
            method=seen.method,
            route=seen.route,
            status=seen.status,
            code=seen.code,
            team=seen.team,
            token=seen.token_id,
        )

    def failed(self, request: str, error: BaseException) -> None:
        """Log the kind of an exception and where it was raised; its text may hold anything."""
        self._log.error("request failed", request=request, kind=type(error).__name__, place=place_of(error))
