"""One HTTP call to an endpoint, and what its end is called."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import httpx
from ssrfguard.errors import SSRFGuardError, TooManyRedirectsError
from ssrfguard.httpx import AsyncClient

from ptkstore.adapters.webhooks.destinations import EndpointRefused
from ptkstore.adapters.webhooks.signing import signed_headers
from ptkstore.domain.subscriptions import GONE
from ptkstore.ports.messages import Delivered, Message, NotDelivered

LARGEST_ANSWER_BYTES = 64 * 1024  # read so that the endpoint can finish, then dropped
CONNECTION_FAILED = "connection-failed"
BAD_ENDPOINT = "bad-endpoint"
FAILURES = (EndpointRefused, TimeoutError, SSRFGuardError, httpx.InvalidURL, httpx.TransportError, OSError)
_OURS = {
    "content-type": "application/json",
    "accept-encoding": "identity",
    "user-agent": "ptkstore-webhooks/1",
}


async def post(client: AsyncClient, message: Message) -> Delivered | NotDelivered:
    """Sign and send a message, and classify the endpoint's status; read and drop the beginning of its body."""
    headers = signed_headers(message.secrets, message.id, datetime.now(UTC), message.body)
    client.cookies.clear()  # set by whoever was called before over this connection, which may be another's endpoint
    begun = time.monotonic()
    request = client.stream("POST", message.endpoint, content=message.body, headers={**headers, **_OURS})
    async with request as response:
        n_read = 0
        async for chunk in response.aiter_raw():
            n_read += len(chunk)
            if n_read > LARGEST_ANSWER_BYTES:
                break
        outcome = outcome_of(response.status_code, response.headers.get("retry-after", ""))
        return replace(outcome, status=response.status_code, seconds=time.monotonic() - begun)


def outcome_of(status: int, retry_after: str = "") -> Delivered | NotDelivered:
    """Classify a status; the header counts where it says that the endpoint may take the message later."""
    if httpx.codes.is_success(status):
        return Delivered()
    if httpx.codes.is_redirect(status):
        return NotDelivered("redirect")
    if status == httpx.codes.GONE:
        return NotDelivered(GONE)
    code = "status-4xx" if httpx.codes.is_client_error(status) else "status-5xx"
    asks = status in (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE)
    return NotDelivered(code, retry_after=wait_of(retry_after.strip(), datetime.now(UTC)) if asks else None)


def wait_of(retry_after: str, now: datetime) -> timedelta | None:
    """Parse a `Retry-After`, seconds or a date; None for anything else, and for a date that is over."""
    if retry_after.isascii() and retry_after.isdigit():
        return timedelta(seconds=int(retry_after[:9]))  # more digits are years too
    with suppress(ValueError, TypeError, IndexError, OverflowError):
        at = parsedate_to_datetime(retry_after)
        at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        return at - now if at > now else None
    return None


def failure_of(error: BaseException, timeout_seconds: float | None = None) -> NotDelivered:
    """Name one of `FAILURES`; a timeout took as long as an attempt may."""
    match error:
        case EndpointRefused():
            return _as_told(error.delivery_code)
        case TimeoutError() | httpx.TimeoutException():
            return NotDelivered("timeout", seconds=timeout_seconds)
        case TooManyRedirectsError():
            return NotDelivered("redirect")
        case SSRFGuardError():
            return _as_told("refused-address")
        case httpx.InvalidURL():
            return NotDelivered(BAD_ENDPOINT)
        case _:
            return NotDelivered(CONNECTION_FAILED)


def _as_told(code: str) -> NotDelivered:
    """One code for a name that leads nowhere and for one that leads where policy forbids.

    A caller who may name endpoints could otherwise learn which names and addresses our network has.
    """
    if code in (BAD_ENDPOINT, CONNECTION_FAILED):
        return NotDelivered(code)
    return NotDelivered(CONNECTION_FAILED, cause=code)
