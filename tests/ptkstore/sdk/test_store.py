"""The Python client: times, choices, repositories, states in hand."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from ptklib import HistoricalStatistics
from ptkstore import PTK
from ptkstore.errors import InvalidRequest, NameTaken, PtkRejected, PtkStoreError, UnknownName
from ptkstore.sdk import Repository, Store, connect, featurize, load_repository
from tests.support.cases import case
from tests.support.world import DAY, ORIGIN, STREAM, World, trips

FEATURES = [f"taxi__speed__{name}" for name in ("count", "speed_sum", "speed_mean")]
SCHEMA = {"at": "timestamp", "hour": "int64"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "home")
    yield world
    world.service.close()


@pytest.fixture
def store(world: World) -> Store:
    return Store(world.service)


def speeds(name: str = "speed", epsilon: Any = 0.1, **more: Any) -> PTK:
    fields = {"stream": STREAM, "target": 0.1, **more}
    estimator = HistoricalStatistics(
        keys=["hour"],
        values=["speed"],
        domains={"hour": [0, 1]},
        bounds={"speed": (0.0, 60.0)},
        epsilon=epsilon,
    )
    return PTK(name=name, estimator=estimator, **fields)


def create(store: Store, **changes: Any) -> None:
    fields = {"team": "taxi", "schema": SCHEMA, "time_column": "at", "epsilon": 1.0}
    store.create_stream("taxi", **{**fields, **changes})


def test_an_unknown_scheduler_is_refused_with_those_there_are(store: Store) -> None:
    with pytest.raises(InvalidRequest, match="choose from allocate, adaptive, budgeting"):
        create(store, scheduler="lottery")
    assert store.streams() == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"schema": {"at": "date"}},
        {"schema": {}},
        {"time_column": "hour"},
        {"epsilon": float("nan")},
        {"epsilon": "1"},
        {"epsilon": True},
        {"epsilon": 11},
        {"delta": 0.5},
        {"window": "1w"},
        {"lateness": "1d"},
        {"origin": "yesterday"},
        {"retention": 0},
        {"accountant": "pld"},
        {"privacy_unit": "family"},
        {"minimum_assurance": "hope"},
        {"closing": "never"},
        {"team": "Taxi"},
    ],
    ids=str,
)
def test_a_wrong_stream_is_refused_and_not_there(store: Store, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        create(store, **wrong)
    assert store.service.streams() == ()
    create(store)


def test_a_stream_begins_today_and_may_be_created_again_unchanged(store: Store, world: World) -> None:
    world.clock.pass_(hours=5)
    create(store)
    create(store)
    assert store.service.streams()[0].policy.origin == world.clock.now() - timedelta(hours=5)
    with pytest.raises(NameTaken, match="fixed at creation"):
        create(store, epsilon=2.0)


def test_a_stream_of_short_windows_begins_now_and_keeps_its_origin_when_it_is_created_again(
    store: Store, world: World
) -> None:
    world.clock.pass_(hours=23, minutes=59, seconds=57)
    create(store, window="10s")
    origin = store.service.streams()[0].policy.origin
    assert world.clock.now() - origin == timedelta(seconds=7)
    assert len(store.service.close_windows("taxi")) == 0
    world.clock.pass_(days=2)
    create(store, window="10s")
    assert store.service.streams()[0].policy.origin == origin
    with pytest.raises(NameTaken):
        create(store, window="20s")


def test_tables_may_be_pandas(store: Store, world: World) -> None:
    create(store, origin=ORIGIN)
    frame = pd.DataFrame({"at": pd.to_datetime(["2026-01-05 12:00", None]), "hour": [1, 2]}, index=[7, 8])
    reply = store.ingest(STREAM, frame)
    assert (reply.accepted, reply.refused) == (1, {"time-missing": 1})


def test_a_store_elsewhere_is_refused_until_there_is_an_api() -> None:
    with pytest.raises(InvalidRequest, match="token"):
        connect("https://example.org")


# PTKs


def test_an_estimator_is_registered_by_itself(store: Store, world: World) -> None:
    world.stream()
    with pytest.raises(InvalidRequest, match="eval"):
        store.register_ptk(speeds().estimator, lambda: 0.0, name="speed", stream=STREAM, target=0.1)
    with pytest.raises(UnknownName):
        store.register_ptk(speeds().estimator, name="speed", stream="bikes", target=0.1)
    assert store.register_ptk(speeds().estimator, name="speed", stream=STREAM, target=0.1) == "taxi.speed"


def test_parts_of_a_config_are_changed_and_the_rest_is_kept(store: Store, world: World) -> None:
    world.stream()
    ptk_id = store.register_ptk(speeds().estimator, name="speed", stream=STREAM, target=0.1)
    store.update_ptk_config(ptk_id, {"epsilon": 0.2})
    store.update_ptk_performance_target(ptk_id, 0.3)
    (spec,) = store.service.ptks()
    assert (spec.loss.epsilon_nano, spec.target) == (2 * 10**8, 0.3)
    assert spec.estimator["params"]["keys"] == ["hour"]
    with pytest.raises(InvalidRequest, match="colour"):
        store.update_ptk_config(ptk_id, {"colour": "red"})
    with pytest.raises(UnknownName):
        store.update_ptk_config("taxi.other", {})


def test_plan_says_what_apply_does_and_a_second_apply_does_nothing(store: Store, world: World) -> None:
    world.stream()
    team = Repository("taxi", (speeds(), speeds("fast", 0.2)))
    planned = store.plan(team, audit=False)
    assert [(c.action, c.ptk_id, c.epsilon, c.delta) for c in planned] == [
        ("register", "taxi.speed", 0.1, 0.0),
        ("register", "taxi.fast", 0.2, 0.0),
    ]
    assert store.service.ptks() == ()
    assert store.apply(team) == tuple(replace(c, checks=None, reason="", room=None) for c in planned)
    once = store.service.ptks()
    assert [c.action for c in store.apply(team)] == ["keep", "keep"]
    assert store.service.ptks() == once
    changed = Repository("taxi", (speeds(), speeds("fast", 0.3)))
    assert [c.action for c in store.apply(changed)] == ["keep", "update"]
    assert [c.action for c in store.plan(changed)] == ["keep", "keep"]
    assert store.service.ptks()[0].loss.epsilon_nano == 3 * 10**8


def test_plan_tells_the_loss_that_registration_charges_and_a_new_description_is_a_change(
    store: Store, world: World
) -> None:
    world.stream(epsilon=1)
    estimator = HistoricalStatistics(
        ["hour"], ["speed"], domains={"hour": [7]}, bounds={"speed": (0, 1)}, epsilon=0.5, delta=1e-9
    )
    declared = PTK("one", STREAM, estimator, 0.1, description="before")
    (planned,) = store.plan(Repository("taxi", (declared,)))
    store.apply(Repository("taxi", (declared,)))
    (spec,) = store.service.ptks()
    assert (planned.epsilon, planned.delta) == (spec.loss.epsilon, spec.loss.delta) == (0.5, 0.0)
    renamed = Repository("taxi", (replace(declared, description="after"),))
    assert [c.action for c in store.apply(renamed)] == ["update"]
    assert store.service.ptks()[0].description == "after"


@pytest.mark.parametrize("change", [{"stream": "bikes"}, {"every": "2d"}], ids=str)
def test_a_change_that_apply_cannot_make_is_refused_not_ignored(
    store: Store, world: World, change: dict[str, str]
) -> None:
    world.stream()
    store.apply(Repository("taxi", (speeds(),)))
    changed = Repository("taxi", (speeds(**change),))
    (told,) = store.plan(changed)
    assert (told.action, told.refused) == ("update", "invalid-request")
    assert "another name" in told.reason
    with pytest.raises(InvalidRequest, match="another name"):
        store.apply(changed)


def test_a_repository_that_does_not_fit_says_what_is_left(store: Store, world: World) -> None:
    world.stream()
    with pytest.raises(PtkRejected, match=r"ask for at most epsilon 0\.3, delta 0\."):
        store.apply(Repository("taxi", (speeds("a", 0.7), speeds("b", 0.4))))
    assert store.service.ptks() == ()  # what comes before it is not registered either
    fitting = Repository("taxi", (speeds("a", 0.7), speeds("b", 0.3)))
    assert [(c.action, c.refused) for c in store.plan(fitting, audit=False)] == [("register", None)] * 2


def test_a_range_of_epsilons_is_declared_once_and_changed_by_applying_again(
    store: Store, world: World
) -> None:
    world.stream(rows_per_window=10_000)
    profiled = replace(speeds(), target=0.3, epsilons=(0.1, 0.5))
    for action in ("register", "keep"):
        assert [c.action for c in store.apply(Repository("taxi", (profiled,)))] == [action]
    wider = replace(profiled, epsilons=(0.1, 0.9))
    assert [c.action for c in store.apply(Repository("taxi", (wider,)))] == ["update"]
    assert world.service.ptks()[0].config == {"epsilons": [0.1, 0.9]}


# repositories


def write(folder: Path, team: str | bytes = 'team = "taxi"', ptks: str = "") -> Path:
    (folder / "team.toml").write_bytes(team if isinstance(team, bytes) else team.encode())
    (folder / "ptks.py").write_text(ptks)
    return folder


def test_a_repository_is_read_with_its_own_modules(tmp_path: Path) -> None:
    (tmp_path / "zones_of_a_team.py").write_text("ZONES = [1, 2]")
    write(
        tmp_path,
        ptks="from zones_of_a_team import ZONES\nfrom ptkstore import PTK\n"
        "speed = PTK(name='speed', stream='taxi', estimator=ZONES, target=1.0)",
    )
    repository = load_repository(tmp_path)
    assert (repository.team, [p.name for p in repository.ptks]) == ("taxi", ["speed"])
    assert repository.ptks[0].estimator == [1, 2]


def test_a_repository_edited_within_one_second_is_read_anew(tmp_path: Path) -> None:
    main, helper = tmp_path / "ptks.py", tmp_path / "zones_of_a_team.py"
    write(
        tmp_path,
        ptks="from zones_of_a_team import ZONES\nfrom ptkstore import PTK\n"
        "speed = PTK(name='speed', stream='taxi', estimator=(ZONES, 1), target=1.0)",
    )
    helper.write_text("ZONES = 1")
    times = (0, 1_000_000_000)
    for file in (main, helper):
        os.utime(file, times)
    assert load_repository(tmp_path).ptks[0].estimator == (1, 1)
    main.write_text(main.read_text().replace("(ZONES, 1)", "(ZONES, 2)"))
    helper.write_text("ZONES = 2")
    for file in (main, helper):
        os.utime(file, times)
    assert load_repository(tmp_path).ptks[0].estimator == (2, 2)
    assert not list(tmp_path.rglob("*.pyc"))


@pytest.mark.parametrize(
    "files",
    [
        {"team": "team = 5"},
        {"team": 'team = "Taxi"'},
        {"team": "name = 1"},
        {"team": "team = "},
        {"team": b"\xff\xfe"},
        {"ptks": "def f(:"},
        {"ptks": "1 / 0"},
        {"ptks": "{}['x']"},
        {"ptks": "import no_such_module"},
        {"ptks": "open('/no/such/file')"},
        {"ptks": "raise SystemExit(0)"},
        {"ptks": "raise RuntimeError('x')"},
        {"ptks": "from ptkstore import PTK\nPTK()"},
        {"ptks": "from ptkstore import PTK\na = b = PTK(name='a', stream='s', estimator=1, target=1)"},
    ],
    ids=str,
)
def test_a_repository_that_cannot_be_read_is_refused(tmp_path: Path, files: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        load_repository(write(tmp_path, **files))


def test_a_folder_without_the_two_files_is_no_repository(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"team\.toml"):
        load_repository(tmp_path / "nowhere")
    write(tmp_path)
    (tmp_path / "ptks.py").unlink()
    with pytest.raises(InvalidRequest, match=r"ptks\.py"):
        load_repository(tmp_path)


# states in hand


@pytest.fixture
def published(world: World) -> World:
    world.stream()
    world.register()
    world.publish(0)
    world.publish(1)
    return world


def test_a_published_ptk_is_had_by_version_and_newest_first(store: Store, published: World) -> None:
    newest = store.ptk("taxi.speed")
    assert (newest.version, newest.tau, newest.id) == (2, 0.1, "taxi.speed")
    assert newest.oldest_contributing_window["index"] == 0
    assert store.ptk("taxi.speed", 1).newest_contributing_window["end"] == (ORIGIN + DAY).isoformat()


def test_a_version_that_was_not_published_is_unknown(store: Store, published: World) -> None:
    for ptk_id, version in [
        ("taxi.speed", 3),
        ("taxi.speed", 0),
        ("taxi.speed", -1),
        ("taxi.other", None),
        ("../lake.x", None),
    ]:
        with case(str((ptk_id, version))), pytest.raises(InvalidRequest):
            store.ptk(ptk_id, version)


def test_tables_are_featurized_and_keys_outside_the_domain_get_defaults(
    store: Store, published: World
) -> None:
    ptk = store.ptk("taxi.speed")
    target = pa.table({"hour": [0, 99], "other": ["a", "b"]})
    (table, again) = featurize([target, target.to_pandas()], [ptk])
    assert table.column_names == ["hour", "other", *FEATURES]
    assert table["taxi__speed__count"].to_pylist()[1] == 0.0
    assert again.select(FEATURES) == table.select(FEATURES)


def test_a_table_without_the_keys_is_refused_by_name(store: Store, published: World) -> None:
    with pytest.raises(PtkStoreError, match=r"taxi\.speed.*hour"):
        next(featurize([pa.table({"minute": [1]})], [store.ptk("taxi.speed")]))


def test_the_budget_is_told_by_block(store: Store, published: World) -> None:
    rows = store.budget(STREAM)
    assert [(r["window"], r["part"], r["spent_epsilon"]) for r in rows] == [
        (0, "profile", 0.0),
        (0, "test", 0.0),
        (0, "train-0", 0.1),
        (1, "profile", 0.0),
        (1, "test", 0.0),
        (1, "train-0", 0.1),
    ]
    with pytest.raises(UnknownName):
        store.budget("bikes")


def test_the_word_left_for_owners_and_streams_without_rows_are_no_surprise(
    store: Store, world: World
) -> None:
    world.stream()
    assert store.budget(STREAM) == []
    assert store.close_windows(STREAM, "2026-01-06") == 1
    assert store.ingest(STREAM, trips((0.5,))).refused == {"late": 1}
