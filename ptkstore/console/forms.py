"""Small forms: their fields, the key that each carries, and the site they were sent from."""

from __future__ import annotations

import hmac
from urllib.parse import parse_qs, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request

FORM_BYTES_MAX = 4_096
FIELDS_MAX = 10


async def form_of(request: Request) -> dict[str, str]:
    """Return the fields of a small form; the first of each name."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > FORM_BYTES_MAX:
            raise HTTPException(413)
    try:
        fields = parse_qs(body.decode("ascii"), max_num_fields=FIELDS_MAX, strict_parsing=bool(body))
    except ValueError:
        raise HTTPException(400) from None
    return {name: values[0] for name, values in fields.items()}


def same(one: str, other: str) -> bool:
    """Tell whether two keys are one; the time that it takes says nothing."""
    return bool(one) and hmac.compare_digest(one.encode(), other.encode())


def from_this_site(request: Request) -> bool:
    """Tell whether a form was sent from a page of this very origin, as the browser says.

    `Sec-Fetch-Site` is the browser's own judgement. It is right behind a proxy, too. Without it, the `Origin` must name
    the host of the request. A client that sends neither is no browser: no other site steers it.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")
