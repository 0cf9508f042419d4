"""The cookies of the console: no script reads them, no other site sends them, and each console has its own."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from ptkstore.console.ways import is_loopback

SESSION, FORM = "ptk_session", "ptk_form"


def cookie_of(request: Request, kind: str) -> str:
    """Return a cookie of this console, empty without one."""
    return request.cookies.get(cookie_name(request, kind), "")


def cookie_name(request: Request, kind: str) -> str:
    """Return the name of a cookie, with the port that this process has, and the port that the browser asked.

    A browser sends its cookies to all ports of a host. Two consoles on one host would overwrite each other's. Behind a
    proxy the two ports differ, and either may be the same for two consoles.
    """
    server = request.scope.get("server") or (None, None)
    ports = dict.fromkeys(str(port) for port in (server[1], _host(request)[1]) if port)
    return "_".join((kind, *ports))


def set_cookie(response: Response, request: Request, path: str, kind: str, value: str, seconds: int) -> None:
    """Set a cookie that leaves this machine over https only.

    Parameters
    ----------
    seconds : int
        How long the browser keeps it; 0 deletes it.
    """
    response.set_cookie(
        cookie_name(request, kind),
        value,
        max_age=seconds,
        path=path,
        secure=request.scope.get("scheme") == "https" or not is_loopback(_host(request)[0]),
        httponly=True,
        samesite="strict",
    )


def _host(request: Request) -> tuple[str | None, int | None]:
    """The name and the port that the browser asked; a client may write anything there."""
    try:
        return request.url.hostname, request.url.port
    except ValueError:
        return None, None
