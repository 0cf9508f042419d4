"""Loads Feast without what its import does to the process."""

from __future__ import annotations

import logging
import os
from pathlib import Path

_METRICS = ("PROMETHEUS_MULTIPROCESS_DIR", "PROMETHEUS_MULTIPROC_DIR")


def load_feast(repo: Path) -> None:
    """Import Feast; seconds the first time.

    Feast's import makes a temporary folder and names it in two environment variables, which would switch the
    metrics of this process and of its children to files there. Loaded in this order it does neither.
    """
    import prometheus_client  # noqa: F401  decides on its import, by those variables

    before = {name: os.environ.get(name) for name in _METRICS}
    for name in _METRICS:
        os.environ.setdefault(name, str(repo))
    try:
        import feast.metrics
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
    logging.getLogger(feast.__name__).setLevel(logging.WARNING)  # below, Feast counts rows
