"""A proxy between us and a database that breaks connections at chosen words of the client."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

KINDS = (
    "cut-before",  # the connection ends before the words are passed on
    "cut-after",  # they are passed on and answered; the connection ends instead of the answer
    "half-close",  # the same, but we only say that nothing more will come
    "slow",  # they trickle
    "hang",  # they are swallowed, and all that follows
)
PIECES, PAUSE_SECONDS = 4, 0.02


@dataclass
class Rule:
    """Does `kind` when the client sends `words` for the `skip + 1`-th time."""

    kind: str
    words: bytes = b""
    skip: int = 0
    struck: int = 0

    def strikes(self, sent: bytes) -> bool:
        """Whether these bytes are struck; counts."""
        if self.struck or self.words not in sent:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.struck += 1
        return True


@dataclass
class FaultyWire:
    """A running proxy on loopback."""

    port: int
    rules: list[Rule] = field(default_factory=list)
    connections: int = 0
    refusing: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    counted: dict[bytes, int] = field(default_factory=dict)

    def strike(self, kind: str, words: bytes = b"", *, skip: int = 0) -> Rule:
        """Arm one more rule."""
        assert kind in KINDS
        rule = Rule(kind, words, skip)
        with self.lock:
            self.rules.append(rule)
        return rule

    def count(self, words: bytes) -> None:
        """Count from here on how often the client says this."""
        with self.lock:
            self.counted[words] = 0

    def fault_for(self, sent: bytes) -> str | None:
        """What happens to these bytes of the client."""
        with self.lock:
            for words in self.counted:
                self.counted[words] += words in sent
            return next((rule.kind for rule in self.rules if rule.strikes(sent)), None)

    def heal(self) -> None:
        """From here on nothing happens."""
        with self.lock:
            self.rules.clear()
            self.refusing = False


def _close(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


def _from_client(
    wire: FaultyWire, client: socket.socket, server: socket.socket, cut: threading.Event
) -> None:
    with suppress(OSError):
        while sent := client.recv(1 << 20):
            match wire.fault_for(sent):
                case "cut-before":
                    break
                case "cut-after":
                    cut.set()
                    server.sendall(sent)
                case "half-close":
                    client.shutdown(socket.SHUT_WR)
                    server.sendall(sent)
                case "hang":
                    while client.recv(1 << 20):
                        pass
                    break
                case "slow":
                    step = max(1, len(sent) // PIECES)
                    for start in range(0, len(sent), step):
                        server.sendall(sent[start : start + step])
                        cut.wait(PAUSE_SECONDS)
                case _:
                    server.sendall(sent)
    if not cut.is_set():
        _close(client, server)


def _to_client(client: socket.socket, server: socket.socket, cut: threading.Event) -> None:
    with suppress(OSError):
        while answer := server.recv(1 << 20):
            if cut.is_set():
                break
            client.sendall(answer)
    _close(client, server)


@contextmanager
def between_us_and(target: str | tuple[str, int]) -> Iterator[FaultyWire]:
    """A proxy in front of a socket's path or of (host, port)."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    wire = FaultyWire(listener.getsockname()[1])

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                wire.connections += 1
                if wire.refusing:
                    _close(client)
                    continue
                unix = isinstance(target, str)
                server = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
                try:
                    server.connect(target)
                except OSError:
                    _close(client, server)
                    continue
                cut = threading.Event()
                for work, given in (
                    (_from_client, (wire, client, server, cut)),
                    (_to_client, (client, server, cut)),
                ):
                    threading.Thread(target=work, args=given, daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield wire
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)
