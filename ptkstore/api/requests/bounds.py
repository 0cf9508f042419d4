"""Bodies of bounded size and time, answers in bounded time."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ptkstore.api.limits import Limits
from ptkstore.api.problems import Interrupted, answer, plain_problem
from ptkstore.api.requests.routers import PREFIX

_OF_STREAM = re.compile(rf"{PREFIX}/streams/[^/]+/(ingest|admission|exchange)")
_OF_CHECK = re.compile(r"/console/streams/[^/]+/check")
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class Bounds:
    """Refuses bodies that are too large, too slow or encoded, and does not wait for ever for an answer.

    The length is counted as it comes, whatever the header says. A body that may be long has a least rate, as it
    delays others. Work that outlives the deadline continues, because its thread cannot be
    stopped. The caller gets the words that the request's state has as `late`: the outcome is not known.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app, self._limits = app, limits
        self._late: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        most = self._most(scope["path"])
        refusal = _refusal(headers, most)
        if refusal is not None:
            status, detail = refusal
            problem = plain_problem(status, detail, scope["state"]["request_id"])
            scope["state"]["code"] = problem.code
            await answer(problem, {"Connection": "close"})(scope, receive, send)
            return
        out = _Outlet(send)
        task = asyncio.create_task(self._run(scope, self._measured(receive, most), out.send))
        within = self._limits.answer_within + (self._limits.body_within if _has_body(headers) else 0.0)
        try:
            await asyncio.wait({task, out.begun}, timeout=within, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:  # the server goes down or the client went away
            task.cancel()
            raise
        if not task.done() and not out.begun.done():
            out.closed = True
            self._late.add(task)
            task.add_done_callback(self._ended)
            reads = scope["method"] in _SAFE
            late = "there was no answer in time; look whether it was done before asking again"
            problem = plain_problem(
                503 if reads else 504,
                "there was no answer in time" if reads else scope["state"].get("late", late),
                scope["state"]["request_id"],
            )
            scope["state"]["code"] = problem.code
            await answer(problem)(scope, receive, send)
            return
        await task

    def _most(self, path: str) -> int:
        """How long a body may be; what is longer than most others is read once it is known who sends it."""
        match = _OF_STREAM.fullmatch(path)
        if match is None:
            return self._limits.report_body if _OF_CHECK.fullmatch(path) else self._limits.json_body
        return self._limits.ingest_body if match[1] == "ingest" else self._limits.exchange_body

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._late.discard(task)
        if not task.cancelled():
            task.exception()  # nobody is left to be told

    def _measured(self, receive: Receive, most: int) -> Receive:
        seen, begun, limits = 0, 0.0, self._limits

        async def measured() -> Message:
            nonlocal seen, begun
            if seen < 0:  # the body has ended; what comes is the client going away
                return await receive()
            begun = begun or time.monotonic()  # its sender may have waited for a place
            within = limits.body_within
            if most > limits.json_body:
                within = min(within, limits.chunk_within + seen / limits.bytes_per_second)
            wait = min(limits.chunk_within, begun + within - time.monotonic())
            try:
                message = await asyncio.wait_for(receive(), max(wait, 0.001))
            except TimeoutError:
                raise Interrupted(408, "the body came too slowly") from None
            if message["type"] == "http.request":
                seen += len(message.get("body", b""))
                if seen > most:
                    raise Interrupted(413, f"the body has at most {most} bytes")
                if not message.get("more_body", False):
                    seen = -1
            return message

        return measured


class _Outlet:
    """Passes messages on until it is closed; `begun` is done once an answer has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.closed = False

    async def send(self, message: Message) -> None:
        if self.closed:
            return
        if not self.begun.done():
            self.begun.set_result(None)
        await self._send(message)


def _refusal(headers: Mapping[str, str], most: int) -> tuple[int, str] | None:
    if headers.get("content-encoding", "identity").strip().lower() not in ("identity", ""):
        return 415, "a body is sent as it is, without Content-Encoding"
    length = headers.get("content-length")
    if length is not None and (not length.isascii() or not length.isdecimal() or len(length) > 18):
        return 400, "Content-Length is no length"
    if length is not None and int(length) > most:
        return 413, f"the body has at most {most} bytes"
    return None


def _has_body(headers: Mapping[str, str]) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
