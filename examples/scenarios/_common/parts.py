"""What a scenario of several parts does with each of them: measure, print, save; then it renews a page."""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import tables
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn


@contextmanager
def on_one_core(*expected: type[Warning]) -> Iterator[None]:
    """Compute on one core, and without warnings that are expected."""
    with threadpool_limits(1), warnings.catch_warnings():
        for warning in expected:
            warnings.simplefilter("ignore", warning)
        yield


def measure(
    name: str, parts: Mapping[str, Callable[[], Iterable[dict[str, Any]]]], asked: argparse.Namespace
) -> None:
    """Measure the parts that are asked for; print tables, save the numbers of each, and renew the page."""
    asked.out.mkdir(parents=True, exist_ok=True)
    for part in asked.parts:
        start = time.process_time()
        saved = list(parts[part]())
        print("\n\n".join(tables.of_table(table) for table in saved))
        print(f"\n{part}: {time.process_time() - start:.0f} s of processor time", flush=True)
        (asked.out / f"{name}_{part}.json").write_text(json.dumps(saved, indent=1) + "\n")
    if asked.page is not None:
        tables.main([str(asked.out), str(asked.page)])
