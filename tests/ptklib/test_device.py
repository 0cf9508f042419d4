"""A device against servers that are honest, odd and hostile: what it sends, and that it counts before it sends."""

import datetime as dt
import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ptklib.draw_discard import (
    Categorical,
    Device,
    DeviceError,
    LimitReached,
    Limits,
    NoAnswer,
    NotAllowed,
    Numeric,
    OdometerError,
    Refused,
    ServerRefused,
    Specification,
    UntrustedAnswer,
    make_report,
    report_loss,
)
from ptklib.draw_discard.device import paces
from ptklib.exceptions import InvalidParameterError, MissingColumnError, SchemaError
from tests.support import device_server
from tests.support.device_server import DRAW, ONE, PUT, ROWS, SPECIFICATION, DeviceServer, _Handler, served
from tests.support.node import run_device

LIMITS = Limits(**device_server.LIMITS)


@pytest.fixture
def server() -> Iterator[DeviceServer]:
    with served(ONE) as world:
        yield world


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def device(server: DeviceServer, home: Path, **other: Any) -> Device:
    given: dict[str, Any] = {
        "limits": LIMITS,
        "tickets": server.issue,
        "pace_seconds": 0,
        "timeout_seconds": 5,
    }
    return Device(server.url, home, **(given | other))


def nothing_left(server: DeviceServer, one: Device) -> bool:
    return server.puts == [] and one.odometer.read().reports == ()


def test_a_report_is_drawn_computed_counted_and_put(server: DeviceServer, home: Path) -> None:
    server.instances[:] = 1000
    one = device(server, home)
    kept = one.contribute(ROWS)
    assert server.requests == [SPECIFICATION, DRAW, PUT]
    (put,) = server.puts
    step = np.frombuffer(put, "<i4") - 1000
    assert (step != 0).all()
    assert np.abs(step).max() < 60 * ONE.noise_scale
    assert sum((row == np.frombuffer(put, "<i4")).all() for row in server.instances) == 1
    assert one.odometer.read().reports == (kept,)
    loss = report_loss(ONE).whole
    assert (kept.epsilon, kept.delta) == (loss.epsilon, loss.delta)
    assert (kept.stream, kept.ptk, kept.window) == ("phones", "ads.phishy", 3)
    assert kept.specification == ONE.digest
    assert kept.server == server.url


