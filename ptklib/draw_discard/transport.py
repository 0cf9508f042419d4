"""Requests of a device: one server, no redirects, and limits on size and time."""

import io
import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ipaddress import ip_address
from socket import socket
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from ptklib.draw_discard.refusals import NoAnswer, ServerRefused, UntrustedAnswer
from ptklib.exceptions import InvalidParameterError
from ptklib.scalars import finite_number

PROBLEM_BYTES_MAX = 2**16
"""Of the answer with which a server refuses."""

_LATER = (408, 429)
"""Too slow, or too many requests: the same request may succeed later."""

_CODE = re.compile(r"[a-z][a-z-]{0,39}")
_PATH = re.compile(r"(/[A-Za-z0-9_.~-]+)*")


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a server: status, headers by names in small letters, and body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Server:
    """A server behind one URL.

    Parameters
    ----------
    url : str
        ``https://host[:port][/path]``. Plain ``http`` is for loopback alone.
    timeout_seconds : float
        For one request with its whole answer, however slowly it comes.
    tls : ssl.SSLContext or None
        For a private certificate authority. It must verify certificates and names.

    Raises
    ------
    InvalidParameterError
        For another URL, or a context that verifies nothing.

    Notes
    -----
    Each request has a connection of its own and no cookie, so that requests are linked by their ticket alone. Neither
    redirects nor proxies of the environment are followed.
    """

    def __init__(self, url: str, *, timeout_seconds: float = 30.0, tls: ssl.SSLContext | None = None) -> None:
        self._https, self._host, self._port, self._path = _parts(url)
        self._timeout_seconds = finite_number(timeout_seconds, "timeout_seconds", InvalidParameterError)
        if not 0 < self._timeout_seconds <= 3600:
            raise InvalidParameterError("timeout_seconds must be in (0, 3600]")
        if tls is not None and (tls.verify_mode != ssl.CERT_REQUIRED or not tls.check_hostname):
            raise InvalidParameterError("tls must verify certificates and host names")
        self._tls = tls
        port = "" if self._port in (None, 443 if self._https else 80) else f":{self._port}"
        host = f"[{self._host}]" if ":" in self._host else self._host
        self.name = f"{'https' if self._https else 'http'}://{host}{port}{self._path}"
        """The URL in one form."""

    def ask(self, method: str, path: str, ticket: str, *, most: int, body: bytes | None = None) -> Answer:
        """Send one request and return its answer.

        Parameters
        ----------
        method, path : str
        ticket : str
        most : int
            Bytes that the body of the answer may have.
        body : bytes, optional

        Raises
        ------
        NoAnswer
            When there is no connection, or no whole answer in time, and for statuses that tell to try later.
        ServerRefused
            For other statuses from 400 to 499, with the code of the problem.
        UntrustedAnswer
            For a redirect or another status, and an answer that is too large.
        """
        ends = monotonic() + self._timeout_seconds
        connection = self._connection()
        connection.response_class = partial(_timed_response, ends)  # type: ignore[assignment]
        headers = {"Authorization": f"Ticket {ticket}", "Connection": "close"}
        if body is not None:
            headers["Content-Type"] = "application/octet-stream"
        try:
            connection.request(method, self._path + path, body=body, headers=headers)
            response = connection.getresponse()
            limit = most if response.status < 300 else PROBLEM_BYTES_MAX
            received = response.read(limit + 1)
            if len(received) > limit:
                raise UntrustedAnswer(f"the server answered with more than {limit} bytes")
            if response.length:
                raise NoAnswer("the answer of the server ended early")
            told = {name.lower(): value for name, value in response.getheaders()}
        except ssl.SSLCertVerificationError:
            raise NoAnswer("the certificate of the server is not trusted") from None
        except (OSError, HTTPException, ValueError) as error:
            raise NoAnswer(f"the server gave no answer ({type(error).__name__})") from None
        finally:
            connection.close()
        return _accepted(Answer(response.status, told, received))

    def _connection(self) -> HTTPConnection:
        if not self._https:
            return HTTPConnection(self._host, self._port, timeout=self._timeout_seconds)
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return HTTPSConnection(self._host, self._port, timeout=self._timeout_seconds, context=self._tls)


def json_object(octets: bytes) -> dict[str, Any]:
    """Return a JSON object whose fields have distinct names; `UntrustedAnswer` for all else."""
    try:
        document = json.loads(octets, object_pairs_hook=_distinct)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise UntrustedAnswer("the answer of the server is no JSON object")
    return document


def _accepted(answer: Answer) -> Answer:
    if 200 <= answer.status < 300:
        return answer
    if 400 <= answer.status < 500 and answer.status not in _LATER:
        try:
            code = json_object(answer.body).get("code")
        except UntrustedAnswer:
            code = None
        known = isinstance(code, str) and _CODE.fullmatch(code) is not None
        raise ServerRefused(str(code) if known else "without-a-code", answer.status)
    if 300 <= answer.status < 400:
        raise UntrustedAnswer("the server answered with a redirect, which a device does not follow")
    raise NoAnswer(f"the server does not answer now (status {answer.status})")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        raise ValueError
    return document


def _parts(url: object) -> tuple[bool, str, int | None, str]:
    wrong = InvalidParameterError(
        "the URL of a server is https://host[:port][/path]; http is for loopback alone"
    )
    if not isinstance(url, str) or not url.isascii() or not url.isprintable():
        raise wrong
    try:
        parsed = urlsplit(url)
        host, port = parsed.hostname, parsed.port
    except ValueError:
        raise wrong from None
    path = parsed.path.rstrip("/")
    plain = parsed.scheme == "http" and _is_loopback(host or "")
    if not host or "@" in parsed.netloc or parsed.query or parsed.fragment or not _PATH.fullmatch(path):
        raise wrong
    if parsed.scheme != "https" and not plain:
        raise wrong
    return not plain, host, port, path


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _timed_response(ends: float, sock: socket, **given: Any) -> HTTPResponse:
    return HTTPResponse(_TimedSocket(sock, ends), **given)  # type: ignore[arg-type]


class _TimedSocket:
    """The socket interface that `HTTPResponse` needs, to be read until a moment.

    A timeout alone restarts with each byte.
    """

    def __init__(self, sock: socket, ends: float) -> None:
        self._sock, self._ends = sock, ends

    def makefile(self, _: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedBytes(self._sock, self._ends))


class _TimedBytes(io.RawIOBase):
    def __init__(self, sock: socket, ends: float) -> None:
        self._sock, self._ends = sock, ends
        self._raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._ends - monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()
