"""Endpoints that answer, and addresses that nobody may send to."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

PUBLIC = "93.184.215.14"


BAD_FORM = {
    "empty": "",
    "no scheme": "example.com/hook",
    "relative": "/hook",
    "no host": "https:///hook",
    "ftp": "ftp://example.com/",
    "file": "file:///etc/passwd",
    "gopher": "gopher://example.com:443/_",
    "data": "data:text/plain,hello",
    "javascript": "javascript:alert(1)",
    "unix socket": "http+unix://%2Fvar%2Frun%2Fdocker.sock/info",
    "plain http": "http://example.com/hook",
    "credentials": "https://user:pass@example.com/",
    "credentials that look like a host": "https://example.com@127.0.0.1/",
    "empty credentials": "https://@example.com/",
    "another port": "https://example.com:22/",
    "no such port": "https://example.com:99999/",
    "port zero": "https://example.com:0/",
    "a port that is no number": "https://example.com:https/",
    "percent in the host": "https://127.0.0.1%2f@example.com/",
    "zone": "https://[fe80::1%25eth0]/",
    "half a bracket": "https://[::1/",
    "line break": "https://example.com/\r\nHost: internal",
    "tab": "https://exa\tmple.com/",
    "null byte": "https://example.com\x00.internal/",
    "space in the host": "https://exam ple.com/",
    "backslash": "https://example.com\\@127.0.0.1/",
    "too long": "https://example.com/" + "a" * 3000,
    "too long a host": "https://" + "a." * 200 + "com/",
}


def answering(*addresses: str) -> Any:
    """A name lookup that knows one answer for every name."""

    def lookup(host: str, port: int, *_: object) -> Sequence[Any]:
        found = []
        for address in addresses:
            if ":" in address:
                sockaddr: tuple[Any, ...] = (address, port, 0, 0)
                found.append((socket.AF_INET6, socket.SOCK_STREAM, 6, "", sockaddr))
            else:
                found.append((socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)))
        return found

    return lookup
