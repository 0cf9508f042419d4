"""Devices that draw and put as fast as they are answered; a process by itself.

`python benchmarks/draw_discard_load.py PLAN.json` reads what to ask for and prints what was seen as JSON. It has
nothing but the standard library, one thread that waits for all connections, and copies no report: the devices must cost
little beside what is measured.
"""

import json
import select
import socket
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

HEAD_BYTES = 4096


class Connection:
    """One on which one device after the other draws and puts back what it drew."""

    ENDS = b"\r\n\r\n"
    """Of the head of an answer."""

    AFTER_DRAWN = 0
    """Bytes that follow what was drawn."""

    def __init__(self, address: Any, plan: dict[str, Any], turns: Iterator[Any], poll: select.epoll) -> None:
        self._plan, self._n_bytes, self._turns, self._poll = plan, plan["n_bytes"], turns, poll
        self._socket = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        self._socket.connect(address)
        if self._socket.family == socket.AF_INET:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        self._answer = bytearray(HEAD_BYTES + self._n_bytes)
        self._view = memoryview(self._answer)
        self._have = 0
        self._unsent: list[memoryview] = []
        self._draws, self.over = True, False
        self.seconds: list[float] = []
        poll.register(self._socket, select.EPOLLIN)
        self._next()

    def fileno(self) -> int:
        return self._socket.fileno()

    def on(self, events: int) -> None:
        """Send what waits, or take in what came."""
        if events & select.EPOLLOUT and self._flush():
            self._poll.modify(self._socket, select.EPOLLIN)
        if events & ~select.EPOLLOUT:
            self._receive()

    def _draw(self) -> bytes:
        raise NotImplementedError

    def _put(self, drawn: memoryview) -> list[bytes | memoryview]:
        raise NotImplementedError

    def _is_good(self) -> bool:
        """Whether the head of an answer is that of a good one."""
        raise NotImplementedError

    def _next(self) -> None:
        """Have the next device draw, if there is one."""
        self._turn: Any = next(self._turns, None)
        self.over = self._turn is None
        if not self.over:
            self._draws, self._begun = True, time.perf_counter()
            self._send([self._draw()])

    def _receive(self) -> None:
        got = self._socket.recv_into(self._view[self._have :])
        if not got:
            raise RuntimeError("the server ended a connection")
        self._have += got
        ends = self._answer.find(self.ENDS, 0, min(self._have, HEAD_BYTES))
        if ends < 0:
            return
        if not self._is_good():
            raise RuntimeError(self._answer[: self._have].decode(errors="replace"))
        begins = ends + len(self.ENDS)
        if self._draws and self._have < begins + self._n_bytes + self.AFTER_DRAWN:
            return
        self._have = 0
        if self._draws:
            self._draws = False
            self._send(self._put(self._view[begins : begins + self._n_bytes]))
        else:
            self.seconds.append(time.perf_counter() - self._begun)
            self._next()

    def _send(self, parts: list[bytes | memoryview]) -> None:
        self._unsent = [memoryview(part) for part in parts]
        if not self._flush():
            self._poll.modify(self._socket, select.EPOLLIN | select.EPOLLOUT)

    def _flush(self) -> bool:
        """Send what the system takes; return whether that was all."""
        try:
            sent = self._socket.sendmsg(self._unsent)
        except BlockingIOError:
            return False
        while self._unsent and sent >= len(self._unsent[0]):
            sent -= len(self._unsent.pop(0))
        if self._unsent:
            self._unsent[0] = self._unsent[0][sent:]
        return not self._unsent


class OverHttp(Connection):
    """Draws and puts with a ticket each."""

    def _draw(self) -> bytes:
        return self._head("draw", "Content-Length: 0\r\n")

    def _put(self, drawn: memoryview) -> list[bytes | memoryview]:
        headers = f"Content-Type: application/octet-stream\r\nContent-Length: {self._n_bytes}\r\n"
        return [self._head("put", headers), drawn]

    def _is_good(self) -> bool:
        return bytes(self._view[9:12]) in (b"200", b"204")

    def _head(self, act: str, headers: str) -> bytes:
        line = f"POST /v1/device/{act} HTTP/1.1\r\nHost: x\r\nAuthorization: Ticket {self._turn}\r\n"
        return f"{line}{headers}\r\n".encode()


class AtRedis(Connection):
    """Gets an instance and sets another one."""

    ENDS = b"\r\n"
    AFTER_DRAWN = len(ENDS)

    def _draw(self) -> bytes:
        return self._command(3, "HGET", 0)

    def _put(self, drawn: memoryview) -> list[bytes | memoryview]:
        return [self._command(4, "HSET", 1) + b"$%d\r\n" % self._n_bytes, drawn, self.ENDS]

    def _is_good(self) -> bool:
        return self._answer[0] == (b"$" if self._draws else b":")[0]

    def _command(self, n: int, name: str, more: int) -> bytes:
        key, place = self._plan["key"], str((self._turn + more) % self._plan["k"])
        return f"*{n}\r\n$4\r\n{name}\r\n${len(key)}\r\n{key}\r\n${len(place)}\r\n{place}\r\n".encode()


def seen(plan: dict[str, Any]) -> dict[str, Any]:
    """Draw and put until the time is over, or every ticket was used."""
    poll, tickets = select.epoll(), plan.get("tickets")
    kind, turns = (AtRedis, count()) if tickets is None else (OverHttp, iter(tickets))
    connections = [
        kind(address if isinstance(address, str) else tuple(address), plan, turns, poll)
        for address in plan["addresses"]
        for _ in range(plan["devices"])
    ]
    waiting = {one.fileno(): one for one in connections if not one.over}
    begun = time.perf_counter()
    while (seconds := time.perf_counter() - begun) < plan["seconds"] and waiting:
        for descriptor, events in poll.poll(1.0):
            waiting[descriptor].on(events)
            if waiting[descriptor].over:
                del waiting[descriptor]
    return {"seconds": seconds, "latencies": sorted(one for c in connections for one in c.seconds)}


if __name__ == "__main__":
    print(json.dumps(seen(json.loads(Path(sys.argv[1]).read_text()))))
