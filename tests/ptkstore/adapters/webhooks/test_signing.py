"""Secrets and signatures, checked by the library that receivers use."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta, timezone

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from ptkstore.adapters.webhooks import new_secret
from ptkstore.adapters.webhooks.signing import signed_headers
from ptkstore.errors import InvalidRequest

BODY = '{"type":"ptk.state.published","data":{"ptk_id":"taxi.speed"},"note":"größer"}'.encode()


def test_a_secret_has_32_random_bytes_behind_the_standard_prefix() -> None:
    secrets = {new_secret() for _ in range(100)}
    assert len(secrets) == 100
    assert {secret[:6] for secret in secrets} == {"whsec_"}
    assert {len(base64.b64decode(secret[6:], validate=True)) for secret in secrets} == {32}


def test_a_signature_follows_the_specification() -> None:
    # https://github.com/standard-webhooks/standard-webhooks/blob/main/libraries/python/tests/test_webhooks.py
    headers = signed_headers(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        datetime.fromtimestamp(1614265330, UTC),
        b'{"test": 2432232314}',
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@pytest.mark.parametrize(
    "zone", [UTC, timezone(timedelta(hours=-8)), timezone(timedelta(hours=5, minutes=45))]
)
def test_a_receiver_verifies_what_was_signed_whatever_the_time_zone(zone: timezone) -> None:
    secret = new_secret()
    headers = dict(signed_headers(secret, "msg_1", datetime.now(zone), BODY))
    assert Webhook(secret).verify(BODY, headers)["data"] == {"ptk_id": "taxi.speed"}


@pytest.mark.parametrize("change", ["body", "webhook-id", "webhook-timestamp", "webhook-signature", "secret"])
def test_a_receiver_refuses_whatever_was_changed(change: str) -> None:
    secret = new_secret()
    now = datetime.now(UTC)
    headers = dict(signed_headers(secret, "msg_1", now, BODY))
    other = dict(signed_headers(new_secret(), "msg_2", now + timedelta(seconds=2), BODY))
    if change in headers:
        headers[change] = other[change]
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret() if change == "secret" else secret).verify(
            BODY.replace(b"speed", b"count") if change == "body" else BODY, headers
        )


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_x", "whsec_ä"])
def test_a_secret_that_cannot_be_one_is_refused_without_being_repeated(secret: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^a signing secret is 'whsec_' followed by base64\n") as caught:
        signed_headers(secret, "msg_1", datetime.now(UTC), BODY)
    assert caught.value.__cause__ is None
