"""From a window to the published versions that its rows went into."""

from __future__ import annotations

import pytest

from ptkstore.application.versions.trace_window import Descendant
from ptkstore.domain.accounting.assurances import Assurance, Assured
from ptkstore.domain.ptks.wanted import WantedPtk
from ptkstore.errors import NameTaken, UnknownName
from ptkstore.ports.row_processes import RunFailed
from tests.support.catalog_copies import catalog_of, put_back
from tests.support.world import DAY, ORIGIN, STREAM, World, speed

PROVEN = Assured(Assurance.LIBRARY)

GROWING, FRESH, GONE = "taxi.speed", "ads.speed", "taxi.gone"


def of_ads(world: World) -> None:
    estimator = speed(0.1, top=50.0)
    world.service.register_ptk(
        team="ads", name="speed", stream=STREAM, estimator=estimator, target=0.1, train_frequency="1d"
    )


@pytest.fixture
def published(world: World) -> World:
    """Three windows; a PTK that grows, one of another team whose model changes each time, one that left early."""
    world.register()
    world.register("gone")
    of_ads(world)
    for day in range(3):
        world.service.update_ptk(FRESH, estimator=speed(0.1, top=50.0 + day))
        world.publish(day)
        if day == 1:
            world.service.deregister_ptk(GONE)
    return world


def traced(world: World, window: int) -> list[tuple[str, int, bool]]:
    return [(one.ptk_id, one.version, one.newest) for one in world.service.trace_window(STREAM, window)]


def test_versions_of_all_teams_that_hold_a_windows_rows_are_told(published: World) -> None:
    assert published.service.trace_window(STREAM, 1) == (
        Descendant(FRESH, 2, "2026-01-07T00:00:00+00:00", "elected", (), newest=False, assured=PROVEN),
        Descendant(
            GONE, 2, "2026-01-07T00:00:00+00:00", "elected", (f"{GONE} v1",), newest=True, assured=PROVEN
        ),
        Descendant(
            GROWING,
            2,
            "2026-01-07T00:00:00+00:00",
            "elected",
            (f"{GROWING} v1",),
            newest=False,
            assured=PROVEN,
        ),
        Descendant(
            GROWING,
            3,
            "2026-01-08T00:00:00+00:00",
            "elected",
            (f"{GROWING} v2",),
            newest=True,
            assured=PROVEN,
        ),
    )
    assert traced(published, 2) == [(FRESH, 3, True), (GROWING, 3, True)]
    assert traced(published, 0) == [
        (FRESH, 1, False),
        (GONE, 1, False),
        (GONE, 2, True),
        (GROWING, 1, False),
        (GROWING, 2, False),
        (GROWING, 3, True),
    ]


def test_a_rollback_to_before_the_window_leads_consumers_away_from_it(published: World) -> None:
    published.service.rollback_ptk(GROWING, 1)
    published.work("place", "flip")
    assert traced(published, 1) == [
        (FRESH, 2, False),
        (GONE, 2, True),
        (GROWING, 2, False),
        (GROWING, 3, False),
    ]
    published.publish(3)  # goes on from the state that was gone back to
    assert traced(published, 1)[2:] == [(GROWING, 2, False), (GROWING, 3, False)]
    assert (GROWING, 5, True) in traced(published, 0)
    assert traced(published, 3) == [(FRESH, 4, True), (GROWING, 5, True)]


def test_a_version_that_repeats_such_a_state_is_one_itself(published: World) -> None:
    for ptk_id in (GROWING, FRESH):
        published.service.rollback_ptk(ptk_id, 2)
    published.work("place", "flip")
    assert traced(published, 1) == [
        (FRESH, 2, False),
        (FRESH, 4, True),
        (GONE, 2, True),
        (GROWING, 2, False),
        (GROWING, 3, False),
        (GROWING, 4, True),
    ]
    repeated = published.service.trace_window(STREAM, 1)[1]
    assert repeated == Descendant(
        FRESH, 4, "2026-01-07T00:00:00+00:00", "rolled-back", (f"{FRESH} v2",), newest=True, assured=PROVEN
    )
    assert (GROWING, 4, True) in traced(published, 0)  # and all that went into what it repeats
    assert traced(published, 2) == [(FRESH, 3, False), (GROWING, 3, False)]


