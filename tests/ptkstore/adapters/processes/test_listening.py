"""Where a server may listen, and what is said where it may not."""

from __future__ import annotations

import socket

import pytest

from ptkstore.adapters.processes import check_port, listen
from ptkstore.errors import Conflict, InvalidRequest


def test_a_port_in_use_is_a_conflict_that_names_the_option() -> None:
    (taken,) = listen("127.0.0.1", 0)
    with taken:
        port = taken.getsockname()[1]
        said = f"port {port} of 127.0.0.1 is in use; choose another by --api-port"
        for ask in (listen, check_port):
            with pytest.raises(Conflict, match=said):
                ask("127.0.0.1", port, option="--api-port")
    check_port("127.0.0.1", port)


def test_who_listens_takes_connections_at_once() -> None:
    (one,) = listen("127.0.0.1", 0)
    with one, socket.create_connection(one.getsockname(), timeout=10.0):
        pass


@pytest.mark.parametrize("host", ["no.such.host.invalid", "203.0.113.1", "a" * 64 + ".org"])
def test_an_address_of_another_machine_is_wrong_use(host: str) -> None:
    with pytest.raises(InvalidRequest, match="choose another by --host"):
        listen(host, 0)
