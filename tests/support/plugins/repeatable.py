"""Noise that repeats: a test draws the same noise in every run, so one that passed cannot fail by chance.

`--noise=fresh` (and `make soak`) draws it from the operating system, as production does. So does a test marked
`fresh_noise`, and every process that a test starts. Nothing here can be reached from the product: it has no switch.
"""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ptklib.mechanisms import additive, selection, stream

audit = importlib.import_module("ptklib.checks.audit")  # the room offers a function of this name


class RepeatableBytes:
    """Bytes that follow from a name; a forked child, or nobody's turn, gets the operating system's."""

    def __init__(self) -> None:
        self._name: str | None = None
        self._drawn = 0
        self._process = os.getpid()

    def urandom(self, n: int) -> bytes:
        """Return `n` bytes."""
        if self._name is None or os.getpid() != self._process:
            return os.urandom(n)
        self._drawn += 1
        return hashlib.shake_256(f"{self._name} {self._drawn}".encode()).digest(n)

    def begin(self, name: str | None) -> tuple[str | None, int]:
        """Start anew from `name` (None: fresh noise) and return what `resume` takes."""
        before = self._name, self._drawn
        self._name, self._drawn = name, 0
        return before

    def resume(self, before: tuple[str | None, int]) -> None:
        """Go on where `begin` interrupted."""
        self._name, self._drawn = before


@contextmanager
def replayed_noise(name: str) -> Iterator[None]:
    """Draw the same noise in each block of this name, also where fresh noise was asked for."""
    source = RepeatableBytes()
    source.begin(name)

    def selection_of(mechanism: str, scale: float) -> Any:
        random = np.random.default_rng(list(source.urandom(16)))  # instead of OpenDP's, which cannot be named
        return lambda scores: np.argmax(scores + random.gumbel(0.0, scale, len(scores)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "os", SimpleNamespace(urandom=source.urandom))
        patch.setattr(additive, "VECTOR_MIN", -1)
        patch.setattr(selection, "_measurement", selection_of)
        yield


class RepeatableNoise:
    """The plugin: each test, and each fixture that outlives one, has a stream named after it."""

    def __init__(self) -> None:
        self.bytes = RepeatableBytes()
        self._opendp_up_to = additive.VECTOR_MIN
        stream.os = SimpleNamespace(urandom=self.bytes.urandom)  # type: ignore[attr-defined]
        audit.secrets = SimpleNamespace(token_bytes=self.bytes.urandom)  # type: ignore[attr-defined]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Name the stream after the test, from the set-up of its fixtures to their end."""
        fresh = item.get_closest_marker("fresh_noise") is not None
        before = self.bytes.begin(None if fresh else item.nodeid)
        # OpenDP's own randomness cannot be named, so short vectors take our sampler too.
        additive.VECTOR_MIN = self._opendp_up_to if fresh else -1
        try:
            return (yield)
        finally:
            additive.VECTOR_MIN = self._opendp_up_to
            self.bytes.resume(before)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        """Name the stream after a fixture that later tests use too, whichever test asked first."""
        if fixturedef.scope == "function":
            return (yield)
        before = self.bytes.begin(f"{fixturedef.baseid} {fixturedef.argname}")
        try:
            return (yield)
        finally:
            self.bytes.resume(before)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--noise`."""
    parser.addoption(
        "--noise", choices=["repeatable", "fresh"], default="repeatable", help="noise of the tests"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Take over the noise, unless fresh noise or the long tests are asked for."""
    config.addinivalue_line(
        "markers", "fresh_noise: draws noise from the operating system and OpenDP in every run"
    )
    if config.option.noise == "repeatable" and config.option.markexpr != "soak":
        config.pluginmanager.register(RepeatableNoise(), "repeatable-noise")
