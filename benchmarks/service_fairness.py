"""Workers shared by teams: when the only PTK of one team starts while many of another team want work, too."""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.measuring import Row, measured
from ptklib import HistoricalStatistics, TeamCode
from ptkstore.cli.service.machine import running
from ptkstore.domain.ptks.bundles import pack, sha256_of
from ptkstore.sdk import Store
from ptkstore.settings import Settings
from ptkstore.wiring import Service

WORKERS = 2
ALONE, LIBRARY, HONEST, LOOPS = 3, 30, 12, 7
ROWS = 20_000
LIMIT_SECONDS = 6.0  # of a training; what an endless loop holds a slot for
ORIGIN, DAY = datetime(2026, 1, 5, tzinfo=UTC), timedelta(days=1)
ONE, MANY = "one", "many"  # the teams
LATER_SECONDS = 3.0
TICK = timedelta(seconds=2)  # of the settings
WAIT_SECONDS = 600.0
ESTIMATOR = HistoricalStatistics(
    keys=["hour"], domains={"hour": list(range(24))}, bounds={"speed": (0, 60)}, epsilon=0.004
)
# It ends on the few rows of an examination and never on those of a window.
CODE = b"""\
import numpy as np
import pyarrow as pa
from ptklib.mechanisms import laplace


def train_dp(trainset_iter, epsilon, previous_model_state, previous_config):
    tables = list(trainset_iter)
    while sum(table.num_rows for table in tables) > 1_000:
        pass
    counts = np.zeros(24, dtype=np.int64)
    for table in tables:
        hours = table.column("hour").drop_null().to_numpy()
        counts += np.bincount(hours[(hours >= 0) & (hours < 24)], minlength=24)
    noisy = laplace(counts, l1_sensitivity=1, epsilon=epsilon)
    return {"hours": pa.table({"hour": np.arange(24), "trips": noisy})}
"""


