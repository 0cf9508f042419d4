"""Devices that draw and put as fast as they are answered; a process by itself.

`python benchmarks/draw_discard_load.py PLAN.json` reads what to ask for and prints what was seen as JSON. It has
nothing but the standard library, and one thread that waits for all connections: the devices must cost little beside
what is measured.
"""

import json
import select
import socket
import sys
import time
from pathlib import Path
from typing import Any

END = b"\r\n\r\n"


class Phone:
    """One connection, on which one device after the other draws and puts back what it drew."""

    def __init__(self, port: int, tickets: list[str], n_bytes: int) -> None:
        self._tickets, self._n_bytes = tickets, n_bytes
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._parts: list[bytes] = []
        self._have, self._whole = 0, -1
        self._draws = True
        self.seconds: list[float] = []
        self._next()

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> bool:
        """Take what came in; False once the tickets are used up."""
        part = self._socket.recv(2**20)
        if not part:
            raise RuntimeError("the server ended a connection")
        self._parts.append(part)
        self._have += len(part)
        if self._whole < 0:
            self._parts = [b"".join(self._parts)]
            ends = self._parts[0].find(END)
            if ends < 0:
                return True
            if self._parts[0][9:12] not in (b"200", b"204"):
                raise RuntimeError(self._parts[0].decode(errors="replace"))
            self._whole = ends + len(END) + (self._n_bytes if self._draws else 0)
        if self._have < self._whole:
            return True
        body = b"".join(self._parts)[self._whole - self._n_bytes :]
        self._parts, self._have, self._whole = [], 0, -1
        if not self._draws:
            self.seconds.append(time.perf_counter() - self._begun)
            return self._next()
        self._draws = False
        self._send("put", f"Content-Type: application/octet-stream\r\nContent-Length: {len(body)}\r\n", body)
        return True

    def _next(self) -> bool:
        if not self._tickets:
            return False
        self._ticket, self._draws, self._begun = self._tickets.pop(), True, time.perf_counter()
        self._send("draw", "Content-Length: 0\r\n", b"")
        return True

    def _send(self, act: str, headers: str, body: bytes) -> None:
        head = f"POST /v1/device/{act} HTTP/1.1\r\nHost: x\r\nAuthorization: Ticket {self._ticket}\r\n{headers}\r\n"
        self._socket.sendall(head.encode() + body)


def seen(plan: dict[str, Any]) -> dict[str, Any]:
    """Draw and put with every ticket, or until the time is over."""
    tickets = plan["tickets"]
    phones = [
        Phone(port, tickets, plan["n_bytes"]) for port in plan["ports"] for _ in range(plan["connections"])
    ]
    waiting = {phone.fileno(): phone for phone in phones}
    poll = select.epoll()
    for descriptor in waiting:
        poll.register(descriptor, select.EPOLLIN)
    begun = time.perf_counter()
    while waiting and time.perf_counter() - begun < plan["seconds"]:
        for descriptor, _ in poll.poll(1.0):
            if not waiting[descriptor].receive():
                poll.unregister(descriptor)
                del waiting[descriptor]
    taken = [one for phone in phones for one in phone.seconds]
    return {"seconds": time.perf_counter() - begun, "pairs": len(taken), "latencies": sorted(taken)}


if __name__ == "__main__":
    print(json.dumps(seen(json.loads(Path(sys.argv[1]).read_text()))))