def test_what_failed_or_is_under_way_is_not_told(published: World) -> None:
    published.ingest((3.5,))
    published.close(4)
    published.work("prepare", "allocate")
    published.trainer.failing = RunFailed("killed")  # of the first; the other is elected and not placed
    published.trainer.meanwhile = lambda: seen.append(traced(published, 3))
    seen: list[object] = []
    published.work("train")
    outcomes = {ptk_id: published.job(f"train/{ptk_id}/3").outcome for ptk_id in (FRESH, GROWING)}
    assert sorted(str(outcome) for outcome in outcomes.values()) == ["failed", "published"]
    assert traced(published, 3) == []
    assert seen == [[]]
    assert traced(published, 2) == [(FRESH, 3, True), (GROWING, 3, True)]
    published.work("place")
    (made,) = (ptk_id for ptk_id, outcome in outcomes.items() if outcome == "published")
    assert traced(published, 3) == [(made, 4, True)]


def test_a_version_is_told_once_it_is_placed(published: World) -> None:
    published.ingest((3.5,))
    published.close(4)
    published.work("prepare", "allocate", "train")
    assert traced(published, 3) == []
    assert (GROWING, 3, True) in traced(published, 0)
    published.work("place")
    assert traced(published, 3) == [(FRESH, 4, True), (GROWING, 4, True)]
    assert [one for one in traced(published, 0) if one[0] == GROWING][2:] == [
        (GROWING, 3, False),
        (GROWING, 4, True),
    ]
    assert {one.number for one in published.service.versions(GROWING)} == {1, 2, 3, 4}


def test_windows_are_told_apart_by_stream_and_those_that_are_open_are_unknown(published: World) -> None:
    published.stream("bikes")
    published.service.close_windows("bikes", ORIGIN + 2 * DAY)
    assert published.service.trace_window("bikes", 1) == ()
    for stream, window in (("trams", 0), (STREAM, 3), (STREAM, -1)):
        with pytest.raises(UnknownName):
            published.service.trace_window(stream, window)


def test_an_expired_window_is_traced_for_ever(published: World) -> None:
    published.close(5)
    published.work("expire")
    assert published.state(1) == "expired"
    assert traced(published, 1)[-1] == (GROWING, 3, True)


def test_after_a_recovery_versions_in_the_lake_are_told_before_their_ptks_are_registered_again(
    world: World,
) -> None:
    """The backup is from before a PTK was registered and a window closed."""
    home = world.service.settings.root
    world.register()
    world.publish(0)
    earlier = catalog_of(home)
    world.register("late")
    world.publish(1)
    before = traced(world, 1)
    assert before == [("taxi.late", 1, True), (GROWING, 2, True)]
    world.service.close()
    put_back(home, earlier)
    restored = World(home)
    (recovered,) = restored.service.recover_ledger()
    assert recovered.ptks_to_register == ("taxi.late",)
    assert ("taxi.late", 1, True) in traced(restored, 1)
    with pytest.raises(UnknownName):
        restored.service.trace_window(STREAM, 2)
    restored.work("place", "flip")
    assert traced(restored, 1) == before
    restored.service.close_windows(STREAM, ORIGIN + 2 * DAY)
    restored.register("late")
    restored.work("place", "flip")
    assert traced(restored, 1) == before
    restored.service.close()


def test_versions_of_another_stream_keep_a_name_after_a_recovery(world: World) -> None:
    """Else they would count as trained on the stream that the name was given to since."""
    world.stream("bikes")
    home = world.service.settings.root
    earlier = catalog_of(home)
    world.register()
    world.publish(0)
    world.service.close()
    put_back(home, earlier)
    restored = World(home)
    restored.service.recover_ledger()
    wanted = WantedPtk("speed", {"estimator": speed(0.1), "target": 0.1})
    admission = restored.service.admit_ptks(team="taxi", stream="bikes", wanted=[wanted])
    assert isinstance(admission.refusals[GROWING], NameTaken)
    with pytest.raises(NameTaken, match=f"{GROWING}' has versions of stream '{STREAM}'"):
        restored.register(stream="bikes")
    restored.register()
    restored.close(1)
    restored.work("place", "flip")
    assert traced(restored, 0) == [(GROWING, 1, True)]
    restored.service.close()
