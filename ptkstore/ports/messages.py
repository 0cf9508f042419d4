"""How subscribers are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Delivered:
    """The endpoint answered with a 2xx status."""


@dataclass(frozen=True, slots=True)
class NotDelivered:
    """It did not; `code` is one of a fixed set (`timeout`, `refused-address`, `status-5xx`, ...)."""

    code: str


class Messenger(Protocol):
    """Sends one signed message over HTTP, to addresses that policy allows, without following redirects."""

    def check_endpoint(self, endpoint: str) -> None:
        """`InvalidRequest` unless the URL is well formed and its scheme and present address are allowed."""
        ...

    def send(self, endpoint: str, message_id: str, body: bytes, secret: str) -> Delivered | NotDelivered:
        """One attempt, signed as Standard Webhooks describe."""
        ...
