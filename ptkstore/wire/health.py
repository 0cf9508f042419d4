"""Health and readiness."""

from __future__ import annotations

from typing import Literal

from ptkstore.wire.base import Wire


class Health(Wire):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Readiness(Wire):
    """Whether the service works, and how each part fares.

    A part that is not used is `unused`. A kind of process of which nothing was heard for a minute is `silent`. So is
    the Redis of `ptk up` where it does not answer: requests are served all the same, but nothing else gets done. The
    part `devices` is the Redis of models that devices train; while it is `silent`, all but devices are served. The part
    `online` is `lost` while the rows of a version that is served are gone: its lookups fail, and workers write the
    rows again. `codes` has a code for each part for which the service is not ready.
    """

    ready: bool
    parts: dict[str, Literal["ok", "failing", "unused", "silent", "lost"]]
    codes: dict[str, str]
