"""Trials over seeds, kept in a file as they end: a run that is begun again goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from _common.devices.tasks import DeviceTask
from _common.devices.trials import Trial, judged
from ptklib.arrays import Floats

LOSS, ACCURACY = 0, 1


class KeptTrials:
    """What was measured, in a folder's file of JSON lines.

    A line tells task, trial, checkpoints and seed; the same is not measured again.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "draw_discard_trials.jsonl"
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        self._known = dict(map(_read, lines))

    def judged(self, task: DeviceTask, trial: Trial, reports: Sequence[int], seed: int) -> Floats:
        """Return log loss and accuracy after so many reports, (n_checkpoints, 2)."""
        of = {"task": task.name, "rows": task.n_rows, **asdict(trial), "reports": list(reports), "seed": seed}
        key = json.dumps(of, sort_keys=True)
        if key not in self._known:
            self._known[key] = judged(task, trial, reports, seed)
            with self._path.open("a") as file:
                file.write(json.dumps({"of": of, "found": self._known[key].tolist()}, sort_keys=True) + "\n")
        return self._known[key]

    def of_seeds(
        self, task: DeviceTask, trials: Mapping[str, Trial], reports: Sequence[int], seeds: int
    ) -> dict[str, Floats]:
        """Return log loss and accuracy of each trial, (n_checkpoints, 2, seeds)."""
        return {
            name: np.stack([self.judged(task, trial, reports, seed) for seed in range(seeds)], axis=-1)
            for name, trial in trials.items()
        }


def _read(line: str) -> tuple[str, Floats]:
    kept = json.loads(line)
    return json.dumps(kept["of"], sort_keys=True), np.array(kept["found"])
