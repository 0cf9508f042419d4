"""The way a request came: straight from this machine, or by a name, a host or a proxy that is not trusted here."""

from __future__ import annotations

from ipaddress import ip_address

from starlette.requests import Request

_OF_PROXIES = ("forwarded", "via", "x-real-ip", "x-client-ip", "cf-connecting-ip", "true-client-ip")


def is_loopback(host: str | None) -> bool:
    """Tell whether a host is this machine itself."""
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False


def direct_address(request: Request) -> str | None:
    """Return `host:port` at which a request of this machine came; None if it came in any other way.

    The Host header must be that very address. A name that an attacker has lead here (DNS rebinding) is another one.
    """
    client, server = request.client, request.scope.get("server")
    if client is None or server is None or not is_loopback(client.host) or not is_loopback(server[0]):
        return None
    if any(name in _OF_PROXIES or name.startswith("x-forwarded-") for name in request.headers):
        return None
    address = f"{server[0]}:{server[1]}"
    return address if request.headers.getlist("host") == [address] else None
