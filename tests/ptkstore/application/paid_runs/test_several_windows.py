"""One spend for several windows: each window has a key of its own, and who is left by the time is opened."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ptkstore.domain.jobs import JobState, Outcome
from ptkstore.domain.streams.blocks import HASH_RANGE
from ptkstore.domain.streams.windows import WindowId, WindowState
from ptkstore.ports.row_processes import OpenedRows
from tests.support.dying_process import FILE, KEY, Strike, die_at
from tests.support.several_windows import queue_training
from tests.support.world import DAY, ORIGIN, STREAM, World, speed

TRAIN = "train/taxi.speed/3"
WINDOWS = (0, 1, 3)  # 2 is none of them
EPSILON = 5.0
N = 90  # rows that are planned, of 3 windows of 100
ROWS = 120  # of each window


def with_three_windows(home: Path, n_rows: int = N, **settings: int) -> World:
    """Windows of which three have paid for one training together; of the others none is trained on."""
    world = World(home, **settings)
    world.stream(epsilon=10, retention_windows=8, profile_share=0, test_share=0)
    for day in range(4):
        world.ingest([day + i / (2 * ROWS) for i in range(ROWS)])
    world.close(4)
    world.work("prepare", "allocate")
    world.register(estimator=speed(EPSILON))
    queue_training(world, *WINDOWS, n_rows=n_rows)
    return world


@pytest.fixture
def three(tmp_path: Path) -> Iterator[World]:
    world = with_three_windows(tmp_path / "home")
    yield world
    world.service.close()


def key(world: World, window: int) -> bytes:
    return world.service.keys.sealing_key(WindowId(STREAM, window))


def goes(world: World, *windows: int) -> None:
    """Windows are to expire, and their keys are gone already; nobody has deleted their rows."""
    with world.service.begin() as uow:
        for one in windows:
            uow.windows.set_state(WindowId(STREAM, one), WindowState.EXPIRING)
        uow.commit()
    for one in windows:
        world.service.keys.destroy_window(WindowId(STREAM, one))


def opened(world: World) -> tuple[OpenedRows, ...]:
    (request,) = world.trainer.requests
    return request.rows


def spent(world: World) -> dict[int, int]:
    """Reserved and spent epsilon of windows that are charged anything."""
    blocks = [
        (b.number // 128, b.reserved.epsilon_nano + b.spent.epsilon_nano)
        for b in world.service.budget(STREAM)
    ]
    return {window: nano // 10**9 for window, nano in blocks if nano}


def told(world: World) -> tuple[list[int], int]:
    """The windows that the version names, and about how many rows it counts."""
    (version,) = world.service.versions("taxi.speed")
    (content,) = world.service.lake.read_version("taxi.speed", 1)[1].values()
    count = sum(pq.read_table(BytesIO(content))["count"].to_pylist())
    newest = version.content["newest_contributing_window"]["index"]
    return version.content.get("windows", [newest]), round(count)


def near(rows: float) -> object:
    """A Bernoulli sample of at most 360 rows, and 24 noises of scale .4: beyond once in 10**6."""
    return pytest.approx(rows, abs=70)


def test_a_training_opens_the_same_share_of_each_window_that_paid(three: World) -> None:
    keys = [key(three, window) for window in WINDOWS]
    three.work("train", "place")
    rows = opened(three)
    assert [one.window_key for one in rows] == keys
    place = three.service.raw.part_url
    assert [one.part_urls for one in rows] == [(place(WindowId(STREAM, one), 2),) for one in WINDOWS]
    assert {(one.low, one.high) for one in rows} == {(0, N * HASH_RANGE // 300)}
    assert spent(three) == dict.fromkeys(WINDOWS, 5)
    assert three.job(TRAIN).outcome is Outcome.PUBLISHED
    assert told(three) == (list(WINDOWS), near(3 * ROWS * N / 300))
    (version,) = three.service.versions("taxi.speed")
    assert [one["number"] // 128 for one in version.content["blocks"]] == list(WINDOWS)


def test_a_window_that_expires_between_spend_and_key_is_left_out_and_not_named(three: World) -> None:
    three.steps.at["spent"] = lambda: goes(three, 0)
    three.work("train", "place")
    assert [one.window_key for one in opened(three)] == [key(three, 1), key(three, 3)]
    assert {(one.low, one.high) for one in opened(three)} == {(0, N * HASH_RANGE // 300)}
    assert told(three) == ([1, 3], near(2 * ROWS * N / 300))
    assert spent(three) == dict.fromkeys(WINDOWS, 5)  # nothing is given back


def test_a_run_of_which_every_window_expires_between_spend_and_key_ends(three: World) -> None:
    three.steps.at["spent"] = lambda: goes(three, *WINDOWS)
    three.work("train", "place")
    assert three.trainer.requests == []
    assert three.job(TRAIN).outcome is Outcome.EXPIRED
    assert ("taxi.speed window 3", "expired") in three.notices()
    assert spent(three) == dict.fromkeys(WINDOWS, 5)


def test_a_run_of_which_one_window_expires_before_the_spend_ends_and_gets_its_reservation_back(
    three: World,
) -> None:
    goes(three, 1)
    three.work("train", "place")
    assert (three.job(TRAIN).outcome, spent(three)) == (Outcome.EXPIRED, {})
    assert ("taxi.speed window 3", "expired") in three.notices()


def test_a_run_that_is_claimed_again_goes_on_with_the_windows_that_are_left(three: World) -> None:
    def die() -> None:
        raise KeyboardInterrupt

    three.steps.at["opened"] = die
    with pytest.raises(KeyboardInterrupt):
        three.service.work_on(TRAIN)
    goes(three, 0)
    three.clock.pass_(hours=2)
    three.work("train", "place")
    assert told(three)[0] == [1, 3]
    assert spent(three) == dict.fromkeys(WINDOWS, 5)


@pytest.mark.parametrize("gone", [(), (0,)])
def test_partials_collect_their_share_of_each_window_that_is_left(
    tmp_path: Path, gone: tuple[int, ...]
) -> None:
    world = with_three_windows(tmp_path / "home", n_rows=300, rows_per_partial=100)
    world.steps.at["split"] = lambda: world.service.close_windows(
        STREAM, ORIGIN + (8 + len(gone)) * DAY, expire_unfinished=True
    )
    world.work("train", "place")
    assert world.job(TRAIN).state is JobState.OPENED
    world.work("expire", "partial")
    left = [window for window in WINDOWS if window not in gone]
    assert [[one.window_key for one in asked.rows] for asked in world.trainer.collected] == 3 * [
        [key(world, window) for window in left]
    ]
    edges = [HASH_RANGE * i // 3 for i in range(4)]
    shares = [{(one.low, one.high) for one in asked.rows} for asked in world.trainer.collected]
    assert shares == [{(low, high)} for low, high in pairwise(edges)]
    world.work("train", "place")
    assert opened(world) == ()
    assert told(world) == (left, near(len(left) * ROWS))
    world.service.close()


def staged_sums(world: World) -> list[str]:
    """Partials in staging that somebody could still read: of which there are a file and a key."""
    return sorted({*world.service.staging.drafts()} & {*world.service.keys.draft_ids()})


def expire_oldest(world: World) -> None:
    world.service.close_windows(STREAM, ORIGIN + 9 * DAY, expire_unfinished=True)


STRIKES = (
    *map(Strike, ("claimed", "expiring", "key-destroyed", "files-deleted", "expired")),
    *(Strike(what, n) for what in (KEY, FILE) for n in (1, 3)),
)


@pytest.mark.parametrize(
    "strike", [None, *(pytest.param(one, marks=pytest.mark.long) for one in STRIKES)], ids=str
)
def test_sums_of_a_window_that_expires_are_destroyed_and_collected_anew_without_it(
    tmp_path: Path, strike: Strike | None
) -> None:
    """A process is killed during the expiry: once it is over, nobody can read what the window added to a partial."""
    world = with_three_windows(tmp_path / "home", n_rows=300, rows_per_partial=100)
    world.work("train")
    world.work("partial")
    of_three = staged_sums(world)
    assert len(of_three) == 3
    expire_oldest(world)
    if strike is not None:
        die_at(strike, world, "expire/taxi/0")
        world.clock.pass_(hours=2)
    world.work("expire")
    assert world.state(0) is WindowState.EXPIRED
    assert staged_sums(world) == []
    assert {*of_three}.isdisjoint(world.service.keys.draft_ids())
    assert TRAIN not in world.service.due()  # it waits for its partials once more
    world.work("partial")
    assert [[one.window_key for one in asked.rows] for asked in world.trainer.collected[3:]] == 3 * [
        [key(world, 1), key(world, 3)]
    ]
    world.work("train", "place")
    assert told(world) == ([1, 3], near(2 * ROWS))
    assert spent(world) == dict.fromkeys(WINDOWS, 5)
    assert staged_sums(world) == []
    world.service.close()


def test_a_partial_that_ran_on_during_the_expiry_counts_for_nothing(tmp_path: Path) -> None:
    world = with_three_windows(tmp_path / "home", n_rows=300, rows_per_partial=100)
    world.work("train")

    def expires() -> None:
        """The lease of the one who collects is over, though it lives."""
        expire_oldest(world)
        world.clock.pass_(hours=2)
        world.work("expire")

    world.steps.at["collected"] = expires
    world.service.work_on("partial/taxi.speed/3/0")
    assert world.job("partial/taxi.speed/3/0").state is not JobState.ENDED
    assert staged_sums(world) == []
    world.work("partial", "train", "place")
    assert told(world) == ([1, 3], near(2 * ROWS))
    world.service.close()


def test_a_training_that_ran_on_during_an_expiry_elects_nothing_of_the_window_that_went(three: World) -> None:
    three.service.close_windows(STREAM, ORIGIN + 9 * DAY - DAY / 2, expire_unfinished=True)

    def expires() -> None:
        expire_oldest(three)
        three.clock.pass_(hours=2)
        three.work("expire")

    three.steps.at["trained"] = expires
    three.service.work_on(TRAIN)
    assert three.service.versions("taxi.speed") == ()
    three.work("train", "place")
    assert told(three) == ([1, 3], near(2 * ROWS * N / 300))


def test_a_state_is_not_continued_by_a_training_on_a_window_that_is_in_it(three: World) -> None:
    """Rows of a window would count twice in the merged counts."""
    three.work("train", "place")
    queue_training(three, 1, 2, n_rows=N)
    three.work("train", "place")
    queue_training(three, 2, 3, n_rows=N, look=2)
    three.work("train", "place")
    made_from = [one.content["made_from"] for one in three.service.versions("taxi.speed")]
    assert [len(one) for one in made_from] == [0, 0, 0]


def test_a_state_is_continued_by_a_training_on_other_windows(three: World) -> None:
    three.work("train", "place")
    queue_training(three, 2, n_rows=N)
    three.work("train", "place")
    first, second = three.service.versions("taxi.speed")
    assert [one["version"] for one in second.content["made_from"]] == [first.number]
    assert second.content["oldest_contributing_window"]["index"] == 0


def test_a_window_does_not_expire_while_a_partial_reads_it(tmp_path: Path) -> None:
    world = with_three_windows(tmp_path / "home", n_rows=300, rows_per_partial=100)
    world.work("train")
    due = list[str]()

    def expires() -> None:
        world.service.close_windows(STREAM, ORIGIN + 9 * DAY, expire_unfinished=True)
        due.extend(world.service.due())

    world.trainer.meanwhile = expires
    assert world.service.work_on("partial/taxi.speed/3/0")
    assert [job for job in due if job.startswith("expire")] == []
    assert [job for job in world.service.due() if job.startswith("expire")] == ["expire/taxi/0"]
    world.service.close()
