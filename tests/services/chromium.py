"""A headless Chromium, steered over a pipe by the protocol of its developer tools: no driver is needed."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ANSWERS_WITHIN_SECONDS = 120.0
LOADS_WITHIN_SECONDS = 120.0


def executable() -> str | None:
    """Chromium as Debian and others install it."""
    return next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))),
        None,
    )


class Chromium:
    """One browser with one page; use as a context manager."""

    def __init__(self, profile: Path) -> None:
        found = executable()
        assert found is not None
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        command = [
            found,
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-sandbox",  # tests may run as root; the pages are our own
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-proxy-server",
            f"--user-data-dir={profile}",
            "about:blank",
        ]

        def hand_over() -> None:  # the protocol reads from 3 and writes to 4
            high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 5) for fd in (to_browser, from_browser)]  # free ones
            for place, fd in zip((3, 4), high, strict=True):
                os.dup2(fd, place, inheritable=True)

        self._process = subprocess.Popen(
            command,
            close_fds=False,
            preexec_fn=hand_over,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._asked, self._rest, self._session = 0, b"", ""
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the protocol and its answer."""
        self._asked += 1
        message: dict[str, Any] = {"id": self._asked, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + ANSWERS_WITHIN_SECONDS
        while True:
            answer = self._next(until)
            if answer.get("id") == self._asked:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _next(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self._read, 1 << 20)
            assert part, "the browser has ended"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Wait until the page that this block asks for has loaded."""
        self.events.clear()
        yield
        until = time.monotonic() + LOADS_WITHIN_SECONDS
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next(until))

    def go(self, url: str) -> None:
        with self.loading():
            self.ask("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def submit(self, form: str, **fields: str) -> None:
        """Fill a form in and send it as its button does."""
        for name, value in fields.items():
            self.run(
                f"document.querySelector({json.dumps(f'{form} [name={name}]')}).value = {json.dumps(value)}"
            )
        with self.loading():
            self.run(f"document.querySelector({json.dumps(form)}).requestSubmit()")

    def press(self, key: str) -> None:
        """A key on the keyboard."""
        for kind in ("keyDown", "keyUp"):
            self.ask(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=9 if key == "Tab" else 13,
            )

    def size(self, width: int, height: int) -> None:
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def scheme(self, name: str) -> None:
        """`light` or `dark`."""
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def picture(self) -> bytes:
        """The whole page as PNG."""
        found = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.b64decode(found["data"])

    def cookies(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("Network.getCookies")["cookies"]
        return found
