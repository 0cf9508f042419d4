"""Sockets that listen where a server is asked to, or a word about why they cannot."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack

from ptkstore.errors import Conflict, InvalidRequest, PtkStoreError

BACKLOG = 2048


def listen(host: str, port: int, *, option: str = "--port") -> Sequence[socket.socket]:
    """Open one socket for each address of `host`, all of them listening.

    Raises
    ------
    Conflict
        Somebody listens there; the message names `option`, by which another port is chosen.
    InvalidRequest
        `host` is no address of this machine, or the port is not for this user.
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise InvalidRequest(f"{host} is no address of this machine; choose another by --host") from None
    with ExitStack() as stack:
        made = []
        for family, kind, protocol, _, address in dict.fromkeys(addresses):
            try:
                one = stack.enter_context(socket.socket(family, kind, protocol))
            except OSError:  # a machine without IPv6 may know an IPv6 address
                continue
            try:
                _listen(one, address)
            except OSError as error:
                raise _refusal(error, host, port, option) from None
            made.append(one)
        stack.pop_all()
    return made


def check_port(host: str, port: int, *, option: str = "--port") -> None:
    """Raise what `listen` raises, and leave the port free."""
    for one in listen(host, port, option=option):
        one.close()


def _listen(one: socket.socket, address: tuple[object, ...]) -> None:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if one.family == socket.AF_INET6:
        one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    one.bind(address)
    one.listen(BACKLOG)


def _refusal(error: OSError, host: str, port: int, option: str) -> PtkStoreError:
    if error.errno == errno.EADDRINUSE:
        return Conflict(f"port {port} of {host} is in use; choose another by {option}")
    if error.errno == errno.EACCES:
        return InvalidRequest(f"port {port} of {host} is not for this user; choose another by {option}")
    reason = os.strerror(error.errno) if error.errno else "no reason given"
    return InvalidRequest(f"nothing can listen on port {port} of {host} ({reason}); choose another by --host")