def test_the_noise_is_that_of_the_library(
    server: DeviceServer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def noted(specification: Specification, instance: Any, rows: Any) -> Any:
        seen.append((specification, instance.tolist(), rows.labels.tolist()))
        return make_report(specification, instance, rows)

    monkeypatch.setattr("ptklib.draw_discard.device.make_report", noted)
    server.instances[:] = [7, -8, 2**31 - 1, -(2**31)]
    device(server, home).contribute(ROWS)
    assert seen == [(ONE, [7, -8, 2**31 - 1, -(2**31)], [2**20, 0])]


def test_rows_without_a_label_and_no_rows_make_a_report_too(server: DeviceServer, home: Path) -> None:
    one = device(server, home, limits=replace(LIMITS, reports_per_window=2))
    server.limits["reports_per_window"] = 2
    one.contribute({"age": [], "country": [], "clicked": []})
    one.contribute({"age": [3], "country": ["de"], "clicked": [None]})
    assert len(server.puts) == 2


def test_the_odometer_is_written_before_the_report_is_sent(server: DeviceServer, home: Path) -> None:
    seen = []

    def look(handler: _Handler) -> None:
        seen.append(json.loads((home / "odometer.json").read_text())["lost"]["reports"])
        handler.honest()

    server.instead = dict.fromkeys((SPECIFICATION, DRAW, PUT), look)
    device(server, home).contribute(ROWS)
    assert seen == [0, 0, 1]


def test_an_odometer_that_cannot_be_written_sends_nothing(
    server: DeviceServer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = device(server, home)
    one.allow(LIMITS)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OdometerError) as caught:
        one.contribute(ROWS)
    monkeypatch.undo()
    assert not caught.value.counted
    assert nothing_left(server, one)


def test_a_damaged_odometer_sends_nothing_and_draws_nothing(server: DeviceServer, home: Path) -> None:
    one = device(server, home)
    one.allow(LIMITS)
    one.odometer.path.write_text("{}")
    with pytest.raises(OdometerError):
        one.contribute(ROWS)
    assert server.requests == []


@pytest.mark.parametrize(
    "limits",
    [
        None,
        replace(LIMITS, report_epsilon=3.4),
        replace(LIMITS, columns=["age", "clicked"]),
        replace(LIMITS, columns=["age", "country"]),
    ],
)
def test_what_the_person_has_not_allowed_is_refused_and_may_be_asked(
    server: DeviceServer, home: Path, limits: Limits | None
) -> None:
    with pytest.raises(NotAllowed) as caught:
        device(server, home, limits=limits).contribute(ROWS)
    asked: list[NotAllowed] = []
    with pytest.raises(NotAllowed):
        device(server, home, limits=limits, ask=lambda error: bool(asked.append(error))).contribute(ROWS)
    assert server.requests == [SPECIFICATION, SPECIFICATION]
    assert asked[0].asked == caught.value.asked
    agreeing = device(server, home, limits=limits, ask=lambda error: True)
    agreeing.contribute(ROWS)
    assert agreeing.odometer.read().limits == caught.value.asked
    server.next_window()
    with pytest.raises(LimitReached, match="has not ended"):  # it is allowed now
        device(server, home, limits=limits).contribute(ROWS)


def test_limits_that_the_person_lowers_while_it_is_asked_are_kept(server: DeviceServer, home: Path) -> None:
    def lowers(_: NotAllowed) -> bool:
        one.allow(replace(LIMITS, report_epsilon=0.1, reports_in_all=0))
        return True

    one = device(server, home, limits=replace(LIMITS, report_epsilon=0.1), ask=lowers)
    with pytest.raises(LimitReached):
        one.contribute(ROWS)
    limits = one.odometer.read().limits
    assert limits is not None
    assert limits.reports_in_all == 0
    assert server.puts == []


def test_delta_is_allowed_by_itself(home: Path) -> None:
    gaussian = replace(ONE, noise="gaussian", delta=1e-6, clip="l2")
    with served(gaussian) as server:
        one = device(server, home)
        with pytest.raises(NotAllowed, match="delta 1e-06"):
            one.contribute(ROWS)
        one.allow(replace(LIMITS, report_delta=1e-6))
        assert one.contribute(ROWS).delta == 1e-6


def test_a_specification_that_clips_coordinates_is_asked_for_with_the_whole_loss(home: Path) -> None:
    with served(replace(ONE, clip="coordinate")) as server, pytest.raises(NotAllowed) as caught:
        device(server, home).contribute(ROWS)
    assert caught.value.asked.report_epsilon == pytest.approx(4 * 3.47)


def test_limits_of_an_app_do_not_widen_those_that_are_kept(server: DeviceServer, home: Path) -> None:
    device(server, home).allow(replace(LIMITS, reports_in_all=0))
    with pytest.raises(LimitReached) as caught:
        device(server, home, limits=replace(LIMITS, reports_in_all=100)).contribute(ROWS)
    assert caught.value.for_good
    assert server.requests == [SPECIFICATION]


def test_one_report_in_a_window_and_eight_in_all(server: DeviceServer, home: Path) -> None:
    one = device(server, home)
    for number in range(8):
        server.window, server.window_ends = number, datetime.now(UTC) - timedelta(seconds=1)
        one.contribute(ROWS)
        if number < 7:
            with pytest.raises(LimitReached, match="this window"):
                one.contribute(ROWS)
    server.window = 8
    for _ in range(2):
        with pytest.raises(LimitReached, match="all reports") as caught:
            one.contribute(ROWS)
        assert caught.value.for_good
    assert len(server.puts) == 8
    assert one.odometer.read().in_all().epsilon == pytest.approx(8 * report_loss(ONE).whole.epsilon)


def test_a_server_that_ends_windows_as_it_likes_gets_one_report_an_hour(
    server: DeviceServer, home: Path
) -> None:
    one = device(server, home, limits=replace(LIMITS, window_seconds=3600))
    one.contribute(ROWS)
    for number, stream in enumerate(["phones", "phones", "tablets"]):
        server.stream = stream
        server.window, server.window_ends = 4 + number, datetime.now(UTC) - timedelta(seconds=1)
        with pytest.raises(Refused):
            one.contribute(ROWS)
    assert len(server.puts) == 1


def _offer(change: Callable[[dict[str, Any]], None]) -> Callable[[_Handler], None]:
    def answer(handler: _Handler) -> None:
        document = handler.world.offer()
        change(document)
        handler.answer(200, json.dumps(document).encode())

    return answer


def _respecified(
    change: Callable[[dict[str, Any]], None], *, canonical: bool = True
) -> Callable[[dict[str, Any]], None]:
    from hashlib import sha256

    from ptklib.canonical_json import canonical_json

    def changed(document: dict[str, Any]) -> None:
        inner = json.loads(document["specification"])
        change(inner)
        text = canonical_json(inner) if canonical else json.dumps(inner)
        document |= {"specification": text, "digest": sha256(text.encode()).hexdigest()}

    return changed


OFFERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "another digest": lambda d: d.update(digest="0" * 64),
    "the digest of another text": lambda d: d.update(specification=replace(ONE, epsilon=3.0).text),
    "no digest": lambda d: d.pop("digest"),
    "a document for a text": lambda d: d.update(specification=json.loads(d["specification"])),
    "a text that is not canonical": _respecified(lambda s: None, canonical=False),
    "another text of the same": lambda d: d.update(specification=json.dumps(json.loads(d["specification"]))),
    "an unknown field": _respecified(lambda s: s.update(more=1)),
    "an unknown kind of column": _respecified(lambda s: s["features"].append({"column": "z", "image": 3})),
    "another format": _respecified(lambda s: s.update(format="draw-discard/9")),
    "no noise": _respecified(lambda s: s.update(noise="none")),
    "epsilon 1000": _respecified(lambda s: s.update(epsilon=1000.0)),
    "a stream of another kind": lambda d: d.update(stream=["phones"]),
    "a name that steers a terminal": lambda d: d.update(ptk="ads.\x1b[31m"),
    "no window": lambda d: d.pop("window"),
    "a window without an end": lambda d: d.update(window={"number": 3}),
    "an end without an offset": lambda d: d.update(window={"number": 3, "ends": "2026-01-01T00:00:00"}),
    "an end in 9999": lambda d: d.update(window={"number": 3, "ends": "9999-12-31T23:59:59-12:00"}),
    "an end in eleven years": lambda d: d.update(
        window={"number": 3, "ends": (datetime.now(UTC) + timedelta(days=4000)).isoformat()}
    ),
    "a window below 0": lambda d: d["window"].update(number=-1),
    "a window that is no number": lambda d: d["window"].update(number="3"),
    "no limits": lambda d: d.pop("limits"),
    "limits that are infinite": lambda d: d["limits"].update(report_epsilon=float("inf")),
    "limits that are more": lambda d: d["limits"].update(reports_per_second=3),
    "a limit below the loss": lambda d: d["limits"].update(report_epsilon=3.0),
}


