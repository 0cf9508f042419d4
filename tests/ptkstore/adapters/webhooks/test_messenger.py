"""Sending, against real receivers on loopback."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ptkstore.adapters.webhooks import HttpMessenger, new_secret
from ptkstore.adapters.webhooks.attempts import wait_of
from ptkstore.ports.messages import Delivered, Message, Messenger, NotDelivered
from tests.support.destinations import BAD_FORM, PUBLIC, answering
from tests.support.raw_endpoints import (
    EMPTY_200,
    Raw,
    drips_a_body,
    drips_headers,
    raw,
    repeats_a_provisional_answer,
    says,
    says_nothing,
)
from tests.support.receiver import WebhookReceiver

LOOPBACK = ("127.0.0.1/32",)
NOW = datetime(2026, 1, 5, tzinfo=UTC)
REFUSED = NotDelivered("connection-failed", cause="refused-address")
BODY = json.dumps({"type": "ptk.state.published", "data": {"ptk_id": "taxi.speed", "version": 7}}).encode()


def message(endpoint: str, secret: str, message_id: str = "msg_1") -> Message:
    return Message("key", endpoint, message_id, BODY, (secret,))


@pytest.fixture
def messenger() -> Messenger:
    return HttpMessenger(LOOPBACK, timeout_seconds=5.0)


def test_a_message_arrives_signed_with_the_three_headers(
    messenger: Messenger, webhook_receiver: WebhookReceiver
) -> None:
    secret = new_secret()
    webhook_receiver.trust(secret)
    messenger.check_endpoint(webhook_receiver.endpoint())
    assert messenger.send(message(webhook_receiver.endpoint(), secret, "msg_s_1")) == Delivered()
    (call,) = webhook_receiver.calls
    assert (call.webhook_id, call.verified, call.message) == ("msg_s_1", True, json.loads(BODY))


def test_the_id_stays_the_same_over_retries_and_the_receiver_verifies_every_one(
    messenger: Messenger, webhook_receiver: WebhookReceiver
) -> None:
    secret = new_secret()
    webhook_receiver.trust(secret)
    webhook_receiver.answer_next(2, status=500)
    webhook_receiver.cut_next(1)
    outcomes = [messenger.send(message(webhook_receiver.endpoint(), secret, "msg_s_1")) for _ in range(4)]
    assert outcomes == [
        NotDelivered("status-5xx"),
        NotDelivered("status-5xx"),
        NotDelivered("connection-failed"),
        Delivered(),
    ]
    assert [(call.webhook_id, call.verified) for call in webhook_receiver.calls] == [("msg_s_1", True)] * 4
    assert len(webhook_receiver.accepted) == 1


def test_a_message_of_another_secret_is_refused_by_the_receiver(
    messenger: Messenger, webhook_receiver: WebhookReceiver
) -> None:
    webhook_receiver.trust(new_secret())
    outcome = messenger.send(message(webhook_receiver.endpoint(), new_secret(), "msg_s_1"))
    assert outcome == NotDelivered("status-4xx")


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, Delivered()),
        (202, Delivered()),
        (204, Delivered()),
        (299, Delivered()),
        (300, NotDelivered("redirect")),
        (304, NotDelivered("redirect")),
        (400, NotDelivered("status-4xx")),
        (410, NotDelivered("gone")),
        (429, NotDelivered("status-4xx")),
        (500, NotDelivered("status-5xx")),
        (503, NotDelivered("status-5xx")),
        (599, NotDelivered("status-5xx")),
        (799, NotDelivered("status-5xx")),
    ],
)
def test_every_status_has_its_outcome(
    messenger: Messenger, status: int, outcome: Delivered | NotDelivered
) -> None:
    with raw(says(f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n".encode())) as server:
        assert messenger.send(message(server.url, new_secret())) == outcome


@pytest.mark.parametrize(
    ("status", "retry_after"),
    [(429, timedelta(seconds=120)), (503, timedelta(seconds=120)), (500, None), (400, None)],
)
def test_the_wait_that_an_endpoint_asks_for_comes_with_the_outcome(
    messenger: Messenger, status: int, retry_after: timedelta | None
) -> None:
    with raw(
        says(f"HTTP/1.1 {status} X\r\nretry-after: 120\r\ncontent-length: 0\r\n\r\n".encode())
    ) as server:
        outcome = messenger.send(message(server.url, new_secret()))
    assert outcome == NotDelivered(f"status-{status // 100}xx", retry_after)


@pytest.mark.parametrize(
    ("header", "wait"),
    [
        ("0", timedelta(0)),
        ("120", timedelta(seconds=120)),
        ("9" * 5_000, timedelta(seconds=999_999_999)),
        ("Mon, 05 Jan 2026 00:02:00 GMT", timedelta(seconds=120)),
        ("Mon, 05 Jan 2026 01:02:00 +0100", timedelta(seconds=120)),
        ("Mon, 05 Jan 2026 00:02:00 -0000", timedelta(seconds=120)),
        ("Sun, 04 Jan 2026 00:00:00 GMT", None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC) - NOW),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("\u0661\u0662", None),
        ("soon", None),
        ("Fri, 31 Dec 99999999 23:59:59 GMT", None),
        ("Mon, 99 Jan 2026 99:99:99 +9999999", None),
    ],
)
def test_a_wait_is_asked_for_in_seconds_or_by_a_date(header: str, wait: timedelta | None) -> None:
    assert wait_of(header, NOW) == wait


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "place", ["http://127.0.0.1:{port}/", "http://169.254.169.254/", "//[bad", "file:///x"]
)
def test_a_redirect_is_not_followed(messenger: Messenger, status: int, place: str) -> None:
    with raw(says(EMPTY_200)) as private:
        location = place.format(port=private.port)
        answer = f"HTTP/1.1 {status} Go\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"
        with raw(says(answer.encode())) as server:
            assert messenger.send(message(server.url, new_secret())) == NotDelivered("redirect")
            assert len(server.requests) == 1
        assert private.requests == []


@pytest.mark.parametrize("endpoint", BAD_FORM.values(), ids=BAD_FORM.keys())
def test_a_bad_endpoint_is_an_outcome_of_sending(endpoint: str) -> None:
    messenger = HttpMessenger(resolver=answering("127.0.0.1"))
    assert messenger.send(message(endpoint, new_secret())) == NotDelivered("bad-endpoint")


def test_a_receiver_outside_every_allowed_network_gets_nothing() -> None:
    with raw(says(EMPTY_200)) as server:
        elsewhere = HttpMessenger(("10.0.0.0/8",))
        for host in ("127.0.0.1", "localhost", "0x7f000001", "[::ffff:127.0.0.1]"):
            outcome = elsewhere.send(message(f"http://{host}:{server.port}/", new_secret()))
            assert outcome == REFUSED
        assert server.requests == []


def test_a_name_that_moves_to_a_private_address_after_the_check_is_refused() -> None:
    answers = iter([answering(PUBLIC), answering("127.0.0.1")])
    with raw(says(EMPTY_200)) as server:
        messenger = HttpMessenger(allowed_ports=(server.port,), resolver=lambda *asked: next(answers)(*asked))
        endpoint = f"https://rebinds.example:{server.port}/"
        messenger.check_endpoint(endpoint)
        assert messenger.send(message(endpoint, new_secret())) == REFUSED
        assert server.requests == []


def test_a_name_is_looked_up_once_and_the_checked_address_is_the_one_connected_to() -> None:
    asked: list[str] = []

    def moves(host: str, *more: Any) -> Any:
        asked.append(host)
        return answering("127.0.0.1" if len(asked) == 1 else "127.0.0.2")(host, *more)

    with raw(says(EMPTY_200)) as server:
        messenger = HttpMessenger(LOOPBACK, resolver=moves)
        endpoint = f"http://rebinds.example:{server.port}/"
        assert messenger.send(message(endpoint, new_secret())) == Delivered()
        assert asked == ["rebinds.example"]
        assert f"host: rebinds.example:{server.port}" in server.requests[0].decode().lower()


def test_a_proxy_of_the_environment_is_not_used(
    messenger: Messenger, webhook_receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = new_secret()
    webhook_receiver.trust(secret)
    with raw(says(EMPTY_200)) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert messenger.send(message(webhook_receiver.endpoint(), secret)) == Delivered()
        assert proxy.requests == []
    assert len(webhook_receiver.accepted) == 1


@pytest.mark.parametrize("slow", [drips_a_body, drips_headers, repeats_a_provisional_answer, says_nothing])
def test_the_time_limit_holds_for_the_whole_attempt(
    slow: Callable[[socket.socket, threading.Event], None],
) -> None:
    stop = threading.Event()
    with raw(lambda connection: slow(connection, stop)) as server:
        messenger = HttpMessenger(LOOPBACK, timeout_seconds=0.3)
        assert messenger.send(message(server.url, new_secret())) == NotDelivered("timeout")
        stop.set()


def test_a_lookup_that_hangs_counts_towards_the_time_limit() -> None:
    let_go = threading.Event()

    def hangs(*_: object) -> Any:
        let_go.wait(20.0)
        return []

    messenger = HttpMessenger(LOOPBACK, timeout_seconds=0.1, resolver=hangs)
    lost = NotDelivered("connection-failed", cause="timeout")
    assert messenger.send(message("http://slow.example/", new_secret())) == lost
    let_go.set()


def test_of_a_huge_answer_only_the_beginning_is_read(messenger: Messenger) -> None:
    sent: list[int] = []
    cut_off = threading.Event()

    def floods(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100000000000\r\n\r\n")
        try:
            while True:
                sent.append(connection.send(b"x" * 65536))
        except OSError:
            cut_off.set()

    with raw(floods) as server:
        assert messenger.send(message(server.url, new_secret())) == Delivered()
        assert cut_off.wait(20.0)
    assert sum(sent) < 64 * 1024 * 1024  # what the two socket buffers hold, not the 100 GB announced


def test_a_compressed_answer_is_not_unpacked(messenger: Messenger) -> None:
    no_gzip = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\nnope"
    with raw(says(no_gzip)) as server:
        assert messenger.send(message(server.url, new_secret())) == Delivered()
        assert b"accept-encoding: identity" in server.requests[0].lower()


@pytest.mark.parametrize(
    "garbage", [b"", b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 99999 X\r\n\r\n", b"\x00" * 99]
)
def test_what_is_no_http_answer_is_a_failed_connection(messenger: Messenger, garbage: bytes) -> None:
    with raw(says(garbage)) as server:
        outcome = messenger.send(message(server.url, new_secret()))
    assert outcome == NotDelivered("connection-failed")


def test_nobody_listening_is_a_failed_connection(messenger: Messenger) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    outcome = messenger.send(message(f"http://127.0.0.1:{port}/", new_secret()))
    assert outcome == NotDelivered("connection-failed")


@contextmanager
def tls_server(directory: Path, name: str) -> Iterator[tuple[Raw, ssl.SSLContext]]:
    """A server with a certificate for this name, and a client's context that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = directory / "certificate.pem"
    pem.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(pem)
    with raw(says(EMPTY_200), serving) as server:
        yield server, ssl.create_default_context(cafile=str(pem))


def test_https_verifies_the_certificate_against_the_name_and_not_the_address(tmp_path: Path) -> None:
    with tls_server(tmp_path, "hooks.example") as (server, trusting):
        lookup = answering("127.0.0.1")
        ports = (server.port,)
        trusts = HttpMessenger(LOOPBACK, ports, 5.0, resolver=lookup, ssl_context=trusting)
        endpoint = f"https://hooks.example:{server.port}/"
        assert trusts.send(message(endpoint, new_secret())) == Delivered()
        failed = NotDelivered("connection-failed")
        wrong_name = f"https://other.example:{server.port}/"
        assert trusts.send(message(wrong_name, new_secret())) == failed
        public_authorities = HttpMessenger(LOOPBACK, ports, 5.0, resolver=lookup)
        assert public_authorities.send(message(endpoint, new_secret())) == failed
        assert len(server.requests) == 1


def test_loopback_of_these_tests_is_what_they_think_it_is() -> None:
    assert ipaddress.ip_address("127.0.0.1") in ipaddress.ip_network(LOOPBACK[0])
    assert ipaddress.ip_address("127.0.0.2") not in ipaddress.ip_network(LOOPBACK[0])
