"""An HTTP server that uses as much processor time for a request as its path says, and does nothing else."""

import sys
import time
from typing import Any

import uvicorn

ANSWER = b'{"ok": true}'


async def answer(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Read the body, work for as many microseconds as ``/<microseconds>`` says, and answer with a few bytes."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    until = time.thread_time() + int(scope["path"][1:] or 0) / 1e6
    while time.thread_time() < until:
        pass
    head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(ANSWER))]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": ANSWER})


if __name__ == "__main__":
    uvicorn.run(answer, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
