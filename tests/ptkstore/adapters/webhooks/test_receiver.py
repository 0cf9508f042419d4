"""The local receiver: verifies, logs before it answers, and fails on demand."""

from __future__ import annotations

import http.client
import json
import socket
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ptkstore.adapters.webhooks import new_secret
from ptkstore.adapters.webhooks.signing import signed_headers
from tests.support.receiver import WebhookReceiver, read_log

BODY = b'{"version": 1}'


def post(receiver: WebhookReceiver, headers: dict[str, str], body: bytes = BODY) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=10)
    connection.request("POST", "/hook", body, headers)
    status = connection.getresponse().status
    connection.close()
    return status


def signed(secret: str, message_id: str = "msg_1", sent_at: datetime | None = None) -> dict[str, str]:
    return dict(signed_headers(secret, message_id, sent_at or datetime.now(UTC), BODY))


@pytest.fixture
def secret(webhook_receiver: WebhookReceiver) -> str:
    secret = new_secret()
    webhook_receiver.trust(secret)
    return secret


def test_a_call_is_in_the_log_before_it_is_answered(webhook_receiver: WebhookReceiver, secret: str) -> None:
    for number in range(3):
        assert post(webhook_receiver, signed(secret, f"msg_{number}")) == 204
        assert [call.webhook_id for call in read_log(webhook_receiver.log)][-1] == f"msg_{number}"
    assert read_log(webhook_receiver.log) == webhook_receiver.calls == webhook_receiver.accepted
    assert secret not in webhook_receiver.log.read_text()
    assert stat.S_IMODE(webhook_receiver.log.stat().st_mode) == 0o600


def test_several_subscriptions_may_share_a_receiver(webhook_receiver: WebhookReceiver, secret: str) -> None:
    other = new_secret()
    webhook_receiver.trust(other)
    assert [post(webhook_receiver, signed(one)) for one in (secret, other)] == [204, 204]


def test_what_does_not_verify_is_logged_without_its_content_and_answered_with_401(
    webhook_receiver: WebhookReceiver, secret: str
) -> None:
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    for headers in ({}, signed(new_secret()), signed(secret, sent_at=long_ago), {"webhook-signature": "x"}):
        assert post(webhook_receiver, headers) == 401
    assert post(webhook_receiver, signed(secret), BODY + b" ") == 401
    calls = webhook_receiver.calls
    assert [(call.verified, call.status, call.message) for call in calls] == [(False, 401, None)] * 5
    assert webhook_receiver.accepted == ()


def test_faults_are_used_up_in_order(webhook_receiver: WebhookReceiver, secret: str) -> None:
    webhook_receiver.answer_next(1, status=500)
    webhook_receiver.cut_next(1)
    webhook_receiver.delay_next(1, seconds=0.05)
    assert post(webhook_receiver, signed(secret)) == 500
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        post(webhook_receiver, signed(secret))
    assert post(webhook_receiver, signed(secret)) == 204
    assert post(webhook_receiver, signed(secret)) == 204
    assert [call.status for call in webhook_receiver.calls] == [500, None, 204, 204]


def test_a_new_receiver_appends_to_the_log_and_skips_a_torn_line(tmp_path: Path) -> None:
    secret, log = new_secret(), tmp_path / "log.jsonl"
    for number in range(2):
        with WebhookReceiver(log) as receiver:
            receiver.trust(secret)
            assert post(receiver, signed(secret, f"msg_{number}")) == 204
        with log.open("a") as torn:
            torn.write('{"message": {"vers')
    assert [call.webhook_id for call in read_log(log)] == ["msg_0", "msg_1"]


def test_it_can_come_back_on_the_same_port(tmp_path: Path) -> None:
    secret = new_secret()
    receiver = WebhookReceiver(tmp_path / "log.jsonl").start()
    receiver.trust(secret)
    port = receiver.port
    receiver.stop()
    receiver.stop()
    with pytest.raises(ConnectionRefusedError):
        post(receiver, signed(secret))
    with receiver:
        assert receiver.port == port
        assert post(receiver, signed(secret)) == 204


def test_calls_at_once_are_whole_lines_of_the_log(webhook_receiver: WebhookReceiver, secret: str) -> None:
    ids = [f"msg_{number}" for number in range(20)]
    threads = [threading.Thread(target=post, args=(webhook_receiver, signed(secret, one))) for one in ids]
    for thread in threads:
        thread.start()
    assert len(webhook_receiver.wait_for(20, timeout_seconds=20)) == 20
    for thread in threads:
        thread.join()
    lines = [json.loads(line) for line in webhook_receiver.log.read_text().splitlines()]
    assert sorted(line["webhook_id"] for line in lines) == sorted(ids)
    assert [line["webhook_id"] for line in lines] == [call.webhook_id for call in webhook_receiver.calls]


def test_a_message_that_is_too_large_or_of_unknown_length_is_not_read(
    webhook_receiver: WebhookReceiver, secret: str
) -> None:
    assert post(webhook_receiver, {**signed(secret), "content-length": str(2**30)}, b"") == 413
    assert post(webhook_receiver, {**signed(secret), "content-length": "many"}, b"") == 411
    assert webhook_receiver.calls == ()


def test_it_listens_on_this_machine_only(webhook_receiver: WebhookReceiver) -> None:
    assert webhook_receiver.endpoint("a") == f"http://127.0.0.1:{webhook_receiver.port}/a"
    assert webhook_receiver._server is not None
    assert webhook_receiver._server.server_address[0] == "127.0.0.1"


def test_half_a_message_whose_sender_died_is_none(webhook_receiver: WebhookReceiver, secret: str) -> None:
    head = [
        f"{name}: {value}" for name, value in {**signed(secret), "content-length": str(len(BODY))}.items()
    ]
    with socket.create_connection(("127.0.0.1", webhook_receiver.port), timeout=10) as sender:
        sender.sendall("\r\n".join(["POST /hook HTTP/1.1", *head, "", ""]).encode() + BODY[:5])
        sender.shutdown(socket.SHUT_WR)
        assert sender.recv(1) == b""  # hung up, without an answer
    assert post(webhook_receiver, signed(secret, "msg_2")) == 204
    assert [call.webhook_id for call in read_log(webhook_receiver.log)] == ["msg_2"]
