"""The routes of devices, outside of the framework: they serve thousands of requests a second.

No request of a device has a line in the log, a span or a time in metrics. Together with a view of the network, that
would say who sent which report. Requests are counted, by PTK and outcome, in steps of a minute.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import NoReturn

from anyio import CapacityLimiter, to_thread
from starlette.types import ASGIApp, Receive, Scope, Send

from ptkstore.adapters.runtime import RequestLog
from ptkstore.api.device_counts import UNKNOWN, DeviceCounts
from ptkstore.api.devices.rates import BodiesAtOnce, GatewayRates, TicketRates
from ptkstore.api.devices.served import ServedModels
from ptkstore.api.devices.turns import FairTurns
from ptkstore.api.problems import answer, plain_problem, problem_of
from ptkstore.api.requests.envelope import REQUEST_ID, SAFE_HEADERS, STRICT_TRANSPORT
from ptkstore.application.devices.served_models import ServedModel, SpamTest
from ptkstore.domain.tickets import Refusal, Ticket
from ptkstore.errors import PtkStoreError, TooManyRequests, Unavailable, UnknownName
from ptkstore.wire.problems import TYPE_PREFIX, Problem
from ptkstore.wiring import Service

BODY_WITHIN_SECONDS = 10.0
BYTES_PER_SECOND = 65_536.0
"""At which the rest of a long report comes at least."""

DEVICE_PATHS = ("/v1/device/specification", "/v1/device/draw", "/v1/device/put")

_OCTETS = b"application/octet-stream"
_TICKET = re.compile(rb"[Tt]icket +([A-Za-z0-9_-]{1,400})")
_STATUS = {
    Refusal.FORGED: 401,
    Refusal.EXPIRED: 401,
    Refusal.USED: 409,
    Refusal.NOT_DRAWN: 409,
    Refusal.EPOCH_OVER: 409,
    Refusal.REPORT: 422,
}
_SAYS = {
    Refusal.FORGED: "no ticket came, or one that was not made here",
    Refusal.EXPIRED: "the ticket has expired; ask for another one",
    Refusal.USED: "the ticket was used for this already",
    Refusal.NOT_DRAWN: "nothing was drawn with this ticket",
    Refusal.EPOCH_OVER: "the model that the ticket is for was replaced; ask for another ticket",
    Refusal.REPORT: "the report cannot be taken",
}
_Headers = list[tuple[bytes, bytes]]
_Act = Callable[[Scope, Receive, Send], Awaitable[None]]


class _Refused(Exception):
    """An answer that refuses; `outcome` is what is counted."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        outcome: str,
        ptk_id: str = UNKNOWN,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(code)
        self.status, self.code, self.detail = status, code, detail
        self.outcome, self.ptk_id, self.headers = outcome, ptk_id, headers or {}


