"""A pytest plugin that keeps from the garbage collector what lives as long as the run.

The tests themselves and the modules they import are a million objects. The collector would walk them hundreds of times,
and free none.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator
from typing import Any

import pytest

MANY_MODULES = 100
"""So many new ones are a library; its objects stay."""


def keep() -> None:
    """Leave all that is not garbage now out of later collections."""
    gc.collect()
    gc.freeze()


class Kept:
    """How many modules there were when all was kept last."""

    modules = 0


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collect the tests without the collector."""
    gc.disable()
    try:
        return (yield)
    finally:
        keep()
        Kept.modules = len(sys.modules)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, Any, Any]:
    """Keep what a test imported, once it is over."""
    try:
        return (yield)
    finally:
        if len(sys.modules) > Kept.modules + MANY_MODULES:
            keep()
            Kept.modules = len(sys.modules)