@pytest.mark.parametrize("name", OFFERS)
def test_a_specification_that_cannot_be_right_is_refused_before_a_draw(
    server: DeviceServer, home: Path, name: str
) -> None:
    server.instead[SPECIFICATION] = _offer(OFFERS[name])
    one = device(server, home)
    with pytest.raises(UntrustedAnswer):
        one.contribute(ROWS)
    assert server.requests == [SPECIFICATION]
    assert nothing_left(server, one)


def test_a_field_that_is_given_twice_is_refused(server: DeviceServer, home: Path) -> None:
    def answer(handler: _Handler) -> None:
        handler.answer(200, json.dumps(handler.world.offer())[:-1].encode() + b', "ptk": "ads.other"}')

    server.instead[SPECIFICATION] = answer
    with pytest.raises(UntrustedAnswer, match="no JSON object"):
        device(server, home).contribute(ROWS)
    assert server.requests == [SPECIFICATION]


def _raw(text: bytes) -> Callable[[_Handler], None]:
    def answer(handler: _Handler) -> None:
        handler.wfile.write(text)
        handler.close_connection = True

    return answer


def _slowly(head: bytes, piece: bytes) -> Callable[[_Handler], None]:
    def answer(handler: _Handler) -> None:
        handler.wfile.write(head)
        for _ in range(100):
            handler.wfile.write(piece)
            handler.wfile.flush()
            time.sleep(0.05)

    return answer


