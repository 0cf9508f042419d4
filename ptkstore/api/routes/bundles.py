"""Code of teams over HTTP."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from anyio import to_thread
from fastapi import Path, Request

from ptkstore.api.requests.access import WhoAsks
from ptkstore.api.requests.routers import Resource
from ptkstore.domain.identity import Action
from ptkstore.domain.ptks.bundles import BUNDLE_BYTES_MAX
from ptkstore.errors import TooLarge, UnknownFormat
from ptkstore.wire.ptks import BundleOut

resource = Resource("bundles")

BUNDLE = "application/x-tar"
_BODY = {
    "description": f"The bundle as `ptk apply` packs it: a plain archive of at most {BUNDLE_BYTES_MAX} bytes.",
    "required": True,
    "content": {BUNDLE: {"schema": {"type": "string", "format": "binary"}}},
}


@resource.route(
    "PUT",
    "/bundles/{sha256}",
    Action.BUNDLE_UPLOAD,
    response_model=BundleOut,
    openapi_extra={"requestBody": _BODY},
)
async def upload_bundle(
    sha256: Annotated[
        str, Path(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the body, in hexadecimal")
    ],
    request: Request,
    caller: WhoAsks,
) -> dict[str, Any]:
    """Store the code of a team under the hash of its content.

    Nothing of it is run. It is kept beside the states that it makes, where whoever may read those may read it;
    repeating the request changes nothing.
    """
    caller.about("bundle", sha256)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != BUNDLE:
        raise UnknownFormat(f"a bundle comes as {BUNDLE}")
    body = await request.body()
    if len(body) > BUNDLE_BYTES_MAX:
        raise TooLarge(f"a bundle has at most {BUNDLE_BYTES_MAX} bytes")
    await to_thread.run_sync(partial(caller.service.put_bundle, body, sha256, team=caller.principal.team))
    return {"sha256": sha256, "bytes": len(body)}
