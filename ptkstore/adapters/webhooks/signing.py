"""Secrets and signatures of Standard Webhooks."""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from standardwebhooks.webhooks import EmptyWebhookSecretError, Webhook

from ptkstore.errors import InvalidRequest

PREFIX = "whsec_"
SECRET_BYTES = 32  # the specification asks for 24 to 64


def new_secret() -> str:
    """Make a signing secret for a subscription, from the system's cryptographic source."""
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode("ascii")


def signed_headers(
    signing: str | Sequence[str], message_id: str, sent_at: datetime, body: bytes
) -> Mapping[str, str]:
    """Make the three headers of one attempt, signed with one secret or several; `sent_at` must know its time zone.

    Raises `InvalidRequest` when a secret is none of ours.
    """
    sent_at = sent_at.astimezone(UTC)
    every = (signing,) if isinstance(signing, str) else signing
    text = body.decode("utf-8")
    signature = " ".join(signer(secret).sign(message_id, sent_at, text) for secret in every)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(sent_at.timestamp())),
        "webhook-signature": signature,
    }


def signer(secret: str) -> Webhook:
    """Make what signs and verifies with a `whsec_` secret; a wrong one is never repeated in the error."""
    try:
        return Webhook(secret)
    except (binascii.Error, EmptyWebhookSecretError, ValueError):
        raise InvalidRequest(f"a signing secret is {PREFIX!r} followed by base64") from None
