"""An online store that lost its rows: lookups say so, the check finds it, and one publication brings them back."""

import sqlite3
from contextlib import closing

import pytest
import yaml

from ptkstore.errors import RowsLost

pytestmark = pytest.mark.real

VIEW = "taxi__speed_by_hour"
PTK, OTHER = "taxi.speed_by_hour", "taxi.tips"
FEATURES = [f"{VIEW}:value"]


def lose_everything(repo, request):
    """As FLUSHALL, or an administrator who takes the file away."""
    online = yaml.safe_load((repo / "feature_store.yaml").read_text())["online_store"]
    if online["type"] != "sqlite":
        import redis

        redis.Redis.from_url(request.getfixturevalue("redis_server").client_url).flushall()
        return
    with closing(sqlite3.connect(repo / "online.db")) as file:
        for (table,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            file.execute(f'DROP TABLE "{table}"')
        file.commit()


def test_lost_rows_are_told_and_come_back_with_the_same_version(request, repo, store, make):
    make.publish(store, make.state(1), make.state(2), make.state(1, ptk_id=OTHER))
    rows = [{"hour": 8}, {"hour": 99}]
    assert store.look_up(FEATURES, rows) == [{"value": 2.0}, {"value": None}]
    assert store.look_up(FEATURES, [{"hour": 99}]) == [{"value": None}]
    assert (
        store.look_up(["ptk_state:version"], [{"ptk": "taxi.none"}, {"ptk": "??"}]) == [{"version": None}] * 2
    )
    assert store.lost([PTK, OTHER]) == frozenset()
    lose_everything(repo, request)
    for asked, keys in (
        (FEATURES, {"hour": 8}),
        (FEATURES, {"hour": 99}),
        ([f"{VIEW}@v1:value"], {"hour": 8}),
        (["ptk_state:version"], {"ptk": PTK}),
    ):
        with pytest.raises(RowsLost, match="materialize"):
            store.look_up(asked, [keys])
    assert store.lost([PTK, OTHER]) == {PTK, OTHER}
    make.publish(store, make.state(2))
    assert store.look_up(FEATURES, rows) == [{"value": 2.0}, {"value": None}]
    assert store.look_up(["ptk_state:version"], [{"ptk": PTK}]) == [{"version": 2}]
    assert store.lost([PTK, OTHER]) == {OTHER}
    make.publish(store, make.state(3), make.state(1, ptk_id=OTHER))
    assert store.look_up(FEATURES, rows) == [{"value": 3.0}, {"value": None}]
    assert store.lost([PTK, OTHER]) == frozenset()


def test_defaults_do_not_stand_in_for_rows_that_were_lost(request, repo, store, make, filled):
    state = filled(1)
    make.publish(store, state)
    asked = [f"{VIEW}__filled:n_filled"], [{"hour": 99, "mph": 1.0}]
    assert store.look_up(*asked) == [{"n_filled": 7}]
    lose_everything(repo, request)
    with pytest.raises(RowsLost):
        store.look_up(*asked)
    make.publish(store, state)
    assert store.look_up(*asked) == [{"n_filled": 7}]


@pytest.mark.parametrize("repo", ["sqlite+packed"], indirect=True)
def test_the_rows_of_one_version_that_are_gone_alone_are_missed(request, repo, store, make):
    import redis

    make.publish(store, make.state(1), make.state(2), make.state(1, ptk_id=OTHER))
    redis.Redis.from_url(request.getfixturevalue("redis_server").client_url).delete(f"ptk/{VIEW}_v2")
    with pytest.raises(RowsLost):
        store.look_up(FEATURES, [{"hour": 8}])
    assert store.look_up([f"{VIEW}@v1:value"], [{"hour": 8}]) == [{"value": 1.0}]
    assert store.lost([PTK, OTHER]) == {PTK}


def test_a_version_without_any_row_has_lost_none(repo, store, make):
    make.publish(store, make.state(1, hours=()))
    assert store.look_up(FEATURES, [{"hour": 8}]) == [{"value": None}]
    assert store.lost([PTK]) == frozenset()
