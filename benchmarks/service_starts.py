"""What a command costs before it has done anything, in CPU seconds of its process: help, and plain reads of a store."""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import ptkstore
from benchmarks.measuring import Row, measured
from ptklib import HistoricalStatistics

ROUNDS = 7
HELP_GOAL, READ_GOAL = 0.3, 0.7
READS = (("list",), ("versions", "taxi.speed"), ("budget", "taxi"), ("stream", "list"), ("notices",))


def cpu_seconds(*words: str) -> float:
    """CPU time of `ptk` with these words, as what ended children have used; from bytecode, as it is installed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "ptkstore.cli.main", *words]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PTK_")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else each child would compile a thousand files
    subprocess.run(command, stdout=subprocess.DEVNULL, env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def rows(rounds: int = ROUNDS) -> list[Row]:
    """The median of `ptk --help`, and of the read that costs most."""
    with tempfile.TemporaryDirectory() as place:
        home = Path(place) / "home"
        with ptkstore.connect(home) as store:
            store.create_stream(
                "taxi",
                team="taxi",
                schema={"at": "timestamp", "hour": "int64", "speed": "float64"},
                time_column="at",
                epsilon=1.0,
            )
            estimator = HistoricalStatistics(
                keys=["hour"], domains={"hour": list(range(24))}, bounds={"speed": (0, 60)}, epsilon=0.1
            )
            store.register_ptk(estimator, name="speed", stream="taxi", target=0.5)
        for words in (("--help",), *((*words, "--home", str(home)) for words in READS)):
            cpu_seconds(*words)  # leaves bytecode
        helps, reads = [], {words: [] for words in READS}
        for _ in range(rounds):
            helps.append(cpu_seconds("--help"))
            for words, taken in reads.items():
                taken.append(cpu_seconds(*words, "--home", str(home)))
    slowest = max(reads, key=lambda words: statistics.median(reads[words]))
    return [
        measured(
            "starts-help",
            f"CPU of ptk --help, median of {rounds}",
            unit="s",
            ours=statistics.median(helps),
            goal=HELP_GOAL,
            direction="min",
        ),
        measured(
            "starts-read",
            f"CPU of a plain read, median of {rounds}; the slowest, ptk {' '.join(slowest)}",
            unit="s",
            ours=statistics.median(reads[slowest]),
            goal=READ_GOAL,
            direction="min",
        ),
    ]
