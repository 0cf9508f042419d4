"""Health and readiness."""

from __future__ import annotations

from typing import Literal

from ptkstore.wire.base import Wire


class Health(Wire):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Readiness(Wire):
    """Whether requests can be served, part by part; a part that is not used is `unused`."""

    ready: bool
    parts: dict[str, Literal["ok", "failing", "unused"]]