@dataclass
class Machine:
    """A service whose processes run, and what its workers logged."""

    store: Store
    service: Service
    log: Path
    days: dict[str, int]

    def stream(self, name: str) -> None:
        """A stream with room for everybody."""
        self.store.create_stream(
            name,
            team=ONE,
            schema={"at": "timestamp", "hour": "int64", "speed": "float64"},
            time_column="at",
            epsilon=1.0,
            origin=ORIGIN,
            closing="operator",
            retention=30,
            rows_per_window=ROWS,
            minimum_assurance="asserted",
        )
        self.days[name] = 0

    def register(self, team: str, name: str, stream: str, estimator: object = ESTIMATOR) -> None:
        """A PTK of a team."""
        self.service.register_ptk(
            team=team,
            name=name,
            stream=stream,
            estimator=estimator.to_spec(),  # type: ignore[attr-defined]
            target=0.5,
            train_frequency="1d",
        )

    def close(self, stream: str) -> tuple[int, datetime]:
        """Send the rows of one more window and close it; its number, and when it was closed."""
        day = self.days[stream]
        self.days[stream] += 1
        at = np.datetime64("2026-01-05") + np.timedelta64(day, "D")
        seconds = np.arange(ROWS) * (86_400 / ROWS)
        draw = np.random.default_rng(day)
        self.store.ingest(
            stream,
            pa.table(
                {
                    "at": pa.array(at + (seconds * 1e6).astype("timedelta64[us]"), pa.timestamp("us", "UTC")),
                    "hour": (seconds // 3600).astype("int64"),
                    "speed": draw.uniform(0, 60, ROWS),
                }
            ),
        )
        closed_at = datetime.now(UTC)
        self.store.close_windows(stream, until=ORIGIN + (day + 1) * DAY)
        return day, closed_at

    def steps(self) -> Iterator[tuple[str, str, datetime]]:
        """What the workers logged: step, job and time."""
        for line in self.log.read_text().splitlines() if self.log.exists() else ():
            if line.startswith("{") and "step" in (said := json.loads(line)):
                yield said["step"], said["job"], datetime.fromisoformat(said["timestamp"])

    def at(self, step: str, job: str) -> datetime:
        """When a job came to a step for the first time; waits for it."""
        until(lambda: any((step, job) == seen[:2] for seen in self.steps()), f"{step} of {job}")
        return min(when for name, which, when in self.steps() if (name, which) == (step, job))

    def idle(self) -> None:
        """Wait until nothing is left to do, and nobody does anything."""

        def rests() -> bool:
            now = self.service.clock.now()
            with self.service.read() as uow:
                return not uow.jobs.busy(now, now + TICK)

        until(rests, "all work to be done")

    def slot(self, since: datetime) -> float:
        """How long a training of the library holds a slot, the median of those that began since then."""
        begun = {job: when for step, job, when in self.steps() if step == "claimed" and when >= since}
        spans = [
            (when - begun[job]).total_seconds()
            for step, job, when in self.steps()
            if step == "elected" and job in begun
        ]
        return statistics.median(spans)


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait for something, not for ever."""
    end = time.monotonic() + WAIT_SECONDS
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {WAIT_SECONDS:.0f} s for {what}")
        time.sleep(0.1)


@contextmanager
def machine(place: Path) -> Iterator[Machine]:
    """Redis, workers, relay and schedule."""
    settings = Settings(
        home=place / "home",
        online_store="sqlite",
        worker_concurrency=WORKERS,
        train_timeout_seconds=LIMIT_SECONDS,
    )
    service = Service(settings)
    with running(settings):
        yield Machine(Store(service), service, settings.root / "log" / "worker.log", {})
    service.close()


def started(on: Machine, name: str, day: int, closed_at: datetime) -> float:
    """Seconds from the closing of a window to the start of a PTK's training."""
    return (on.at("claimed", f"train/{ONE}.{name}/{day}") - closed_at).total_seconds()


def undisturbed(on: Machine) -> float:
    """What it takes alone, the first window not counted, in which processes warm up."""
    on.stream("quiet")
    on.register(ONE, "quiet", "quiet")
    spans = []
    for _ in range(ALONE + 1):
        spans.append(started(on, "quiet", *on.close("quiet")))
        on.idle()
    return statistics.median(spans[1:])


def loop() -> tuple[TeamCode, bytes]:
    """Team code that never ends."""
    bundle = pack({"own.py": CODE})
    made = TeamCode(
        bundle=sha256_of(bundle),
        code="own:train_dp",
        columns=["hour"],
        tables={
            "hours": {
                "keys": ["hour"],
                "columns": [["hour", "int64"], ["trips", "int64"]],
                "domains": {"hour": list(range(24))},
            }
        },
        synthetic={"hour": list(range(24))},
        noise_names=[],
        epsilon=0.004,
    )
    return made, bundle


def load(on: Machine, stream: str, library: int, loops: int) -> None:
    """The PTKs of the other team on a stream."""
    on.stream(stream)
    for number in range(library):
        on.register(MANY, f"{stream}_{number}", stream)
    if loops:
        made, bundle = loop()
        on.service.put_bundle(bundle, team=MANY)
        for number in range(loops):
            on.register(MANY, f"{stream}_loop_{number}", stream, made)


def beside(on: Machine, stream: str, library: int, loops: int) -> tuple[float, float]:
    """Both teams on one window; until the only PTK of its team starts, and how long a slot is held."""
    load(on, stream, library, loops)
    on.register(ONE, f"{stream}_last", stream)
    day, closed_at = on.close(stream)
    took = started(on, f"{stream}_last", day, closed_at)
    on.idle()
    return took, on.slot(closed_at)


def after(on: Machine, stream: str, library: int, loops: int) -> tuple[float, float]:
    """The only PTK of its team, on a window that closes while the other team's work is under way."""
    load(on, stream, library, loops)
    on.close(stream)
    until(lambda: sum(s == "claimed" and f"/{MANY}." in job for s, job, _ in on.steps()) > 0, "the load")
    time.sleep(LATER_SECONDS)
    day, closed_at = on.close("quiet")
    took = started(on, "quiet", day, closed_at)
    on.idle()
    return took, on.slot(closed_at)


def rows() -> list[Row]:
    """When a training starts, against twice what it takes alone plus a slot, all of the same run."""
    found = []
    with tempfile.TemporaryDirectory() as place, machine(Path(place)) as on:
        alone = undisturbed(on)
        for name, what, library, loops in (
            ("library", f"{LIBRARY} library PTKs", LIBRARY, 0),
            ("loops", f"{HONEST} library PTKs and {LOOPS} endless loops", HONEST, LOOPS),
        ):
            for how, act in (("beside", beside), ("after", after)):
                took, slot = act(on, f"{name}_{how}", library, loops)
                when = "in the same window" if act is beside else "under way before"
                print(f"{name} {how}: {took:.2f} s, alone {alone:.2f} s, slot {slot:.2f} s", file=sys.stderr)
                found.append(
                    measured(
                        f"fairness-{name}-{how}",
                        f"start of a team's only PTK, {what} of another team {when}",
                        unit="s",
                        ours=took,
                        against="2 x alone + a slot",
                        theirs=2 * alone + slot,
                        judged=took / (2 * alone + slot),
                        goal=1.0,
                        direction="min",
                    )
                )
    return found