def _huge(handler: _Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(2**30 // 2**16):
        handler.wfile.write(b"10000\r\n" + bytes(2**16) + b"\r\n")


ANSWERS: dict[str, tuple[Callable[[_Handler], None], type[DeviceError]]] = {
    "huge": (_huge, UntrustedAnswer),
    "slow": (_slowly(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"x"), NoAnswer),
    "slow headers": (_slowly(b"HTTP/1.1 200 OK\r\n", b"x"), NoAnswer),
    "only 100 Continue": (_slowly(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), NoAnswer),
    "cut short": (_raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"), NoAnswer),
    "no HTTP": (_raw(b"SSH-2.0-OpenSSH\r\n"), NoAnswer),
    "nothing": (_raw(b""), NoAnswer),
    "a header without end": (_raw(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000), NoAnswer),
    "a redirect": (
        lambda h: h.answer(307, b"", {"Location": "http://localhost:9/v1/device/specification"}),
        UntrustedAnswer,
    ),
    "no JSON": (lambda h: h.answer(200, b"<html>"), UntrustedAnswer),
    "deep JSON": (lambda h: h.answer(200, b"[" * 100_000), UntrustedAnswer),
    "a list": (lambda h: h.answer(200, b"[]"), UntrustedAnswer),
    "a field twice": (lambda h: h.answer(200, b'{"digest": "a", "digest": "b"}'), UntrustedAnswer),
    "a number of a million digits": (
        lambda h: h.answer(200, b'{"a":' + b"9" * 10**6 + b"}"),
        UntrustedAnswer,
    ),
    "unavailable": (lambda h: h.refuse(503, "unavailable"), NoAnswer),
    "too many requests": (lambda h: h.refuse(429, "too-many-requests"), NoAnswer),
    "expired": (lambda h: h.refuse(401, "ticket-expired"), ServerRefused),
}


@pytest.mark.parametrize("path", [SPECIFICATION, DRAW])
@pytest.mark.parametrize("name", ANSWERS)
def test_odd_answers_end_in_an_error_and_nothing_is_sent(
    server: DeviceServer, home: Path, name: str, path: str
) -> None:
    answer, error = ANSWERS[name]
    if (path == DRAW and "JSON" in name) or name in (
        "a list",
        "a field twice",
        "a number of a million digits",
    ):
        error = UntrustedAnswer
    server.instead[path] = answer
    one = device(server, home, timeout_seconds=0.5)
    with pytest.raises(error) as caught:
        one.contribute(ROWS)
    assert not caught.value.counted
    assert PUT not in server.requests
    assert nothing_left(server, one)


@pytest.mark.parametrize(
    ("n_bytes", "digest"),
    [(12, ONE.digest), (20, ONE.digest), (0, ONE.digest), (16, "0" * 64), (16, "")],
)
def test_an_instance_of_another_length_or_specification_is_refused(
    server: DeviceServer, home: Path, n_bytes: int, digest: str
) -> None:
    server.instead[DRAW] = lambda h: h.answer(200, bytes(n_bytes), {"Ptk-Specification": digest})
    one = device(server, home)
    with pytest.raises(UntrustedAnswer):
        one.contribute(ROWS)
    assert nothing_left(server, one)


def _taken_and_lost(handler: _Handler) -> None:
    del handler.world.instead[PUT]
    answer, handler.answer = handler.answer, lambda *_: None  # type: ignore[method-assign]
    handler.honest()
    handler.answer = answer  # type: ignore[method-assign]
    handler.close_connection = True


def test_a_report_whose_answer_is_lost_is_sent_again_and_counts_once(
    server: DeviceServer, home: Path
) -> None:
    server.instead[PUT] = _taken_and_lost
    one = device(server, home)
    kept = one.contribute(ROWS)
    assert server.requests == [SPECIFICATION, DRAW, PUT, PUT]
    assert len(server.puts) == 1
    assert one.odometer.read().reports == (kept,)


def test_what_is_sent_again_are_the_same_bytes(server: DeviceServer, home: Path) -> None:
    bodies: list[bytes] = []

    def fail(handler: _Handler) -> None:
        bodies.append(handler.body)
        handler.refuse(503, "unavailable")

    server.instead[PUT] = fail
    one = device(server, home)
    with pytest.raises(NoAnswer, match="may have arrived") as caught:
        one.contribute(ROWS)
    assert caught.value.counted
    assert len(bodies) == 3
    assert len(set(bodies)) == 1
    assert len(one.odometer.read().reports) == 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lambda h: h.refuse(422, "report-refused"), ServerRefused),
        (lambda h: h.refuse(409, "ticket-used"), ServerRefused),
        (lambda h: h.refuse(409, "epoch-over"), ServerRefused),
        (lambda h: h.answer(302, b"", {"Location": "http://localhost:9/"}), NoAnswer),
        (lambda h: h.answer(200, b"thanks"), NoAnswer),
    ],
)
def test_a_report_that_was_refused_is_counted_and_not_sent_again(
    server: DeviceServer, home: Path, answer: Callable[[_Handler], None], error: type[DeviceError]
) -> None:
    server.instead[PUT] = answer
    one = device(server, home)
    with pytest.raises(error) as caught:
        one.contribute(ROWS)
    assert caught.value.counted
    assert server.requests.count(PUT) == 1
    assert len(one.odometer.read().reports) == 1
    with pytest.raises(LimitReached):
        one.contribute(ROWS)


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ({"age": [1], "clicked": [0]}, MissingColumnError),
        (ROWS | {"age": [1]}, SchemaError),
        (ROWS | {"age": 3}, SchemaError),
    ],
)
def test_a_table_that_cannot_be_read_draws_nothing(
    server: DeviceServer, home: Path, rows: Any, error: type[Exception]
) -> None:
    one = device(server, home)
    with pytest.raises(error):
        one.contribute(rows)
    assert server.requests == [SPECIFICATION]
    assert nothing_left(server, one)


