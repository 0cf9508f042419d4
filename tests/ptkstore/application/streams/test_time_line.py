"""Windows on a line of time: what each is called, whose rows are kept until when, and what was made of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ptkstore.application.streams.read_time_line import Stage, TimeLine
from ptkstore.domain.scheduling.choices import Scheduler
from ptkstore.domain.streams.policies import Closing
from ptkstore.domain.streams.streams import Stream
from ptkstore.errors import UnknownName
from tests.support.device_streams import SCHEMA, device_policy
from tests.support.world import DAY, ORIGIN, STREAM, World


def stages(line: TimeLine) -> list[tuple[int, int | None, str]]:
    return [(one.first, one.last, one.stage.value) for one in line.windows]


def test_windows_of_an_operator_are_open_until_it_closes_them(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    world.stream()
    assert stages(world.service.time_line(STREAM, 9)) == [(0, None, "open")]
    for day in range(5):
        world.publish(day)
    line = world.service.time_line(STREAM, 9)
    assert [one.stage for one in line.windows] == [
        *(Stage.EXPIRING, Stage.EXPIRING, Stage.EXPIRING),
        *(Stage.CLOSED, Stage.CLOSED),
        Stage.OPEN,
    ]
    world.work("expire")
    line = world.service.time_line(STREAM, 9)
    assert [one.stage for one in line.windows][:3] == [Stage.EXPIRED] * 3
    assert [one.until for one in line.windows][2:5] == [None, ORIGIN + 6 * DAY, ORIGIN + 7 * DAY]
    assert (line.windows[-1].end, line.windows[-1].until) == (None, None)
    world.service.close()


def test_windows_of_the_clock_close_when_late_rows_had_their_time(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    world.stream(closing=Closing.CLOCK, lateness=timedelta(hours=20), retention_windows=9)
    world.clock.time = ORIGIN + 3 * DAY + timedelta(hours=10)
    world.service.close_windows(STREAM)
    line = world.service.time_line(STREAM, 9)
    assert stages(line) == [(0, 0, "closed"), (1, 1, "closed"), (2, 2, "closing"), (3, 3, "open")]
    assert line.windows[-1].end == ORIGIN + 4 * DAY
    world.clock.pass_(hours=48)  # nobody closed meanwhile
    assert stages(world.service.time_line(STREAM, 9))[2:] == [(2, 4, "closing"), (5, 5, "open")]
    world.service.close()


def test_rows_that_are_kept_longer_than_there_are_dates_are_kept_until_the_last(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    year = timedelta(days=365)
    world.stream(closing=Closing.CLOCK, window=year, retention_windows=9_000)
    (now,) = world.service.time_line(STREAM, 9).windows
    assert now.until == datetime.max.replace(tzinfo=UTC)
    world.clock.pass_(days=365)
    world.service.close_windows(STREAM)
    closed, _ = world.service.time_line(STREAM, 9).windows
    (kept,) = world.service.exposure(STREAM).kept
    assert closed.until == kept.until == datetime.max.replace(tzinfo=UTC)
    world.service.close()


def test_pages_are_bounded_and_end_before_a_window(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    world.stream(retention_windows=40)
    world.close(7)
    newest, middle = world.service.time_line(STREAM, 3), world.service.time_line(STREAM, 3, 4)
    assert [one.first for one in newest.windows] == [4, 5, 6, 7]
    assert [one.first for one in middle.windows] == [1, 2, 3]
    assert (middle.first, middle.below, middle.closed_before) == (1, 4, 7)
    assert [one.first for one in world.service.time_line(STREAM, 3, 10**18).windows] == [4, 5, 6, 7]
    assert world.service.time_line(STREAM, 3, 0).windows == ()
    with pytest.raises(UnknownName):
        world.service.time_line("none", 3)
    world.service.close()


def test_versions_in_the_lake_are_counted_on_each_window_that_they_read(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    world.stream(scheduler=Scheduler.ADAPTIVE, retention_windows=4, rows_per_window=100)
    world.register("wide", epsilon=0.1, windows=(2, 2))
    for day in range(2):
        world.ingest((day + 0.5,))
        world.close(day + 1)
        world.work("prepare", "allocate", "schedule", "train")

    def counted() -> list[int | None]:
        return [one.versions for one in world.service.time_line(STREAM, 9, with_versions=True).windows]

    assert counted() == [0, 0, None]  # it is elected, and not in the lake
    world.work("place")
    assert counted() == [1, 1, None]
    assert [one.versions for one in world.service.time_line(STREAM, 9).windows] == [None] * 3
    world.service.close()


def test_of_devices_nothing_is_kept(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    world.service.create_stream(Stream("phones", "taxi", SCHEMA, device_policy()))
    world.service.close_windows("phones", ORIGIN + 2 * DAY)
    line = world.service.time_line("phones", 9)
    assert [(one.stage, one.until) for one in line.windows] == [
        (Stage.EXPIRED, None),
        (Stage.EXPIRED, None),
        (Stage.OPEN, None),
    ]
    world.service.close()
