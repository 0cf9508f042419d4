"""The file of what a device has lost: written first, never forgotten, and never begun anew by itself."""

import json
import multiprocessing
import os
import stat
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from ptklib.draw_discard import (
    LimitReached,
    Limits,
    NotAllowed,
    Odometer,
    OdometerError,
    UntrustedAnswer,
)
from ptklib.draw_discard.limits import StreamLimits
from ptklib.draw_discard.record import Loss, Report
from ptklib.exceptions import InvalidParameterError

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LIMITS = Limits(
    report_epsilon=4, reports_per_window=1, reports_in_all=8, columns=["age", "clicked"], window_seconds=0
)
COLUMNS = ["age", "clicked"]


def report(**other: Any) -> Report:
    fields: dict[str, Any] = {
        "at": NOON,
        "server": "https://ptk.example.org",
        "stream": "phones",
        "ptk": "ads.phishy",
        "window": 3,
        "window_ends": NOON + timedelta(hours=1),
        "specification": "ab" * 32,
        "epsilon": 3.47,
        "delta": 0.0,
        "limits": StreamLimits(report_epsilon=4.0, reports_per_window=1, reports_in_all=8),
    }
    return Report(**(fields | other))


def in_window(window: int, **other: Any) -> Report:
    """A report of a later window, at a time when the ones before have ended."""
    at = NOON + timedelta(days=window)
    return report(**({"window": window, "at": at, "window_ends": at + timedelta(hours=1)} | other))


@pytest.fixture
def odometer(tmp_path: Path) -> Odometer:
    made = Odometer(tmp_path / "home")
    made.allow(LIMITS)
    return made


def test_reports_are_kept_and_added_up(odometer: Odometer) -> None:
    reports = [
        in_window(3, epsilon=0.1),
        in_window(4, epsilon=0.1),
        in_window(5, epsilon=0.1, ptk="ads.other"),
        in_window(5, epsilon=0.2, stream="tablets"),
    ]
    for one in reports:
        odometer.spend(one, COLUMNS)
    record = Odometer(odometer.path.parent).read()
    assert record.reports == tuple(reports)
    exact = 3 * Fraction(0.1) + Fraction(0.2)
    assert record.in_all().reports == 4
    assert Fraction(record.in_all().epsilon) >= exact
    assert record.in_all().epsilon == pytest.approx(float(exact), rel=1e-15)
    phones = ("https://ptk.example.org", "phones")
    assert record.by("server", "stream")[phones].reports == 3
    assert record.by("stream", "ptk")["phones", "ads.phishy"] == Loss(2, 0.2, 0.0)
    assert record.by("stream", "window")["tablets", 5].reports == 1


def test_people_can_read_it_and_nobody_else(odometer: Odometer) -> None:
    odometer.spend(report(), COLUMNS)
    document = json.loads(odometer.path.read_text())
    assert document["lost"] == {"reports": 1, "epsilon": 3.47, "delta": 0.0}
    assert document["limits"]["reports_in_all"] == 8
    assert document["reports"][0]["at"] == "2026-03-01T12:00:00+00:00"
    assert odometer.path.read_text().count("\n") > 20
    for path in odometer.path.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(odometer.path.parent.stat().st_mode) == 0o700


def test_nothing_is_allowed_before_the_person_says_so(tmp_path: Path) -> None:
    fresh = Odometer(tmp_path / "home")
    with pytest.raises(NotAllowed, match="nothing is allowed") as caught:
        fresh.check(report(), COLUMNS)
    assert not (tmp_path / "home").exists()
    fresh.allow(caught.value.asked)
    fresh.spend(report(), COLUMNS)


def test_where_nothing_was_allowed_few_reports_are_asked_for(tmp_path: Path) -> None:
    """Numbers of reports hold for the device, and this server says its own."""
    many = replace(report(), limits=replace(report().limits, reports_per_window=2**31, reports_in_all=2**31))
    with pytest.raises(NotAllowed) as caught:
        Odometer(tmp_path / "home").check(many, COLUMNS)
    assert (caught.value.asked.reports_per_window, caught.value.asked.reports_in_all) == (1, 8)


