"""The log of requests: ids, route templates, statuses and fixed codes, nothing that was sent (differences.md F9)."""

from __future__ import annotations

from ptkstore.adapters.runtime.log import logger
from ptkstore.adapters.runtime.unexpected_errors import place_of


class RequestLog:
    """One line per request, and one more for each that failed for no reason of ours."""

    def __init__(self) -> None:
        self._log = logger("ptkstore.api")

    def serving(self, host: str, port: int) -> None:
        """Where requests may come from now on."""
        self._log.info("serving", host=host, port=port)

    def answered(
        self,
        *,
        request: str,
        method: str,
        route: str,
        status: int,
        code: str | None,
        team: str | None,
        token: str | None,
    ) -> None:
        """Log an answered request.

        Parameters
        ----------
        request : str
            The request's id.
        method, route : str
            `route` is a template, never a path.
        status : int
            0 if the client was gone.
        code : str or None
            The code of our error, if any.
        team, token : str or None
            Who asked, by public ids.
        """
        self._log.info(
            "request",
            request=request,
            method=method,
            route=route,
            status=status,
            code=code,
            team=team,
            token=token,
        )

    def failed(self, request: str, error: BaseException) -> None:
        """Log the kind of an exception and where it was raised; its text may hold anything."""
        self._log.error("request failed", request=request, kind=type(error).__name__, place=place_of(error))
