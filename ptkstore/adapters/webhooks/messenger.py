"""Send signed messages over HTTP."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from functools import cached_property

import httpx
from ssrfguard import Resolver
from ssrfguard.errors import SSRFGuardError, TooManyRedirectsError
from ssrfguard.httpx import AsyncClient

from ptkstore.adapters.webhooks.destinations import Destination, Destinations, EndpointRefused
from ptkstore.adapters.webhooks.signing import signed_headers
from ptkstore.ports.messages import Delivered, NotDelivered

LARGEST_ANSWER_BYTES = 64 * 1024  # read so that the endpoint can finish, then dropped


class HttpMessenger:
    """Sends messages as Standard Webhooks describe, to checked addresses only, without redirects or proxies.

    The codes of `NotDelivered`: `timeout`, `refused-address`, `connection-failed`, `redirect`, `status-4xx`,
    `status-5xx`, `bad-endpoint`. Nothing that an endpoint answers is kept.
    """

    def __init__(
        self,
        allowed_networks: Collection[str] = (),
        allowed_ports: Collection[int] | None = None,
        timeout_seconds: float = 10.0,
        *,
        resolver: Resolver | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """Prepare to send.

        Parameters
        ----------
        allowed_networks
            Networks that may be reached though they are not public, and by plain http too.
        allowed_ports
            The only ports that are connected to. By default 443, and any port by plain http: that reaches
            allowed networks only.
        timeout_seconds
            For one attempt as a whole: lookup, connection, request and the end of the answer.
        resolver
            In place of the system's name lookup; its answers are checked like any others.
        ssl_context
            In place of the public certificate authorities.
        """
        self._destinations = Destinations(allowed_networks, allowed_ports, resolver)
        self._timeout_seconds = timeout_seconds
        self._given_ssl_context = ssl_context

    def check_endpoint(self, endpoint: str) -> None:
        """`InvalidRequest` unless the URL is well formed and its scheme and present address are allowed."""
        self._destinations.destination(endpoint, self._timeout_seconds)

    def send(self, endpoint: str, message_id: str, body: bytes, secret: str) -> Delivered | NotDelivered:
        """One attempt. Not to be called from inside a running event loop."""
        headers = signed_headers(secret, message_id, datetime.now(UTC), body)
        until = time.monotonic() + self._timeout_seconds
        try:
            destination = self._destinations.destination(endpoint, self._timeout_seconds)
            status = asyncio.run(self._post(destination, endpoint, headers, body, until - time.monotonic()))
        except EndpointRefused as refused:
            return NotDelivered(refused.delivery_code)
        except (TimeoutError, httpx.TimeoutException):
            return NotDelivered("timeout")
        except TooManyRedirectsError:
            return NotDelivered("redirect")
        except SSRFGuardError:
            return NotDelivered("refused-address")
        except httpx.InvalidURL:
            return NotDelivered("bad-endpoint")
        except (httpx.TransportError, OSError):
            return NotDelivered("connection-failed")
        return _outcome(status)

    async def _post(
        self,
        destination: Destination,
        endpoint: str,
        headers: Mapping[str, str],
        body: bytes,
        within_seconds: float,
    ) -> int:
        async with (
            asyncio.timeout(within_seconds),
            AsyncClient(
                policy=destination.policy,
                resolver=destination.resolver,
                trust_env=False,
                follow_redirects=False,
                timeout=within_seconds,
                verify=self._ssl_context,
            ) as client,
            client.stream(
                "POST",
                endpoint,
                content=body,
                headers={
                    **headers,
                    "content-type": "application/json",
                    "accept-encoding": "identity",
                    "user-agent": "ptkstore-webhooks/1",
                },
            ) as response,
        ):
            n_read = 0
            async for chunk in response.aiter_raw():
                n_read += len(chunk)
                if n_read > LARGEST_ANSWER_BYTES:
                    break
            return response.status_code

    @cached_property
    def _ssl_context(self) -> ssl.SSLContext:
        if self._given_ssl_context is not None:
            return self._given_ssl_context
        return httpx.create_ssl_context(trust_env=False)


def _outcome(status: int) -> Delivered | NotDelivered:
    if httpx.codes.is_success(status):
        return Delivered()
    if httpx.codes.is_redirect(status):
        return NotDelivered("redirect")
    return NotDelivered("status-4xx" if httpx.codes.is_client_error(status) else "status-5xx")
