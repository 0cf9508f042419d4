"""Trainings of one large window: one process, and two that collect beside each other before one merges."""

import dataclasses
import secrets
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.measuring import Row, measured
from benchmarks.service_trainings import processor_seconds
from ptklib import CountFeaturizer
from ptkstore.adapters.keys import AesGcmSealer
from ptkstore.adapters.objects import FsspecRawZone, FsspecStaging
from ptkstore.adapters.sandbox.parent import ChildRuns, Program
from ptkstore.domain.streams.blocks import HASH_RANGE
from ptkstore.domain.streams.windows import WindowId
from ptkstore.domain.versions.versions import Draft
from ptkstore.ports.row_processes import CollectRequest, OpenedRows, StagedPartial, TrainRequest

ROWS = 8_000_000
ROUNDS = 7  # single ratios swing by a fifth
WORKERS = 2
FEATURES = [f"f{number}" for number in range(20)]


class Window:
    """A prepared part of so many rows, and trainings of it."""

    def __init__(self, place: Path, n_rows: int) -> None:
        random = np.random.default_rng(0)
        self._key, self._window = secrets.token_bytes(32), WindowId("bench", 0)
        self._raw = FsspecRawZone(str(place / "raw"), AesGcmSealer())
        self._staging = FsspecStaging(str(place / "raw"), AesGcmSealer())
        program = Program(self._raw.url, self._staging.url, timeout_seconds=3_600)
        self._trainer = ChildRuns(program, staging=self._staging)
        hashes = np.sort(random.integers(0, 2**64 - 1, n_rows, dtype=np.uint64))
        columns = {name: pa.array(random.integers(0, 10_000, n_rows)) for name in FEATURES}
        label = {"clicked": pa.array(random.random(n_rows) < 0.1), "ptk_hash": pa.array(hashes)}
        self._raw.write_part(self._window, 2, pa.table(columns | label), self._key)
        self._spec = CountFeaturizer(
            FEATURES, "clicked", classes=[False, True], hash_buckets=4_096, epsilon=1.0
        ).to_spec()

    def in_turn(self) -> list[float]:
        """Collect one after the other, then merge; the processor time of each step, the merge last."""
        steps = [partial(self._partial, low, high) for low, high in pairwise(self._edges())]
        partials, spans = [], []
        for collect in steps:
            used = processor_seconds()
            partials.append(collect())
            spans.append(processor_seconds() - used)
        used = processor_seconds()
        self._merge(tuple(partials))
        return [*spans, processor_seconds() - used]

    def in_one_pass(self) -> None:
        """Train as a window that is not large."""
        assert isinstance(self._trainer.train(self._request(0, HASH_RANGE), _go_on), Draft)

    def collected(self) -> None:
        """Collect with as many workers as there are, then merge."""
        edges = self._edges()
        with ThreadPoolExecutor(WORKERS) as pool:
            self._merge(tuple(pool.map(self._partial, edges[:-1], edges[1:])))

    def _edges(self) -> list[int]:
        return [HASH_RANGE * worker // WORKERS for worker in range(WORKERS + 1)]

    def _merge(self, partials: tuple[StagedPartial, ...]) -> None:
        request = dataclasses.replace(self._request(0, HASH_RANGE), rows=(), partials=partials)
        assert isinstance(self._trainer.train(request, _go_on), Draft)

    def _partial(self, low: int, high: int) -> StagedPartial:
        asked = self._request(low, high)
        fields = {field.name: getattr(asked, field.name) for field in dataclasses.fields(CollectRequest)}
        assert self._trainer.collect(CollectRequest(**fields), _go_on) is None
        return StagedPartial(asked.draft_id, asked.draft_key)

    def _request(self, low: int, high: int) -> TrainRequest:
        return TrainRequest(
            estimator=self._spec,
            epsilon=1.0,
            delta=0.0,
            rows=(OpenedRows((self._raw.part_url(self._window, 2),), low, high, self._key),),
            draft_id=f"bench.0.{secrets.token_hex(8)}",
            draft_key=secrets.token_bytes(32),
            previous_state=None,
        )


def _go_on() -> None:
    """Nobody else takes the job."""


def rows(n_rows: int = ROWS) -> list[Row]:
    """Both ways in turns: processor time of the longest chain of steps, wall time, and what the split costs in all.

    On a machine that does other work, the second processor is taken: wall times then say little, processor times do.
    """
    ratios, costs, walls = [], [], []
    with tempfile.TemporaryDirectory() as place:
        window = Window(Path(place), n_rows)
        for _ in range(ROUNDS):
            spans = []
            for train in (window.in_one_pass, window.collected):
                start, used = time.perf_counter(), processor_seconds()
                train()
                spans.append((time.perf_counter() - start, processor_seconds() - used))
            (one, one_used), (many, many_used) = spans
            *partials, merge = window.in_turn()
            ratios.append((max(partials) + merge) / one_used)
            costs.append(many_used / one_used)
            walls.append(many / one)
    middle = int(np.argsort(ratios)[ROUNDS // 2])
    return [
        measured(
            "windows-partials",
            f"counts of {len(FEATURES)} columns on {n_rows:,} rows, processor time of the longer of two workers "
            f"and of the merge, against one pass (wall times of two beside each other: {np.median(walls):.2f})",
            unit="times",
            ours=ratios[middle],
            goal=0.8,
            direction="min",
        ),
        measured(
            "windows-partials-cost",
            "the same, processor time of the split against one pass",
            unit="times",
            ours=float(np.median(costs)),
            goal=1.5,
            direction="min",
        ),
    ]