class DeviceRoutes:
    """The outermost layer: serves what devices ask for, and passes all else on.

    Parameters
    ----------
    app : ASGI application
        What serves all else.
    service : Service
    models : ServedModels
    counts : DeviceCounts
    """

    def __init__(self, app: ASGIApp, *, service: Service, models: ServedModels, counts: DeviceCounts) -> None:
        self._app, self._service, self._models, self._counts = app, service, models, counts
        self._rates = GatewayRates(service.settings.device_reports_per_second)
        self._tries, self._bodies = TicketRates(), BodiesAtOnce()
        self._turns = FairTurns()
        self._examines: CapacityLimiter | None = None
        self._log = RequestLog()
        self._safe: _Headers = [
            (name.lower().encode(), value.encode()) for name, value in SAFE_HEADERS.items()
        ]
        acts: tuple[tuple[str, _Act], ...] = (
            ("GET", self._specification),
            ("POST", self._draw),
            ("POST", self._put),
        )
        self._acts = dict(zip(DEVICE_PATHS, acts, strict=True))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        found = self._acts.get(scope["path"]) if scope["type"] == "http" else None
        if found is None:
            await self._app(scope, receive, send)
            return
        method, act = found
        try:
            if scope["method"] != method:
                raise _Refused(
                    405,
                    "method-not-allowed",
                    f"this address takes {method} alone",
                    "method",
                    headers={"Allow": method},
                )
            await act(scope, receive, send)
        except _Refused as refused:
            self._counts.saw(refused.ptk_id, refused.outcome)
            await self._refuse(scope, receive, send, refused)
            if act == self._put and refused.status != 429:  # who sends too much costs no more
                await self._count_report(refused)
        except PtkStoreError as error:
            self._counts.saw(UNKNOWN, error.code)
            await self._answer(scope, receive, send, problem_of(error, secrets.token_hex(8)), {})
        except Exception as error:  # noqa: BLE001 - the last one who could answer, and let no text out
            self._counts.saw(UNKNOWN, "internal-error")
            request_id = secrets.token_hex(8)
            self._log.failed(request_id, error)
            problem = plain_problem(
                500, "this is for the operator, who finds it by the request id", request_id
            )
            await self._answer(scope, receive, send, problem, {})

    async def _count_report(self, refused: _Refused) -> None:
        """Count a report that was refused for all processes; nobody waits for it."""
        epoch = self._models.epoch_of(refused.ptk_id)
        if epoch is not None:
            with suppress(Unavailable):
                await self._service.reports.count_refused(refused.ptk_id, epoch, refused.outcome)

    async def _specification(self, scope: Scope, receive: Receive, send: Send) -> None:
        ticket, _ = self._admitted(scope)
        model = await self._model(ticket)
        self._count_rate(ticket, "specification")
        self._counts.saw(model.ptk_id, "specification")
        await self._send(scope, send, 200, model.document, ((b"content-type", b"application/json"),))

    async def _draw(self, scope: Scope, receive: Receive, send: Send) -> None:
        ticket, length = self._admitted(scope)
        if length not in (None, 0):
            raise _Refused(413, "too-large", "a draw has no body", "length", ticket.ptk_id)
        model = await self._model(ticket)
        self._count_rate(ticket, "draw")
        drawn = await self._service.reports.draw(
            model.ptk_id, model.epoch, model.k, ticket.mark, ticket.seconds_remembered
        )
        if isinstance(drawn, Refusal):
            self._rates.give_back(ticket.gateway, "draw")
            self._refused(drawn, ticket)
        self._counts.saw(model.ptk_id, "drawn")
        more = ((b"content-type", _OCTETS), (b"ptk-specification", model.digest.encode()))
        await self._send(scope, send, 200, drawn, more)

    async def _put(self, scope: Scope, receive: Receive, send: Send) -> None:
        ticket, length = self._admitted(scope)
        model = await self._model(ticket)
        if length != model.n_bytes:
            self._refused(Refusal.REPORT, ticket, "length")
        with ExitStack() as held:
            await self._take(await self._received(receive, model.n_bytes, ticket, held), model, ticket)
        self._counts.saw(model.ptk_id, "put")
        await self._send(scope, send, 204, b"", ())

    async def _take(self, report: bytes, model: ServedModel, ticket: Ticket) -> None:
        self._count_rate(ticket, "put")
        reports = self._service.reports
        if (refusal := await reports.spend(model.ptk_id, model.epoch, ticket.mark)) is not None:
            self._rates.give_back(ticket.gateway, "put")
            self._refused(refusal, ticket)
        if (
            failed := await self._failed_test(model, report, ticket)
        ) is not None:  # of a spent ticket: once for each
            self._refused(Refusal.REPORT, ticket, failed)
        if (refusal := await reports.put(model.ptk_id, model.epoch, model.k, report)) is not None:
            self._refused(refusal, ticket)

    def _admitted(self, scope: Scope) -> tuple[Ticket, int | None]:
        """Return the ticket of a request and how long its body is, None if that is not said; nothing is read."""
        text, length = b"", None
        for name, value in scope["headers"]:
            if name == b"authorization":
                match = _TICKET.fullmatch(value)
                text = b"" if match is None else match[1]
            elif name == b"content-length":
                length = int(value) if value.isdigit() and len(value) < 10 else -1
            elif name == b"transfer-encoding":
                length = -1
            elif name == b"content-encoding" or (
                name == b"content-type" and scope["method"] == "POST" and value != _OCTETS
            ):
                raise _Refused(
                    415, "unknown-format", "a body is application/octet-stream, as it is", "format"
                )
        ticket = self._service.devices.read_ticket(text.decode())
        if isinstance(ticket, Refusal):
            raise _Refused(_STATUS[ticket], ticket, _SAYS[ticket], ticket)
        with _limited(ticket):
            self._tries.take(ticket)
        return ticket, length

    async def _model(self, ticket: Ticket) -> ServedModel:
        try:
            model = await self._models.get(ticket.ptk_id, ticket.epoch)
        except UnknownName:
            self._refused(Refusal.EPOCH_OVER, ticket)
        if model.epoch != ticket.epoch:
            self._refused(Refusal.EPOCH_OVER, ticket)
        return model

    def _count_rate(self, ticket: Ticket, kind: str) -> None:
        with _limited(ticket):
            self._rates.take(ticket.gateway, kind)

    async def _received(self, receive: Receive, length: int, ticket: Ticket, held: ExitStack) -> bytes:
        """Read a body of this length; for one that is not there yet, the ticket is looked at first.

        The body is counted until `held` ends. Bodies that wait for a test so have a limit;
        beyond it no ticket is spent.
        """
        try:
            async with asyncio.timeout(BODY_WITHIN_SECONDS + length / BYTES_PER_SECOND):
                part, more = await _part(receive, ticket)
                if more:
                    refusal = await self._service.reports.may_put(ticket.ptk_id, ticket.epoch, ticket.mark)
                    if refusal is not None:
                        self._refused(refusal, ticket)
                with _limited(ticket):
                    held.enter_context(self._bodies.of(ticket, length))
                parts = [part]
                while more:
                    part, more = await _part(receive, ticket)
                    parts.append(part)
                return b"".join(parts)
        except TimeoutError:
            raise _Refused(408, "too-slow", "the body came too slowly", "slow", ticket.ptk_id) from None

    async def _failed_test(self, model: ServedModel, report: bytes, ticket: Ticket) -> SpamTest | None:
        """Examine a report; one that needs older ranges does so in a thread, in a turn of its gateway."""
        if model.failed_test(report, older=False) is None:
            return None
        if self._examines is None:
            self._examines = CapacityLimiter(1)  # a thread that no other request waits for
        async with self._turns.turn(ticket.gateway):
            return await to_thread.run_sync(model.failed_test, report, limiter=self._examines)

    def _refused(self, refusal: Refusal, ticket: Ticket, outcome: str | None = None) -> NoReturn:
        raise _Refused(_STATUS[refusal], refusal, _SAYS[refusal], outcome or refusal, ticket.ptk_id)

    async def _send(
        self, scope: Scope, send: Send, status: int, body: bytes, more: Sequence[tuple[bytes, bytes]]
    ) -> None:
        headers = [*self._safe, *more]
        if body:
            headers.append((b"content-length", b"%d" % len(body)))
        if scope["scheme"] == "https":
            headers.append((b"strict-transport-security", STRICT_TRANSPORT.encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, refused: _Refused) -> None:
        problem = plain_problem(refused.status, refused.detail, secrets.token_hex(8)).model_copy(
            update={"code": str(refused.code), "type": TYPE_PREFIX + refused.code}
        )
        await self._answer(scope, receive, send, problem, refused.headers)

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, problem: Problem, more: Mapping[str, str]
    ) -> None:
        """Answer with a problem, and close the connection: a body may be left on it that nobody reads."""
        headers = {**SAFE_HEADERS, **more, REQUEST_ID: problem.request_id, "Connection": "close"}
        if scope["scheme"] == "https":
            headers["Strict-Transport-Security"] = STRICT_TRANSPORT
        if problem.status == 401:
            headers["WWW-Authenticate"] = 'Ticket realm="ptkstore"'
        await answer(problem, headers)(scope, receive, send)


@contextmanager
def _limited(ticket: Ticket) -> Iterator[None]:
    """Refuse with 429 what is too much, and count it as of the ticket's PTK."""
    try:
        yield
    except TooManyRequests as error:
        wait = {"Retry-After": str(error.retry_after)}
        raise _Refused(429, error.code, str(error), error.code, ticket.ptk_id, wait) from None


async def _part(receive: Receive, ticket: Ticket) -> tuple[bytes, bool]:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise _Refused(400, "invalid-request", "the body ended early", "early", ticket.ptk_id)
    return message.get("body", b""), message.get("more_body", False)
