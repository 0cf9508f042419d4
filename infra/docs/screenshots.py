"""Make the screenshots of the console that the docs show, from generated data: `make screenshots`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from ptkstore.domain.identity import Role
from ptkstore.domain.subscriptions import DeadLetter
from ptkstore.ports.row_processes import RunFailed
from tests.services.chromium import chromium, executable, tab
from tests.support.api_server import Api
from tests.support.world import NOW, trips

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures"
BYTES_MOST = 150_000
ROWS_PER_DAY, DAYS = 6_000, 9
Shot = tuple[str, str, int, int, Literal["light", "dark"]]
SHOTS: tuple[Shot, ...] = (
    ("console-overview", "", 1_280, 900, "light"),
    ("console-overview-phone", "", 390, 844, "dark"),
    ("console-catalog", "ptks?q=hour", 1_280, 760, "light"),
    ("console-ptk", "ptks/taxi.speed_by_hour?plot=count", 1_280, 1_000, "light"),
    ("console-lineage", "ptks/taxi.busy_hours#versions", 1_280, 1_150, "light"),
    ("console", "streams/taxi?by=ptk#time-line", 1_280, 1_280, "light"),
    ("console-stream-dark", "streams/taxi?by=ptk#time-line", 1_280, 1_280, "dark"),
)


@contextmanager
def filled(home: Path) -> Iterator[Api]:
    """Run a console on a week of generated trips."""
    rng = np.random.default_rng(18)
    with Api(home) as api:
        world = api.world
        world.stream(retention_windows=40, rows_per_window=ROWS_PER_DAY)
        world.register(
            "speed_by_hour", epsilon=0.35, description="Mean speed by hour of the day.", tags=["eta"]
        )
        world.register(
            "busy_hours",
            epsilon=0.2,
            description="How many trips begin in each hour.",
            tags=["eta", "staffing"],
        )
        for day in range(DAYS):
            times = np.sort(rng.uniform(day, day + 1, ROWS_PER_DAY))
            hours = (times % 1 * 24).astype(np.int64)
            speeds = np.clip(
                32 - 9 * np.sin((hours - 5) / 24 * 4 * np.pi) + rng.normal(0, 4, len(hours)), 1, 60
            )
            rows = trips(list(times), hour=pa.array(hours), speed=pa.array(speeds))
            world.clock.pass_(minutes=17)
            world.trainer.failing = RunFailed("memory-limit") if day == DAYS - 1 else None
            world.service.ingest("taxi", rows)
            world.close(day + 1)
            world.work()
        world.register(
            "late_comer", epsilon=0.25, description="Registered today: its first training is to come."
        )
        made, _ = world.service.subscribe_to_ptk("taxi.busy_hours", "http://127.0.0.1:9/hook", team="taxi")
        with world.service.begin() as uow:
            uow.subscriptions.add_dead_letter(DeadLetter(made.id, 3, "endpoint-refused", NOW))
            uow.commit()
        yield api


def main() -> None:
    """Write all screenshots, each smaller than `BYTES_MOST`."""
    if executable() is None:
        sys.exit("screenshots: chromium is missing (apt-get install chromium)")
    with (
        tempfile.TemporaryDirectory() as folder,
        filled(Path(folder) / "home") as api,
        chromium() as browser,
        tab(browser) as one,
    ):
        one.go(f"{api.url}/console/")
        one.page.get_by_label("API token").fill(api.token(*Role))
        one.page.get_by_role("button", name="Sign in").click()
        for name, path, width, height, scheme in SHOTS:
            one.size(width, height)
            one.scheme(scheme)
            one.go(f"{api.url}/console/{path}")
            picture = one.page.screenshot()
            if len(picture) > BYTES_MOST:
                sys.exit(f"screenshots: {name} has {len(picture)} bytes, more than {BYTES_MOST}")
            (FIGURES / f"{name}.png").write_bytes(picture)


if __name__ == "__main__":
    main()
