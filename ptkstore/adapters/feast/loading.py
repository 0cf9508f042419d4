"""Loads Feast without what its import does to the process."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_METRICS = ("PROMETHEUS_MULTIPROCESS_DIR", "PROMETHEUS_MULTIPROC_DIR")


def load_feast(repo: Path) -> None:
    """Import Feast; seconds the first time.

    Feast's import makes a temporary folder and names it in two environment variables, which would switch the
    metrics of this process and of its children to files there. Loaded in this order it does neither.

    Feast has typeguard rewrite its classes, so that they check the types of arguments at run time. That is half of the
    processor time of its import, and mypy checks our calls of Feast: so it is skipped.
    """
    import prometheus_client  # noqa: F401  decides on its import, by those variables

    before = {name: os.environ.get(name) for name in _METRICS}
    for name in _METRICS:
        os.environ.setdefault(name, str(repo))
    try:
        with _no_checks_at_run_time():
            import feast.metrics
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
    logging.getLogger(feast.__name__).setLevel(logging.WARNING)  # below, Feast counts rows


@contextmanager
def _no_checks_at_run_time() -> Iterator[None]:
    import typeguard

    checked = typeguard.typechecked
    typeguard.typechecked = _as_it_is
    try:
        yield
    finally:
        typeguard.typechecked = checked


def _as_it_is(target: Any = None, **_: object) -> Any:
    """Replaces `typeguard.typechecked`, which is used bare or with options."""
    same: Callable[[Any], Any] = lambda one: one  # noqa: E731
    return same if target is None else target
