"""An HTTP server that only answers: what a machine takes away from it, it takes from any server at the same moment."""

import sys
from typing import Any

import uvicorn

ANSWER = b'{"ok": true}'


async def answer(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Read the body, and answer with a few bytes."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(ANSWER))]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": ANSWER})


if __name__ == "__main__":
    uvicorn.run(answer, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