def test_limits_that_are_widened_are_those_of_now(odometer: Odometer) -> None:
    odometer.allow(replace(LIMITS, reports_in_all=0, report_epsilon=0.5, columns=["other"]))
    odometer.widen(report(), COLUMNS)
    kept = odometer.read().limits
    assert kept is not None
    assert (kept.reports_in_all, kept.report_epsilon) == (0, report().epsilon)
    assert set(kept.columns) == {"other", *COLUMNS}


def test_a_new_folder_is_there_after_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced, fsync = set(), os.fsync

    def noted(descriptor: int) -> None:
        synced.add(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    Odometer(tmp_path / "a" / "b").allow(LIMITS)
    assert {tmp_path, tmp_path / "a", tmp_path / "a" / "b"} <= synced


def test_limits_that_are_kept_stay(odometer: Odometer) -> None:
    odometer.begin(replace(LIMITS, reports_in_all=100))
    assert odometer.read().limits == LIMITS
    odometer.allow(replace(LIMITS, reports_in_all=2))
    assert odometer.read().limits == replace(LIMITS, reports_in_all=2)


@pytest.mark.parametrize(
    ("planned", "columns", "told"),
    [
        (report(epsilon=4.0001), COLUMNS, "epsilon 4.0001"),
        (report(delta=1e-9), COLUMNS, "delta 1e-09"),
        (report(), [*COLUMNS, "income"], "not allowed: income"),
    ],
)
def test_more_than_the_person_allows_is_refused_and_can_be_allowed(
    odometer: Odometer, planned: Report, columns: list[str], told: str
) -> None:
    planned = replace(planned, limits=replace(planned.limits, report_epsilon=5.0))
    before = odometer.path.read_bytes()
    with pytest.raises(NotAllowed, match=told) as caught:
        odometer.spend(planned, columns)
    assert odometer.path.read_bytes() == before
    asked = caught.value.asked
    assert (asked.reports_in_all, asked.reports_per_window) == (8, 1)
    odometer.allow(asked)
    odometer.spend(planned, columns)


def test_a_loss_above_what_the_stream_says_is_refused(odometer: Odometer) -> None:
    with pytest.raises(UntrustedAnswer, match="loses more than the stream says"):
        odometer.spend(report(epsilon=3.9, limits=replace(report().limits, report_epsilon=3.8)), COLUMNS)


@pytest.mark.parametrize("per_window", [1, 2])
@pytest.mark.parametrize("whose", ["stream", "person"])
def test_a_window_takes_so_many_reports(odometer: Odometer, per_window: int, whose: str) -> None:
    many = replace(report().limits, reports_per_window=per_window if whose == "stream" else 5)
    odometer.allow(replace(LIMITS, reports_per_window=per_window if whose == "person" else 5))
    for _ in range(per_window):
        odometer.spend(in_window(3, limits=many), COLUMNS)
    with pytest.raises(LimitReached, match="this window") as caught:
        odometer.spend(in_window(3, limits=many), COLUMNS)
    assert not caught.value.for_good
    odometer.spend(in_window(4, limits=many), COLUMNS)


@pytest.mark.parametrize("whose", ["stream", "device"])
def test_all_reports_are_used_up_for_good(odometer: Odometer, whose: str) -> None:
    few = replace(report().limits, reports_in_all=2 if whose == "stream" else 9)
    odometer.allow(replace(LIMITS, reports_in_all=2 if whose == "device" else 9))
    for window in (3, 4):
        odometer.spend(in_window(window, limits=few), COLUMNS)
    with pytest.raises(LimitReached, match=f"all reports that (the|this) {whose}") as caught:
        odometer.spend(in_window(5, limits=few), COLUMNS)
    assert caught.value.for_good
    other = in_window(5, stream="tablets", limits=few)
    if whose == "stream":
        odometer.spend(other, COLUMNS)
    else:
        with pytest.raises(LimitReached):
            odometer.spend(other, COLUMNS)


@pytest.mark.parametrize(
    ("planned", "told"),
    [
        (in_window(2, at=in_window(9).at), "went back"),
        (in_window(3, window_ends=in_window(3).window_ends + timedelta(seconds=1)), "another end"),
        (in_window(4, limits=replace(report().limits, reports_in_all=9)), "other limits before"),
    ],
)
def test_windows_that_jump_and_limits_that_change_are_refused(
    odometer: Odometer, planned: Report, told: str
) -> None:
    odometer.spend(in_window(3), COLUMNS)
    with pytest.raises(UntrustedAnswer, match=told):
        odometer.spend(planned, COLUMNS)
    assert len(odometer.read().reports) == 1


def test_a_window_is_taken_when_the_one_before_has_ended(odometer: Odometer) -> None:
    ends = in_window(3).window_ends
    odometer.spend(in_window(3), COLUMNS)
    with pytest.raises(LimitReached, match="has not ended") as caught:
        odometer.spend(in_window(4, at=ends - timedelta(seconds=1)), COLUMNS)
    assert not caught.value.for_good
    odometer.spend(in_window(4, at=ends), COLUMNS)


@pytest.mark.parametrize(
    "lie",
    [
        {"window": 4},
        {"stream": "another"},
        {"server": "https://another.example.org", "stream": "another", "window": 0},
    ],
)
def test_the_devices_own_clock_bounds_what_a_server_calls_a_window(
    odometer: Odometer, lie: dict[str, Any]
) -> None:
    odometer.allow(replace(LIMITS, window_seconds=3600))
    short = report(window_ends=NOON + timedelta(seconds=1))
    odometer.spend(short, COLUMNS)
    for seconds in (1, 3599):
        with pytest.raises(LimitReached, match="this window"):
            odometer.spend(replace(short, at=NOON + timedelta(seconds=seconds), **lie), COLUMNS)
    odometer.spend(replace(short, at=NOON + timedelta(seconds=3600), **lie), COLUMNS)


def test_a_clock_that_went_back_gives_no_room(odometer: Odometer) -> None:
    odometer.allow(replace(LIMITS, window_seconds=3600))
    odometer.spend(report(), COLUMNS)
    with pytest.raises(LimitReached, match="this window"):
        odometer.spend(report(at=NOON - timedelta(days=400), stream="another"), COLUMNS)


def test_a_file_that_went_back_is_refused(odometer: Odometer) -> None:
    odometer.spend(in_window(3), COLUMNS)
    older = odometer.path.read_bytes()
    odometer.spend(in_window(4), COLUMNS)
    odometer.path.write_bytes(older)
    for use in (odometer.read, lambda: odometer.spend(in_window(5), COLUMNS), lambda: odometer.allow(LIMITS)):
        with pytest.raises(OdometerError, match="not the one that was written last"):
            use()
    assert odometer.path.read_bytes() == older


def test_a_file_that_is_gone_is_refused(odometer: Odometer) -> None:
    odometer.path.unlink()
    with pytest.raises(OdometerError, match="missing"):
        odometer.spend(report(), COLUMNS)
    assert not odometer.path.exists()


def test_a_mark_that_is_gone_is_refused(odometer: Odometer) -> None:
    odometer.spend(report(), COLUMNS)
    odometer.path.with_name("odometer.mark").unlink()
    with pytest.raises(OdometerError, match="not the one"):
        odometer.read()


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: b"",
        lambda text: text[:-20],
        lambda text: text.replace(b"3.47", b"0.47"),
        lambda text: text.replace(b'"reports_in_all": 8', b'"reports_in_all": 800'),
        lambda text: text.replace(b'"number": 2', b'"number": 3'),
        lambda text: text.replace(b'"epsilon": 3.47', b'"epsilon": NaN'),
        lambda text: b"[" * 100_000,
        lambda text: b"\xff" + text,
        lambda text: text + b" " * 2**24,
    ],
)
def test_a_damaged_file_is_refused_and_stays_as_it_is(odometer: Odometer, damage: Any) -> None:
    odometer.spend(report(), COLUMNS)
    damaged = damage(odometer.path.read_bytes())
    odometer.path.write_bytes(damaged)
    for use in (odometer.read, lambda: odometer.spend(in_window(4), COLUMNS)):
        with pytest.raises(OdometerError):
            use()
    assert odometer.path.read_bytes() == damaged


