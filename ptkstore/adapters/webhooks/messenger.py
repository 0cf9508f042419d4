"""Send signed messages over HTTP."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Collection
from functools import cached_property

import httpx
from ssrfguard import Resolver
from ssrfguard.httpx import AsyncClient

from ptkstore.adapters.webhooks.attempts import FAILURES, failure_of, post
from ptkstore.adapters.webhooks.destinations import Destination, Destinations
from ptkstore.ports.messages import Delivered, Message, NotDelivered

_ONE_CONNECTION = httpx.Limits(max_connections=1, max_keepalive_connections=0)


class HttpMessenger:
    """Sends messages as Standard Webhooks describe, to checked addresses only, without redirects or proxies.

    The codes of `NotDelivered`: `timeout`, `connection-failed`, `redirect`, `gone`, `status-4xx`, `status-5xx`,
    `bad-endpoint`. Of what an endpoint answers only the status, its time and the wait that it asks for are kept.
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
        self.destinations = Destinations(allowed_networks, allowed_ports, resolver)
        self.timeout_seconds = timeout_seconds
        self._given_ssl_context = ssl_context

    def check_endpoint(self, endpoint: str, team: str = "") -> None:
        """Look the endpoint's host up, and check its form, scheme and present addresses; see the port."""
        self.destinations.destination(endpoint, self.timeout_seconds, asked_by=team)

    def send(self, message: Message) -> Delivered | NotDelivered:
        """Make one attempt. Not to be called from inside a running event loop."""
        until = time.monotonic() + self.timeout_seconds
        try:
            destination = self.destinations.destination(message.endpoint, self.timeout_seconds)
            return asyncio.run(self._post(destination, message, until - time.monotonic()))
        except FAILURES as failed:
            return failure_of(failed, self.timeout_seconds)

    def client(self, destination: Destination, limits: httpx.Limits) -> AsyncClient:
        """Make an HTTP client that connects to the checked addresses and nowhere else."""
        return AsyncClient(
            policy=destination.policy,
            resolver=destination.resolver,
            trust_env=False,
            follow_redirects=False,
            timeout=self.timeout_seconds,
            verify=self._ssl_context,
            limits=limits,
        )

    async def _post(
        self, destination: Destination, message: Message, within_seconds: float
    ) -> Delivered | NotDelivered:
        async with asyncio.timeout(within_seconds), self.client(destination, _ONE_CONNECTION) as client:
            return await post(client, message)

    @cached_property
    def _ssl_context(self) -> ssl.SSLContext:
        if self._given_ssl_context is not None:
            return self._given_ssl_context
        return httpx.create_ssl_context(trust_env=False)
