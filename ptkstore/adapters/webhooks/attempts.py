"""One HTTP call to an endpoint, and what its end is called."""

from __future__ import annotations

from collections.abc import Mapping

import httpx
from ssrfguard.errors import SSRFGuardError, TooManyRedirectsError
from ssrfguard.httpx import AsyncClient

from ptkstore.adapters.webhooks.destinations import EndpointRefused
from ptkstore.domain.subscriptions import GONE
from ptkstore.ports.messages import Delivered, NotDelivered

LARGEST_ANSWER_BYTES = 64 * 1024  # read so that the endpoint can finish, then dropped
FAILURES = (EndpointRefused, TimeoutError, SSRFGuardError, httpx.InvalidURL, httpx.TransportError, OSError)
_OURS = {
    "content-type": "application/json",
    "accept-encoding": "identity",
    "user-agent": "ptkstore-webhooks/1",
}


async def post(client: AsyncClient, endpoint: str, headers: Mapping[str, str], body: bytes) -> int:
    """The status that the endpoint answers with; of what else it answers the beginning is read and dropped."""
    client.cookies.clear()  # set by whoever was called before over this connection, which may be another's endpoint
    request = client.stream("POST", endpoint, content=body, headers={**headers, **_OURS})
    async with request as response:
        n_read = 0
        async for chunk in response.aiter_raw():
            n_read += len(chunk)
            if n_read > LARGEST_ANSWER_BYTES:
                break
        return response.status_code


def outcome_of(status: int) -> Delivered | NotDelivered:
    """What a status means."""
    if httpx.codes.is_success(status):
        return Delivered()
    if httpx.codes.is_redirect(status):
        return NotDelivered("redirect")
    if status == httpx.codes.GONE:
        return NotDelivered(GONE)
    return NotDelivered("status-4xx" if httpx.codes.is_client_error(status) else "status-5xx")


def failure_of(error: BaseException) -> NotDelivered:
    """What one of `FAILURES` is called."""
    match error:
        case EndpointRefused():
            return NotDelivered(error.delivery_code)
        case TimeoutError() | httpx.TimeoutException():
            return NotDelivered("timeout")
        case TooManyRedirectsError():
            return NotDelivered("redirect")
        case SSRFGuardError():
            return NotDelivered("refused-address")
        case httpx.InvalidURL():
            return NotDelivered("bad-endpoint")
        case _:
            return NotDelivered("connection-failed")