def test_a_damaged_mark_is_refused(odometer: Odometer) -> None:
    odometer.path.with_name("odometer.mark").write_text("7 nonsense\n")
    with pytest.raises(OdometerError, match=r"odometer.mark is damaged"):
        odometer.read()


def test_a_crash_between_the_file_and_its_mark_is_healed(odometer: Odometer) -> None:
    mark = odometer.path.with_name("odometer.mark")
    before = mark.read_bytes()
    odometer.spend(in_window(3), COLUMNS)
    for left in (before, before + mark.read_bytes()[len(before) :][:30]):  # no line, or one that is cut short
        mark.write_bytes(left)
        assert len(odometer.read().reports) == 1
    odometer.spend(in_window(4), COLUMNS)
    assert len(odometer.read().reports) == 2
    assert [line.split()[0] for line in mark.read_text().splitlines()] == ["1", "2", "3"]


def test_the_first_file_may_lack_its_mark(tmp_path: Path) -> None:
    fresh = Odometer(tmp_path)
    fresh.allow(LIMITS)
    (tmp_path / "odometer.mark").write_bytes(b"")
    fresh.spend(report(), COLUMNS)
    assert len(fresh.read().reports) == 1


def test_what_cannot_be_written_is_an_error_and_counts_nothing(
    odometer: Odometer, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = odometer.path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OdometerError, match="No space left"):
        odometer.spend(report(), COLUMNS)
    monkeypatch.undo()
    assert odometer.path.read_bytes() == before
    odometer.spend(report(), COLUMNS)


