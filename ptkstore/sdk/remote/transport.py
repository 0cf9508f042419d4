"""Requests to a server: sent again only where that is harmless, and honest about what nobody knows."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from ptkstore.errors import (
    InvalidRequest,
    OutcomeUnknown,
    PtkStoreError,
    StillAtWork,
    Unauthenticated,
    Unavailable,
)
from ptkstore.sdk.remote.errors import error_of, is_problem

_T = TypeVar("_T")

TRIES = 5
FIRST_WAIT_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 5.0
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 180.0  # longer than the server's own patience
PAGE = 200
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_AGAIN = frozenset({429, 502, 503, 504})
_SILENT = frozenset({502, 503, 504})  # of a proxy: the server may have done what was asked


class Transport:
    """One server and one token."""

    def __init__(self, url: str, token: str) -> None:
        parsed = _checked(url)
        if not token:
            raise InvalidRequest("a remote store needs a token: ptk_...; give token=, or set PTK_TOKEN")
        if not token.isascii() or not token.isprintable() or " " in token:
            raise InvalidRequest(
                "the token is malformed: it is one word, ptk_ and what follows, without spaces or lines around it; "
                "correct PTK_TOKEN or token="
            )
        place = f"{parsed.scheme}://{parsed.netloc.decode()}"
        self._away = f"no store answers at {place}: is that its address, and is its API up?"
        self._client = httpx.Client(
            base_url=parsed,
            headers={"Authorization": f"Bearer {token}", "User-Agent": "ptkstore"},
            timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
            follow_redirects=False,
            trust_env=parsed.host not in _LOOPBACK,
        )

    def get(self, path: str, part: Callable[[Any], _T], params: Mapping[str, Any] | None = None) -> _T:
        """Ask for a document, and return what `part` takes out of it."""
        return read(self.send("GET", path, params=params, repeatable=True), part)

    def ask(
        self, method: str, path: str, part: Callable[[Any], _T], json: Any = None, *, repeatable: bool
    ) -> _T:
        """Send a request as `send` does, and return what `part` takes out of the answer.

        Parameters
        ----------
        json, repeatable
            As in `send`.
        """
        return read(self.send(method, path, json=json, repeatable=repeatable), part)

    def get_bytes(self, path: str) -> bytes:
        """Ask for a file."""
        return self.send("GET", path, repeatable=True).content

    def pages(
        self,
        path: str,
        part: Callable[[Any], _T],
        params: Mapping[str, Any] | None = None,
        items: str = "items",
    ) -> Iterator[_T]:
        """Ask for all items of a list, each through `part`; `items` is their name in a page."""
        for page_items in self.documents(path, lambda page: [part(one) for one in page[items]], params):
            yield from page_items

    def documents(
        self, path: str, part: Callable[[Any], _T], params: Mapping[str, Any] | None = None
    ) -> Iterator[_T]:
        """Ask for what `part` takes out of each page of a document, one at least."""
        more: dict[str, Any] = {k: v for k, v in (params or {}).items() if v is not None}
        while True:
            document, cursor = self.get(
                path, lambda page: (part(page), page.get("next_cursor")), {**more, "limit": PAGE}
            )
            yield document
            if cursor is None:
                return
            more["cursor"] = cursor

    def create(self, path: str, document: Mapping[str, Any], part: Callable[[Any], _T]) -> _T:
        """Create something, once however often it is sent."""
        headers = {"Idempotency-Key": secrets.token_hex(16)}
        return read(self.send("POST", path, json=document, headers=headers, repeatable=True), part)

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
        """Send a request, again and again with growing waits if doing it twice is harmless.

        Parameters
        ----------
        json, content : optional
            The body, as a document or as bytes.
        repeatable : bool
            Whether doing it twice is harmless.

        Raises
        ------
        Unavailable
            The server does not answer, and nothing was done.
        OutcomeUnknown
            The request went out and no answer came: it may have been done.
        """
        changes = method != "GET"
        lost = False  # whether a request that changes something may have been done unheard
        for attempt in range(1, TRIES + 1):
            again = repeatable and attempt < TRIES
            try:
                response = self._client.request(
                    method, path, json=json, content=content, params=params, headers=headers
                )
            except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout):
                if attempt == TRIES:
                    raise _unanswered(self._away, lost) from None
                _wait(attempt)
                continue
            except httpx.TransportError:
                lost |= changes
                if not again:
                    raise _unanswered("the server did not finish its answer", lost) from None
                _wait(attempt)
                continue
            if response.is_success:
                return response
            problem = _problem(response)
            lost |= changes and _is_silent(response.status_code, problem)
            if response.status_code in _AGAIN or is_code(problem, StillAtWork):
                if again:
                    _wait(attempt, response.headers.get("Retry-After"))
                    continue
                if lost:
                    raise _unanswered("the server does not answer", lost)
            raise _for_client(error_of(response.status_code, problem, path))
        raise _unanswered(self._away, lost)

    def first_event(self, path: str, after: int, within_seconds: float) -> int | None:
        """Wait for the first event after this one, and return its id; None when the time is over."""
        until = time.monotonic() + within_seconds
        patience = httpx.Timeout(max(within_seconds, CONNECT_SECONDS), connect=CONNECT_SECONDS)
        try:
            with self._client.stream(
                "GET", path, headers={"Last-Event-ID": str(after)}, timeout=patience
            ) as response:
                if not response.is_success:
                    response.read()
                    raise error_of(response.status_code, _problem(response), path)
                for line in response.iter_lines():
                    name, _, value = line.partition(": ")
                    if name == "id" and value.isdecimal():
                        return int(value)
                    if time.monotonic() >= until:
                        return None
        except httpx.ReadTimeout:
            return None
        except httpx.TransportError:
            raise Unavailable("the server did not finish its answer") from None
        return None

    def close(self) -> None:
        """Give connections back."""
        self._client.close()


def path_of(*parts: object) -> str:
    """Return a path below /v1; each part stays one part, whatever its characters."""
    return "/".join(("v1", *(_quoted(str(part)) for part in parts)))


def _quoted(part: str) -> str:
    return part.replace(".", "%2E") if part in (".", "..") else quote(part, safe="")


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


def _for_client(error: PtkStoreError) -> PtkStoreError:
    """The server's refusal; of a token in words of the client, which need not know of headers."""
    if not isinstance(error, Unauthenticated):
        return error
    return Unauthenticated(
        "the store takes no such token: it is mistyped, revoked or expired; set PTK_TOKEN, or give token="
    )


