"""Requests to a server: sent again only where that is harmless, and honest about what nobody knows."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from ptkstore.errors import InvalidRequest, OutcomeUnknown, PtkStoreError, Unavailable
from ptkstore.sdk.remote.errors import error_of

TRIES = 5
FIRST_WAIT_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 5.0
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 180.0  # longer than the server's own patience
PAGE = 200
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_AGAIN = frozenset({429, 502, 503})


class Transport:
    """One server and one token."""

    def __init__(self, url: str, token: str) -> None:
        parsed = _checked(url)
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise InvalidRequest("a remote store needs a token: ptk_...; give token=, or set PTK_TOKEN")
        self._client = httpx.Client(
            base_url=parsed,
            headers={"Authorization": f"Bearer {token}", "User-Agent": "ptkstore"},
            timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
            follow_redirects=False,
            trust_env=parsed.host not in _LOOPBACK,
        )

    def get(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        """A document."""
        return self.send("GET", path, params=params, repeatable=True).json()

    def get_bytes(self, path: str) -> bytes:
        """A file."""
        return self.send("GET", path, repeatable=True).content

    def pages(self, path: str, params: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """All items of a list."""
        more: dict[str, Any] = {k: v for k, v in (params or {}).items() if v is not None}
        while True:
            page = self.get(path, {**more, "limit": PAGE})
            yield from page["items"]
            if page["next_cursor"] is None:
                return
            more["cursor"] = page["next_cursor"]

    def create(self, path: str, document: Mapping[str, Any]) -> Any:
        """Create something, once however often it is sent."""
        headers = {"Idempotency-Key": secrets.token_hex(16)}
        return self.send("POST", path, json=document, headers=headers, repeatable=True).json()

    def send(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        content: bytes | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool,
    ) -> httpx.Response:
        """Send a request, again and again with growing waits if it is `repeatable`.

        Raises
        ------
        Unavailable
            The server does not answer, and nothing was done.
        OutcomeUnknown
            The request went out and no answer came: it may have been done.
        """
        lost = False  # whether a request that changes something went out and was never answered
        for attempt in range(1, TRIES + 1):
            last = attempt == TRIES
            try:
                response = self._client.request(
                    method, path, json=json, content=content, params=params, headers=headers
                )
            except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout):
                if last:
                    raise _unanswered("the server cannot be reached", lost) from None
                _wait(attempt)
                continue
            except httpx.TransportError:
                lost = method != "GET"
                if repeatable and not last:
                    _wait(attempt)
                    continue
                raise _unanswered("the server did not finish its answer", lost) from None
            if response.is_success:
                return response
            if repeatable and response.status_code in _AGAIN and not last:
                _wait(attempt, response.headers.get("Retry-After"))
                continue
            if lost and response.status_code in _AGAIN:
                break
            raise _refusal(response)
        raise _unanswered("the server cannot be reached", lost)

    def close(self) -> None:
        """Give connections back."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def path_of(*parts: object) -> str:
    """A path below /v1; whatever a part holds, it stays one part."""
    return "/".join(("v1", *(quote(str(part), safe="") for part in parts)))


def _checked(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        raise InvalidRequest("the store's URL cannot be read; write https://...") from None
    if parsed.scheme == "http" and parsed.host not in _LOOPBACK:
        raise InvalidRequest("a token goes over https only, but for this very machine")
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.userinfo or parsed.query:
        raise InvalidRequest("the URL of a remote store is https://host[:port][/path]")
    return parsed


def _unanswered(why: str, lost: bool) -> PtkStoreError:
    if lost:
        return OutcomeUnknown("no answer came; the request may have been done: look before sending it again")
    return Unavailable(why)


def _refusal(response: httpx.Response) -> PtkStoreError:
    try:
        document = response.json()
    except ValueError:
        document = None
    return error_of(response.status_code, document)


def _wait(attempt: int, asked: str | None = None) -> None:
    wait = min(FIRST_WAIT_SECONDS * 2.0 ** (attempt - 1), LONGEST_WAIT_SECONDS)
    if asked is not None and asked.isascii() and asked.isdecimal():
        wait = min(max(wait, float(asked)), LONGEST_WAIT_SECONDS)
    time.sleep(wait * (0.5 + secrets.randbelow(500) / 1000))  # so that many do not come back at once
