"""A disk that fails at any one moment."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

CALLS = ("open", "fsync", "link", "replace", "mkdir", "unlink")


def fail_at(monkeypatch: pytest.MonkeyPatch, call: str, number: int) -> list[int]:
    """The `number`-th such call fails; how many came."""
    real, count = getattr(os, call), [0]

    def failing(*arguments: Any, **options: Any) -> Any:
        count[0] += 1
        if count[0] == number:
            raise OSError(errno.EIO, "broken")
        return real(*arguments, **options)

    monkeypatch.setattr(os, call, failing)
    return count
