"""Sends HTTP requests at a rate of its own, or as fast as they are answered; a process by itself.

`python benchmarks/service_load.py PLAN.json` reads what to send and prints what was seen as JSON. It has
nothing but the standard library: the generator must cost little beside what it measures.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any


class Connection:
    """One connection that is kept, with one request on its way at most."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Status and body."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        status = int(head[9:12])
        at = head.find(b"content-length:")
        if at < 0:
            raise RuntimeError("an answer without a length")
        body = await reader.readexactly(int(head[at + 15 : head.index(b"\r\n", at)]))
        if b"connection: close" in head:
            writer.close()
            self._streams = None
        return status, body

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


def encoded(request: dict[str, Any], host: str) -> bytes:
    """A request of the plan as it goes over the wire."""
    body = json.dumps(request["json"]).encode() if "json" in request else b""
    head = {"Host": host, "Content-Type": "application/json", **request.get("headers", {})}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return (
        f"{request['method']} {request['path']} HTTP/1.1\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )


async def at_a_rate(plan: dict[str, Any]) -> dict[str, Any]:
    """Every request has its time, whatever became of those before; its latency counts from that time."""
    requests = [encoded(one, plan["host"]) for one in plan["requests"]]
    idle: list[Connection] = []
    made: list[Connection] = []
    seen: list[tuple[float, int]] = []

    async def send(due: float, request: bytes) -> None:
        if not idle:
            made.append(Connection(plan["host"], plan["port"]))
        connection = idle.pop() if idle else made[-1]
        status, _ = await connection.ask(request)
        seen.append((time.perf_counter() - due, status))
        idle.append(connection)

    start = time.perf_counter() + 0.2
    sent = []
    for number in range(int(plan["rate"] * plan["seconds"])):
        due = start + number / plan["rate"]
        wait = due - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        sent.append(asyncio.create_task(send(due, requests[number % len(requests)])))
    await asyncio.gather(*sent)
    for one in made:
        one.close()
    bad = sorted({status for _, status in seen if status != 200})
    return {"latencies": sorted(latency for latency, _ in seen), "bad": bad, "connections": len(made)}


async def in_turns(plan: dict[str, Any]) -> dict[str, Any]:
    """Each connection sends the next request once the last is answered."""
    requests = [encoded(one, plan["host"]) for one in plan["requests"]]
    until = time.perf_counter() + plan["seconds"]
    counts, bad = [0] * plan["connections"], set[int]()

    async def go(place: int) -> None:
        connection = Connection(plan["host"], plan["port"])
        number = place
        while time.perf_counter() < until:
            status, _ = await connection.ask(requests[number % len(requests)])
            number += 1
            counts[place] += 1
            if status != 200:
                bad.add(status)
        connection.close()

    start = time.perf_counter()
    await asyncio.gather(*(go(place) for place in range(plan["connections"])))
    return {"answered": sum(counts), "seconds": time.perf_counter() - start, "bad": sorted(bad)}


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    print(json.dumps(asyncio.run(at_a_rate(plan) if "rate" in plan else in_turns(plan))))


if __name__ == "__main__":
    main()