def test_errors_hold_no_ticket_no_row_and_no_text_of_the_server(server: DeviceServer, home: Path) -> None:
    ticket = server.issue()
    rows = {"age": ["secret-age"], "country": ["secret-country"], "clicked": ["secret-label"]}
    told = []
    for path, answer in (
        (SPECIFICATION, lambda h: h.refuse(403, "\x1b[31mno")),
        (SPECIFICATION, lambda h: h.answer(500, b"secret-server")),
        (DRAW, lambda h: h.refuse(401, "ticket-expired")),
        (PUT, lambda h: h.refuse(422, "report-refused")),
    ):
        server.instead = {path: answer}
        server.tickets[ticket] = "new"
        with pytest.raises(DeviceError) as caught:
            device(server, home).contribute(rows, ticket)
        chain: BaseException | None = caught.value
        while chain is not None:
            told.append(str(chain))
            chain = chain.__cause__
    assert "the server refused: without-a-code (403)" in told
    assert "the server refused: report-refused (422)" in told
    assert not [text for text in told if ticket in text or "secret" in text or "\x1b" in text]
    assert ticket not in (home / "odometer.json").read_text()


@pytest.mark.parametrize("ticket", [None, "", "a b", "a\r\nX: y", "é", 3, "x" * 600])
def test_a_ticket_is_a_short_text_of_base64url(server: DeviceServer, home: Path, ticket: Any) -> None:
    with pytest.raises(InvalidParameterError):
        device(server, home, tickets=None).contribute(ROWS, ticket)
    assert server.requests == []


