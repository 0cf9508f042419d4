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
from pathlib import Path
from typing import Any

END = b"\r\n\r\n"
HEAD_BYTES = 4096


class Phone:
    """One connection, on which one device after the other draws and puts back what it drew."""

    def __init__(self, port: int, tickets: list[str], n_bytes: int, poll: select.epoll) -> None:
        self._tickets, self._n_bytes, self._poll = tickets, n_bytes, poll
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        self._answer = bytearray(HEAD_BYTES + n_bytes)
        self._view = memoryview(self._answer)
        self._have = 0
        self._unsent: list[memoryview] = []
        self._draws = True
        self.seconds: list[float] = []
        poll.register(self._socket, select.EPOLLIN)
        self.next()

    def fileno(self) -> int:
        return self._socket.fileno()

    def next(self) -> None:
        """Have the next device draw, if there is a ticket for one."""
        if self._tickets:
            self._ticket, self._draws, self._begun = self._tickets.pop(), True, time.perf_counter()
            self._send("draw", "Content-Length: 0\r\n")

    def on(self, events: int) -> None:
        """Send what waits, or take in what came."""
        if events & select.EPOLLOUT:
            self._flush()
        if events & ~select.EPOLLOUT:
            self._receive()

    def _receive(self) -> None:
        got = self._socket.recv_into(self._view[self._have :])
        if not got:
            raise RuntimeError("the server ended a connection")
        self._have += got
        ends = self._answer.find(END, 0, min(self._have, HEAD_BYTES))
        if ends < 0:
            return
        if bytes(self._view[9:12]) not in (b"200", b"204"):
            raise RuntimeError(self._answer[: self._have].decode(errors="replace"))
        begins = ends + len(END)
        if self._have < begins + self._draws * self._n_bytes:
            return
        self._have = 0
        if not self._draws:
            self.seconds.append(time.perf_counter() - self._begun)
            self.next()
            return
        self._draws = False
        self._send(
            "put",
            f"Content-Type: application/octet-stream\r\nContent-Length: {self._n_bytes}\r\n",
            self._view[begins : begins + self._n_bytes],
        )

    def _send(self, act: str, headers: str, *body: memoryview) -> None:
        head = f"POST /v1/device/{act} HTTP/1.1\r\nHost: x\r\nAuthorization: Ticket {self._ticket}\r\n{headers}\r\n"
        self._unsent = [memoryview(head.encode()), *body]
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
            return False
        self._poll.modify(self._socket, select.EPOLLIN)
        return True


def seen(plan: dict[str, Any]) -> dict[str, Any]:
    """Draw and put with every ticket, or until the time is over."""
    tickets, poll = plan["tickets"], select.epoll()
    phones = [
        Phone(port, tickets, plan["n_bytes"], poll) for port in plan["ports"] for _ in range(plan["devices"])
    ]
    waiting = {phone.fileno(): phone for phone in phones}
    begun = time.perf_counter()
    while tickets and time.perf_counter() - begun < plan["seconds"]:
        for descriptor, events in poll.poll(1.0):
            waiting[descriptor].on(events)
    taken = [one for phone in phones for one in phone.seconds]
    return {
        "seconds": time.perf_counter() - begun,
        "latencies": sorted(taken),
        "cpu_seconds": time.process_time(),
    }


if __name__ == "__main__":
    print(json.dumps(seen(json.loads(Path(sys.argv[1]).read_text()))))
