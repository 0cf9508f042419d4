"""Declared defaults and derived columns, as a consumer with Feast alone reads them, on every pair of stores."""

from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest

from ptkstore.adapters.feast import FeastFeatureStore
from ptkstore.adapters.feast.publishing.default_view_text import text_of
from ptkstore.errors import InvalidRequest, UnknownName
from tests.ptkstore.adapters.feast.conftest import EVERYTHING, FORMS

pytestmark = pytest.mark.real

PTK = "taxi.speed_by_hour"
VIEW = "taxi__speed_by_hour"
FILLED = f"{VIEW}__filled"
NAMES = [f"{name}_filled" for name, _ in FORMS]
DERIVED = list(EVERYTHING["derived"])


def features(*names: str) -> list[str]:
    return [f"{FILLED}:{name}" for name in names]


@pytest.mark.long
def test_missing_keys_and_null_values_are_answered_by_their_defaults(repo, store, make, filled, consumer):
    make.publish(store, filled(1), filled(2), filled(3))
    rows = [{"hour": 7, "mph": 10.0}, {"hour": 8, "mph": 10.0}, {"hour": 99, "mph": 10.0}]
    answer = consumer(
        "online", repo=str(repo), features=features(*NAMES, "filled_version", *DERIVED), rows=rows
    )
    assert answer == {
        "hour": [7, 8, 99],
        "value_filled": [3.0, -1.5, -1.5],
        "n_filled": [3, 3, 7],
        "zone_filled": ["z", "z", "none"],
        "open_filled": [False, False, True],
        "filled_version": [3, 3, 0],
        "over": [7.0, 11.5, 11.5],
        "share": [1.0, -2.0, pytest.approx(7 / -1.5)],
        "double": [6.0, 6.0, 14.0],
        "size": [0, 0, 2],
        "log_double": [pytest.approx(1.791759), pytest.approx(1.791759), pytest.approx(2.639057)],
    }
    asked = [f"{VIEW}:value", f"{VIEW}:ptk_version", *features("value_filled", "filled_version")]
    both = consumer("online", repo=str(repo), features=asked, rows=rows)
    assert (both["value"], both["ptk_version"]) == ([3.0, None, None], [3, 3, None])
    assert (both["value_filled"], both["filled_version"]) == ([3.0, -1.5, -1.5], [3, 3, 0])
    assert store.look_up(features("over", "filled_version"), rows) == [
        {"over": 7.0, "filled_version": 3},
        {"over": 11.5, "filled_version": 3},
        {"over": 11.5, "filled_version": 0},
    ]


@pytest.mark.long
def test_versions_that_are_too_old_by_their_event_time_are_answered_by_defaults(
    repo, store, make, filled, consumer
):
    declared = {"defaults": {"value": -1.0}, "fresh": "2d"}
    today = (datetime.now(UTC) - make.day(0)) / timedelta(days=1)
    asked = {"repo": str(repo), "features": features("value_filled", "filled_version"), "rows": [{"hour": 7}]}
    make.publish(store, filled(1, declared, day=today - 3))
    stale = consumer("online", **asked)
    assert (stale["value_filled"], stale["filled_version"]) == ([-1.0], [0])
    make.publish(store, filled(2, declared, day=today - 1))
    fresh = consumer("online", **asked)
    assert (fresh["value_filled"], fresh["filled_version"]) == ([2.0], [2])


@pytest.mark.long
def test_joins_in_time_answer_by_what_was_fresh_then(repo, store, make, filled, consumer):
    declared = {"defaults": {"value": -1.0}, "fresh": "2d"}
    make.publish(store, filled(1, declared, day=1), filled(2, declared, day=10, hours=(7,)))
    days = (0.5, 1.5, 3.5, 10.5, 12.5)
    rows = [{"hour": 7, "event_timestamp": make.day(day).isoformat()} for day in days]
    history = consumer(
        "historical", repo=str(repo), features=features("value_filled", "filled_version"), rows=rows
    )
    assert [row["value_filled"] for row in history] == [-1.0, 1.0, -1.0, 2.0, -1.0]
    assert [row["filled_version"] for row in history] == [0, 1, 0, 2, 0]


def test_nothing_that_a_consumer_reads_of_it_is_a_pickle(light_store, make, filled):
    make.publish(light_store, filled(1), filled(2))
    from feast.infra.registry.sql import feature_view_version_history, on_demand_feature_views
    from feast.protos.feast.core.OnDemandFeatureView_pb2 import OnDemandFeatureView
    from sqlalchemy import select

    with light_store._sessions.use() as session, session.database.engine.connect() as connection:
        (stored,) = connection.execute(select(on_demand_feature_views.c.feature_view_proto)).scalars()
        kept = connection.execute(select(feature_view_version_history.c.feature_view_type)).scalars().all()
    function = OnDemandFeatureView.FromString(stored).spec.feature_transformation.user_defined_function
    assert function.body == b""
    assert "def filled(inputs):" in function.body_text
    assert "ptkstore" not in function.body_text
    assert "on_demand_feature_view" not in kept


