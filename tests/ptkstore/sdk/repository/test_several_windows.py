"""How many windows a training may read is said by its PTK, in its home and over HTTP alike."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from ptkstore import connect
from ptkstore.adapters.sql.content import ptk_of, ptk_text
from ptkstore.domain.identity import Role
from ptkstore.domain.scheduling.choices import Scheduler
from ptkstore.errors import InvalidRequest
from ptkstore.sdk import Repository, Store
from tests.support.api_server import Api
from tests.support.declared import declaring, speed
from tests.support.world import World

PTK = "taxi.speed"


@pytest.fixture
def api(api: Api) -> Api:
    api.world.stream(retention_windows=8, scheduler=Scheduler.ADAPTIVE)
    return api


def over(least: int, most: int) -> Repository:
    """A repository of one PTK that is trained on so many windows."""
    return declaring(replace(speed("speed", 0.1), windows=(least, most)))


def test_windows_are_registered_planned_changed_and_shown(store: Store, world: World) -> None:
    store.apply(over(1, 3))
    assert world.service.ptk(PTK).windows == store.service.ptk(PTK).windows == (1, 3)
    assert [one["windows"] for one in store.ptks()] == [[1, 3]]
    assert [one.action for one in store.plan(over(1, 3), audit=False)] == ["keep"]
    (change,) = store.plan(over(2, 3), audit=False)
    assert [(one.field, one.before, one.after) for one in change.changes] == [("windows[0]", 1, 2)]
    store.apply(over(2, 3))
    assert world.service.ptk(PTK).windows == (2, 3)


def test_repeating_a_registration_is_the_same(store: Store) -> None:
    for _ in range(2):
        store.register_ptk(
            speed("speed", 0.1).estimator, name="speed", stream="taxi", target=0.1, windows=(2, 4)
        )
    assert store.service.ptk(PTK).windows == (2, 4)


def test_a_ptk_reads_one_window_unless_it_says_so(store: Store, world: World) -> None:
    store.apply(declaring(speed("speed", 0.1)))
    spec = world.service.ptk(PTK)
    assert spec.windows == (1, 1)
    assert "windows" not in ptk_text(spec)  # as PTKs were stored before
    assert ptk_of(ptk_text(spec)).windows == (1, 1)
    several = replace(spec, windows=(1, 8))
    assert ptk_of(ptk_text(several)) == several


@pytest.mark.parametrize(
    ("windows", "why"),
    [
        ((0, 2), "both of windows must be between 1 and 10000"),
        ((1, 10_001), "both of windows must be between 1 and 10000"),
        ((3, 2), "windows must be (least, most), the least first"),
        ((2,), "windows must be two whole numbers, the least and the most"),
        ((1, 2, 3), "windows must be two whole numbers, the least and the most"),
        ((True, 2), "windows must be two whole numbers, the least and the most"),
        ((1.0, 2), "windows must be two whole numbers, the least and the most"),
        (2, "windows must be two whole numbers, the least and the most"),
        ("12", "windows must be two whole numbers, the least and the most"),
    ],
)
def test_other_numbers_are_refused_and_nothing_is_changed(world: World, windows: Any, why: str) -> None:
    store = Store(world.service)
    store.apply(over(1, 3))
    with pytest.raises(InvalidRequest) as refused:
        store.apply(declaring(replace(speed("speed", 0.1), windows=windows)))
    assert re.fullmatch(rf"PTK taxi\.speed\b[^:]*: {re.escape(why)}", str(refused.value))
    with pytest.raises(InvalidRequest):
        world.register("other", windows=windows)
    assert [(one.ptk_id, one.windows) for one in world.service.ptks()] == [(PTK, (1, 3))]


@pytest.mark.parametrize("windows", [(0, 2), (3, 2), (2,), (1, 2, 3), (True, 2), 2, "12"])
def test_other_numbers_are_refused_over_http(api: Api, windows: Any) -> None:
    with connect(api.url, token=api.token(Role.DEVELOPER)) as store, pytest.raises(InvalidRequest):
        store.apply(declaring(replace(speed("speed", 0.1), windows=windows)))
    assert api.world.service.ptks() == ()