def _unanswered(why: str, lost: bool) -> PtkStoreError:
    if lost:
        return OutcomeUnknown("no answer came; the request may have been done: look before sending it again")
    return Unavailable(why)


def read(response: httpx.Response, part: Callable[[Any], _T]) -> _T:
    """Return what `part` takes out of the document in an answer.

    An answer without the expected document did not come from a store like ours. Nobody knows then whether a request
    that changes something was done.
    """
    try:
        return part(response.json())
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, ArithmeticError):
        changes = response.request.method != "GET"
        raise (OutcomeUnknown if changes else Unavailable)(
            "the answer is no document of this API; something in between may have answered"
        ) from None


def is_code(problem: Any, kind: type[PtkStoreError]) -> bool:
    """Return whether a problem is of this kind of error."""
    return is_problem(problem) and problem["code"] == kind.code


def _problem(response: httpx.Response) -> Any:
    try:
        return response.json()
    except (ValueError, RecursionError):
        return None


def _is_silent(status: int, problem: Any) -> bool:
    """Whether a refusal leaves open what became of the request: our server's own 503 says that nothing was done."""
    return (status in _SILENT and not is_problem(problem)) or is_code(problem, OutcomeUnknown)


def _wait(attempt: int, retry_after: str | None = None) -> None:
    wait = min(FIRST_WAIT_SECONDS * 2.0 ** (attempt - 1), LONGEST_WAIT_SECONDS)
    if retry_after is not None and retry_after.isascii() and retry_after.isdecimal():
        wait = min(max(wait, float(retry_after)), LONGEST_WAIT_SECONDS)
    time.sleep(wait * (0.5 + secrets.randbelow(500) / 1000))  # so that many do not come back at once


def plain(value: Any) -> Any:
    """Turn `value` into JSON: numbers of numpy become Python's, tuples lists."""
    match value:
        case None | bool() | str():
            return value
        case dict() | Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case float():
            return float(value)
        case int():
            return int(value)
        case _ if hasattr(value, "item"):
            return plain(value.item())
        case _:
            raise InvalidRequest(f"{type(value).__name__} is nothing that can be sent as JSON")