@pytest.mark.parametrize(
    "url",
    [
        "http://ptk.example.org",
        "http://127.0.0.1.example.org",
        "ftp://localhost",
        "https://",
        "https://user:password@ptk.example.org",
        "https://ptk.example.org/?a=b",
        "https://ptk.example.org/#a",
        "https://ptk.example.org/a b",
        "https://ptk.example.org:99999",
        "https://ptk.example.org\r\nX: y",
        "ptk.example.org",
        "",
        None,
    ],
)
def test_a_url_that_is_no_server_is_refused(home: Path, url: Any) -> None:
    with pytest.raises(InvalidParameterError, match="URL"):
        Device(url, home)


@pytest.mark.parametrize(
    "wrong",
    [{"timeout_seconds": 0}, {"timeout_seconds": float("nan")}, {"pace_seconds": -1}, {"pace_seconds": "1"}],
)
def test_times_are_checked(home: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameterError):
        Device("https://ptk.example.org", home, **wrong)


def certificate(folder: Path) -> Path:
    """Write a certificate of localhost that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "server.pem"
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


def test_a_certificate_is_verified_with_its_name(tmp_path: Path, home: Path) -> None:
    pem = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    with served(ONE, tls=context) as server:
        with pytest.raises(NoAnswer, match="certificate"):
            device(server, home).contribute(ROWS)
        trusted = ssl.create_default_context(cafile=str(pem))
        other_name = device(server, home, tls=trusted)
        other_name._server._host = str(ip_address("127.0.0.1"))
        with pytest.raises(NoAnswer, match="certificate"):
            other_name.contribute(ROWS)
        assert server.requests == []
        device(server, home, tls=trusted).contribute(ROWS)
        assert len(server.puts) == 1


def test_a_context_that_verifies_nothing_is_refused(home: Path) -> None:
    context = ssl.create_default_context()
    context.check_hostname = False
    with pytest.raises(InvalidParameterError, match="verify"):
        Device("https://ptk.example.org", home, tls=context)


def test_a_server_that_is_not_there_is_no_answer(home: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(NoAnswer):
        Device(f"http://127.0.0.1:{port}", home, limits=LIMITS).contribute(ROWS, "ticket")


def test_requests_are_sent_at_multiples_of_the_pace(
    server: DeviceServer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, slept = [100.0], []

    def computes(*given: Any) -> Any:
        clock[0] += 1.25
        return make_report(*given)

    monkeypatch.setattr("ptklib.draw_discard.device.monotonic", lambda: clock[0])
    monkeypatch.setattr("ptklib.draw_discard.device.sleep", slept.append)
    monkeypatch.setattr("ptklib.draw_discard.device.make_report", computes)
    device(server, home, pace_seconds=0.5).contribute(ROWS)
    assert slept == [0.5, 0.25]


def test_a_large_model_waits_longer_whatever_the_rows_are() -> None:
    assert paces(ONE) == 1
    large = replace(
        ONE,
        features=[Numeric(f"x{i}", 0, 1) for i in range(255)],
        link="softmax",
        label=Categorical("clicked", list(range(256))),
    )
    assert paces(large) == 32
    (waited,) = run_device("paces", [large.text])
    assert waited == 32


def test_no_number_of_rows_and_no_entry_stops_a_report(server: DeviceServer, home: Path) -> None:
    one = device(server, home)
    one.contribute(
        {"age": [object(), "\ud800"] * 5000, "country": [float("nan"), {}] * 5000, "clicked": [1, 0.5] * 5000}
    )
    assert len(server.puts) == 1


ALONE = """
import json, sys
from ptklib.draw_discard import Device, Limits
given = json.loads(sys.argv[1])
limits = Limits(report_epsilon=3.5, reports_per_window=1, reports_in_all=8, columns=list(given["rows"]))
Device(given["url"], given["home"], limits=limits, pace_seconds=0).contribute(given["rows"], given["ticket"])
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def test_a_device_needs_the_standard_library_numpy_and_the_samplers(server: DeviceServer, home: Path) -> None:
    given = {"url": server.url, "home": str(home), "rows": ROWS, "ticket": server.issue()}
    ended = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{ALONE}", json.dumps(given)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    loaded = set(json.loads(ended.stdout)) - set(sys.stdlib_module_names)
    assert {name for name in loaded if not name.startswith("_")} == {"cryptography", "numpy", "ptklib"}
    assert len(server.puts) == 1