def test_a_home_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    with pytest.raises(OdometerError, match="folder"):
        Odometer(tmp_path / "home").allow(LIMITS)


def _spend_often(home: str, times: int, kept: Any) -> None:
    for _ in range(times):
        try:
            Odometer(home).spend(report(limits=EIGHT), COLUMNS)
        except LimitReached:
            continue
        kept.put(1)


EIGHT = StreamLimits(report_epsilon=4.0, reports_per_window=8, reports_in_all=8)


def test_processes_at_once_send_no_more_than_one_would(tmp_path: Path) -> None:
    Odometer(tmp_path).allow(replace(LIMITS, reports_per_window=8))
    context = multiprocessing.get_context("spawn")
    kept = context.Queue()
    processes = [context.Process(target=_spend_often, args=(str(tmp_path), 5, kept)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert [kept.get(timeout=5) for _ in range(8)] == [1] * 8
    assert kept.empty()
    assert len(Odometer(tmp_path).read().reports) == 8


@pytest.mark.parametrize(
    "wrong",
    [
        {"report_epsilon": -1},
        {"report_epsilon": float("nan")},
        {"report_epsilon": "4"},
        {"reports_per_window": 1.5},
        {"reports_in_all": True},
        {"reports_in_all": -1},
        {"columns": "age"},
        {"columns": ["no name"]},
        {"columns": 3},
        {"report_delta": 1.0},
        {"window_seconds": -1},
    ],
)
def test_limits_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameterError):
        replace(LIMITS, **wrong)


def test_reading_makes_no_file(tmp_path: Path) -> None:
    assert Odometer(tmp_path).read().number == 0
    assert list(tmp_path.iterdir()) == []


def test_a_specification_of_many_columns_is_refused_in_a_short_message(odometer: Odometer) -> None:
    with pytest.raises(NotAllowed, match=r"c0000, .* and 2990 more") as caught:
        odometer.check(report(), [f"c{i:04}" for i in range(3000)])
    assert len(str(caught.value)) < 200
    assert len(caught.value.asked.columns) == 3002