@pytest.mark.parametrize(
    "word", ["'", '"', "\\", "'''", "{0}", "defaults", "' + str(1/0) + '", "\N{SNOWMAN}"]
)
def test_a_default_is_never_read_as_code(word):
    declared = {
        "defaults": {word: ("c", word, "string")},
        "derived": [],
        "version_column": "v",
        "ends": {},
        "fresh_seconds": None,
    }
    space: dict = {}
    exec(text_of(declared), space)  # noqa: S102
    answered = space["filled"](pd.DataFrame({"c": ["given", None], "v": [1.0, float("nan")]}))
    assert answered[f"{word}_filled"].tolist() == ["given", word]


@pytest.mark.long
def test_old_copies_go_with_their_versions_and_all_goes_with_the_ptk(light_repo, make, filled):
    from tests.support.feast_rows import age

    store = FeastFeatureStore(light_repo, keep_versions=1)

    def names() -> set[str]:
        with store._sessions.use() as session:
            registered = {view.name for view in session.registry.list_feature_views("ptk")}
            tables = session.online._get_conn(session.config).execute(  # type: ignore[attr-defined]
                "SELECT name FROM sqlite_master WHERE type = 'table'"
            )
            online = {row[0].removeprefix("ptk_") for row in tables if "filled" in row[0]}
        assert {name for name in registered if "filled" in name} == {
            n for n in online if not n.endswith("_ek")
        }
        return {name for name in registered if "filled" in name}

    for version in (1, 2, 3):
        make.publish(store, filled(version))
        age(light_repo, store)
    make.publish(store, filled(4))
    age(light_repo, store)
    make.publish(store, filled(5))
    assert {f"{FILLED}__v4", f"{FILLED}__v5"} <= names()
    assert f"{FILLED}__v1" not in names()
    store.withdraw(PTK)
    assert names() == set()
    with pytest.raises(UnknownName):
        store.look_up(features("n_filled"), [{"hour": 7}])
    store.close()


def test_a_flip_that_died_before_it_came_to_the_filled_view_is_completed(
    light_store, make, filled, monkeypatch
):
    make.publish(light_store, filled(1))
    light_store.stage(filled(2))

    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("ptkstore.adapters.feast.publishing.default_views.FilledView.serve", die)
        with pytest.raises(Killed):
            light_store.flip(filled(2))
    asked = features("value_filled", "filled_version")
    row = {"hour": 7, "mph": 1.0}
    assert light_store.look_up(asked, [row]) == [
        {"value_filled": 1.0, "filled_version": 1}
    ]  # whole, if older
    make.publish(light_store, filled(2))
    assert light_store.look_up(asked, [row]) == [{"value_filled": 2.0, "filled_version": 2}]


def test_a_ptk_that_declares_nothing_any_more_has_no_such_view(light_store, make, filled):
    make.publish(light_store, filled(1), filled(2, None))
    with pytest.raises(UnknownName):
        light_store.look_up(features("n_filled"), [{"hour": 7}])
    assert light_store.look_up([f"{VIEW}:n"], [{"hour": 7}]) == [{"n": 2}]
    make.publish(light_store, filled(3))
    assert light_store.look_up(features("filled_version"), [{"hour": 7, "mph": 1}]) == [{"filled_version": 3}]


def test_a_changed_declaration_holds_from_the_next_version_on(light_store, make, filled):
    make.publish(light_store, filled(1, {"defaults": {"n": 1}}), filled(2, {"defaults": {"value": 2.0}}))
    assert light_store.look_up(features("value_filled"), [{"hour": 99}]) == [{"value_filled": 2.0}]
    with pytest.raises(InvalidRequest):
        light_store.look_up(features("n_filled"), [{"hour": 99}])


def test_what_is_not_sent_along_is_asked_for_without_telling_values(light_store, make, filled):
    make.publish(light_store, filled(1))
    with pytest.raises(InvalidRequest) as refused:
        light_store.look_up(features("over"), [{"hour": 424242}])
    assert "424242" not in str(refused.value)


def test_two_ptks_are_filled_in_one_request(repo, store, make, filled, consumer):
    declared = {"defaults": {"value": -1.0}}
    make.publish(store, filled(1, declared), filled(2, declared, ptk_id="ads.clicks"))
    asked = [f"{FILLED}:value_filled", "ads__clicks__filled:filled_version"]
    answer = consumer("online", repo=str(repo), features=asked, rows=[{"hour": 7}, {"hour": 9}])
    assert answer == {"hour": [7, 9], "value_filled": [1.0, -1.0], "filled_version": [2, 0]}
