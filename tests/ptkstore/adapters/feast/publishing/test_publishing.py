"""What readers see of versions, on every pair of registry and online store."""

import os
import signal
import threading
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ptkstore.adapters.feast import FeastFeatureStore
from ptkstore.domain.ptks.serving import serving_of
from ptkstore.errors import Conflict, Unavailable, UnknownName
from tests.support.feast_rows import age, telling

pytestmark = pytest.mark.real

VIEW = "taxi__speed_by_hour"
PTK = "taxi.speed_by_hour"
FEASTS_OWN = ["sqlite+sqlite", "postgres+redis"]  # where the online store makes no difference
FEATURES = [f"{VIEW}:value", f"{VIEW}:ptk_version"]


def test_plain_feast_reads_the_served_and_the_pinned_version(repo, store, make, consumer):
    make.publish(store, make.state(1), make.state(2), make.state(3))
    rows = [{"hour": 8}, {"hour": 99}]
    served = consumer("online", repo=str(repo), features=FEATURES, rows=rows)
    assert served == {"hour": [8, 99], "value": [3.0, None], "ptk_version": [3, None]}
    pinned = consumer("online", repo=str(repo), features=[f"{VIEW}@v2:value"], rows=rows)
    assert pinned == {"hour": [8, 99], "value": [2.0, None]}
    assert store.look_up(FEATURES, rows) == [
        {"value": 3.0, "ptk_version": 3},
        {"value": None, "ptk_version": None},
    ]
    assert store.look_up([f"{VIEW}@v1:value"], [{"hour": "8"}]) == [{"value": 1.0}]


def test_ptk_state_tells_version_guarantee_window_and_manifest(repo, store, make, consumer):
    make.publish(store, make.state(1), make.state(2))
    names = ["version", "epsilon", "delta", "window_end", "manifest", "sha256"]
    refs = [f"ptk_state:{name}" for name in names]
    row = consumer("online", repo=str(repo), features=refs, rows=[{"ptk": PTK}])
    expected = [2, 0.5, 1e-9, "2026-01-03 00:00:00+00:00", f"file:///lake/{PTK}/v2", f"{2:064x}"]
    assert {name: row[name][0] for name in names} == dict(zip(names, expected, strict=True))


def test_a_staged_version_is_invisible_until_the_flip(repo, store, make, consumer):
    make.publish(store, make.state(1))
    store.stage(make.state(2))
    assert store.look_up(FEATURES, [{"hour": 8}]) == [{"value": 1.0, "ptk_version": 1}]
    assert consumer("online", repo=str(repo), features=FEATURES, rows=[{"hour": 8}])["value"] == [1.0]
    pinned = [f"{VIEW}@v2:value"]
    assert (
        consumer.error("online", repo=str(repo), features=pinned, rows=[{"hour": 8}])
        == "FeatureViewVersionNotFound"
    )
    with pytest.raises(UnknownName):
        store.look_up(pinned, [{"hour": 8}])


def test_repeating_and_late_duplicates_change_nothing(repo, store, make):
    make.publish(store, make.state(1), make.state(2))
    history = pq.read_table(repo / "history" / VIEW / "v00000002.parquet")
    make.publish(store, make.state(2), make.state(1))
    assert pq.read_table(repo / "history" / VIEW / "v00000002.parquet") == history
    assert store.look_up(FEATURES, [{"hour": 8}]) == [{"value": 2.0, "ptk_version": 2}]
    assert store.look_up([f"{VIEW}@v1:value"], [{"hour": 8}]) == [{"value": 1.0}]
    assert store.look_up(["ptk_state:version"], [{"ptk": PTK}]) == [{"version": 2}]


def test_a_flip_of_what_was_never_staged_is_refused(store, make):
    make.publish(store, make.state(1))
    with pytest.raises(Conflict, match=f"{VIEW} v2 is not staged"):
        store.flip(make.state(2))
    assert store.look_up(["ptk_state:version"], [{"ptk": PTK}]) == [{"version": 1}]


def test_a_key_dropped_by_a_version_is_absent_in_it(repo, store, make, consumer):
    make.publish(store, make.state(1), make.state(2, hours=(7, 9)))
    rows = [{"hour": 7}, {"hour": 8}]
    assert consumer("online", repo=str(repo), features=FEATURES, rows=rows)["value"] == [2.0, None]
    assert [row["value"] for row in store.look_up([f"{VIEW}@v1:value"], rows)] == [1.0, 1.0]


def test_history_answers_point_in_time_with_tombstones(repo, store, make, consumer):
    make.publish(
        store, make.state(1, hours=(7, 8)), make.state(2, hours=(7, 9)), make.state(3, hours=(7, 8, 9))
    )
    days = [0.5, 1.5, 2.5, 3.5]
    rows = [
        {"hour": hour, "event_timestamp": make.day(day).isoformat()} for hour in (7, 8, 9, 99) for day in days
    ]
    answer = consumer("historical", repo=str(repo), features=FEATURES, rows=rows)
    values = {hour: [row["value"] for row in answer if row["hour"] == hour] for hour in (7, 8, 9, 99)}
    assert values == {
        7: [None, 1.0, 2.0, 3.0],
        8: [None, 1.0, None, 3.0],
        9: [None, None, 2.0, 3.0],
        99: [None, None, None, None],
    }
    state = consumer(
        "historical",
        repo=str(repo),
        features=["ptk_state:version"],
        rows=[{"ptk": PTK, "event_timestamp": make.day(day).isoformat()} for day in days],
    )
    assert [row["version"] for row in state] == [None, 1, 2, 3]


def test_a_second_version_of_one_window_replaces_the_first_in_history(repo, store, make, consumer):
    make.publish(store, make.state(1, day=1), make.state(2, day=1, hours=(7,)))
    rows = pq.read_table(repo / "history" / VIEW / "v00000002.parquet").to_pylist()
    at_one_time = {row["hour"]: row["ptk_version"] for row in rows if row["ptk_as_of"] == make.day(1)}
    assert at_one_time == {hour: 2 if hour == 7 else None for hour in range(24)}
    assert 1 not in {row["ptk_version"] for row in rows}  # a sort may put either of two equal times last
    rows = [{"hour": hour, "event_timestamp": make.day(5).isoformat()} for hour in (7, 8)]
    answer = consumer("historical", repo=str(repo), features=FEATURES, rows=rows)
    assert [row["value"] for row in answer] == [2.0, None]
    assert store.look_up(["ptk_state:version"], [{"ptk": PTK}]) == [{"version": 2}]


@pytest.mark.long
@pytest.mark.parametrize("first", [True, False], ids=["first version", "later version"])
def test_a_flip_killed_between_its_two_commits_is_finished_by_the_next(first, repo, store, make, consumer):
    if not first:
        make.publish(store, make.state(1))
    state = make.state(1 if first else 2)
    store.stage(state)

    def killed() -> None:
        from feast import FeatureView
        from feast.infra.registry.sql import SqlRegistry

        commit = SqlRegistry._apply_object

        def die(self, table, project, id_field_name, obj, *args, **kwargs):
            if isinstance(obj, FeatureView) and obj.name == VIEW:
                os.kill(os.getpid(), signal.SIGKILL)
            return commit(self, table, project, id_field_name, obj, *args, **kwargs)

        SqlRegistry._apply_object = die
        FeastFeatureStore(repo).flip(state)

    assert make.in_child(killed) == -signal.SIGKILL
    if first:
        assert (
            consumer.error("online", repo=str(repo), features=FEATURES, rows=[{"hour": 8}])
            == "FeatureViewNotFoundException"
        )
    else:
        assert consumer("online", repo=str(repo), features=FEATURES, rows=[{"hour": 8}])["value"] == [1.0]
    assert store.look_up([f"{VIEW}@v{state.version}:value"], [{"hour": 8}]) == [
        {"value": float(state.version)}
    ]
    told = store.look_up(["ptk_state:version"], [{"ptk": PTK}])
    assert told == [{"version": None if first else 1}]
    store.flip(state)
    assert consumer("online", repo=str(repo), features=FEATURES, rows=[{"hour": 8}])["value"] == [
        float(state.version)
    ]
    assert store.look_up(["ptk_state:version"], [{"ptk": PTK}]) == [{"version": state.version}]
    make.publish(store, make.state(state.version + 1))
    assert store.look_up(FEATURES[1:], [{"hour": 8}]) == [{"ptk_version": state.version + 1}]


ROWS = [{"hour": hour, "a": 1.0} for hour in range(24)]
COMPUTED = [f"{VIEW}__computed:p_0", f"{VIEW}__computed:computed_version"]


# Readers refresh by themselves; between that and the read, their copies must not run out, or Feast as it is may answer
# from the copy before.
@pytest.mark.long
@pytest.mark.parametrize("cache_ttl_seconds", [600], indirect=True)
def test_readers_never_see_two_versions_in_one_answer(repo, store, make, reader, tmp_path):
    make.publish(store, telling(make.state(1)))
    stop = tmp_path / "stop"
    asked = [*FEATURES, *COMPUTED]
    reader.send("hammer", repo=str(repo), features=asked, rows=ROWS, until=str(stop), refresh_every=3)
    while not stop.with_suffix(".begun").exists():
        assert reader.process.poll() is None
    for version in range(2, 19):
        make.publish(store, telling(make.state(version)))
    stop.touch()
    answer = reader.receive()["answer"]
    assert answer["mixed"] == 0
    assert None not in answer["seen"]
    assert len(answer["seen"]) >= 5
    assert store.look_up(FEATURES[1:], [{"hour": 8}]) == [{"ptk_version": 18}]


@pytest.mark.soak
@pytest.mark.parametrize("cache_ttl_seconds", [5], indirect=True)
def test_readers_see_no_mixed_version_in_a_hundred_publishes(repo, store, make, reader, tmp_path, measured):
    declared = serving_of({"serve": {"defaults": {"value": -1.0}}}, {"statistics": [("value", "double")]})

    def state(version: int):
        return replace(telling(make.state(version)), serving=declared)

    make.publish(store, state(1))
    stop = tmp_path / "stop"
    asked = [*FEATURES, *COMPUTED, f"{VIEW}__filled:value_filled", f"{VIEW}__filled:filled_version"]
    reader.send("hammer", repo=str(repo), features=asked, rows=ROWS, until=str(stop), refresh_every=1)
    ended, seen = threading.Event(), []

    def look_up_without_a_pause() -> None:
        while not ended.is_set():
            seen.append({row["ptk_version"] for row in store.look_up(FEATURES, ROWS)})

    thread = threading.Thread(target=look_up_without_a_pause)
    thread.start()
    try:
        while not stop.with_suffix(".begun").exists():
            assert reader.process.poll() is None
            ended.wait(0.05)
        publisher = FeastFeatureStore(repo)
        for version in range(2, 102):
            make.publish(publisher, state(version))
        publisher.close()
    finally:
        stop.touch()
        ended.set()
        thread.join()
    answer = reader.receive()["answer"]
    mixed = answer["mixed"] + sum(len(versions) != 1 for versions in seen)
    pair = repo_pair(repo)
    measured(
        id=f"feast/mixed/{pair}",
        measure=f"mixed answers on {pair} in {answer['reads'] + len(seen)} reads during 100 publishes",
        unit="answers",
        ours=mixed,
        goal=0,
        direction="min",
    )
    assert mixed == 0
    versions = [versions.pop() for versions in seen]
    assert versions == sorted(versions)  # nobody goes back to an older one
    assert store.look_up(FEATURES[1:], [{"hour": 8}]) == [{"ptk_version": 101}]


def repo_pair(repo: Path) -> str:
    """Registry and online store of a repository."""
    text = (repo / "feature_store.yaml").read_text()
    online = "packed" if "packed" in text else "redis" if '"redis"' in text else "sqlite"
    return f"{'postgres' if 'postgresql' in text else 'sqlite'}+{online}"


@pytest.mark.long
@pytest.mark.parametrize("repo", FEASTS_OWN, indirect=True)
def test_many_processes_publish_at_once(repo, make):
    """From an empty registry on, so that they also race for its tables; two of them publish the same PTK."""
    ids = ["taxi.a", "taxi.b", "ads.a", "ads.a"]
    context = get_context("fork")

    def work(ptk_id: str) -> None:
        feature_store = FeastFeatureStore(repo)
        make.publish(feature_store, *(make.state(version, ptk_id=ptk_id) for version in range(1, 5)))

    children = [context.Process(target=work, args=(ptk_id,)) for ptk_id in ids]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0] * len(ids)
    feature_store = FeastFeatureStore(repo)
    for ptk_id in set(ids):
        view = ptk_id.replace(".", "__")
        assert feature_store.look_up([f"{view}:ptk_version", f"{view}:value"], [{"hour": 3}]) == [
            {"ptk_version": 4, "value": 4.0}
        ]
        assert feature_store.look_up(["ptk_state:version"], [{"ptk": ptk_id}]) == [{"version": 4}]
    feature_store.close()


def test_a_rollback_is_what_joins_in_time_answer_from_then_on(repo, store, make, consumer):
    """Version 3 repeats version 1 and takes effect where version 2 did, which it replaces."""
    old, bad = make.state(1, hours=(7, 8)), make.state(2, hours=(7, 9))
    make.publish(store, old, bad)
    again = replace(old, version=3, as_of=bad.as_of, published_at=bad.published_at, sha256="3" * 64)
    make.publish(store, again)
    rows = [{"hour": hour} for hour in (7, 8, 9)]
    online = consumer("online", repo=str(repo), features=FEATURES, rows=rows)
    assert (online["value"], online["ptk_version"]) == ([1.0, 1.0, None], [3, 3, None])
    assert [row["value"] for row in store.look_up([f"{VIEW}@v2:value"], rows)] == [2.0, None, 2.0]
    asked = [{"hour": h, "event_timestamp": make.day(d).isoformat()} for h in (7, 8, 9) for d in (1.5, 2.5)]
    history = consumer("historical", repo=str(repo), features=FEATURES, rows=asked)
    assert [row["value"] for row in history] == [1.0, 1.0, 1.0, 1.0, None, None]
    told = store.look_up(["ptk_state:version", "ptk_state:window_end"], [{"ptk": PTK}])
    assert told == [{"version": 3, "window_end": make.day(1)}]


@pytest.mark.parametrize("repo", FEASTS_OWN, indirect=True)
def test_the_write_lock_is_exclusive_and_ends_with_a_killed_holder(repo, store, make, tmp_path):
    make.publish(store, make.state(1))  # opened: from here on only the lock can make it wait
    holding = tmp_path / "holding"

    def hold() -> None:
        with FeastFeatureStore(repo)._sessions.use() as session, session.database.exclusive():
            holding.touch()
            signal.pause()

    child = get_context("fork").Process(target=hold)
    child.start()
    while not holding.exists():
        assert child.is_alive()
    taken = threading.Event()

    def take() -> None:
        with store._sessions.use() as session, session.database.exclusive():
            taken.set()

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    taken_too_early = taken.wait(0.5)
    child.kill()
    assert taken.wait(20)
    assert not taken_too_early
    thread.join(20)
    child.join(20)


@pytest.mark.parametrize("repo", FEASTS_OWN, indirect=True)
def test_a_forked_worker_opens_connections_of_its_own(store, make):
    make.publish(store, make.state(1))
    with store._sessions.use() as session:
        ours = session

    def work() -> None:
        make.publish(store, make.state(2))
        with store._sessions.use() as session:
            assert session is not ours

    assert make.in_child(work) == 0
    make.publish(store, make.state(3))
    assert store.look_up(FEATURES, [{"hour": 8}]) == [{"value": 3.0, "ptk_version": 3}]


@pytest.mark.long
def test_a_withdrawn_ptk_leaves_nothing_and_its_name_can_begin_again(repo, store, make, consumer):
    make.publish(store, make.state(1), make.state(2), make.state(1, ptk_id="taxi.speed_by_hour_2"))
    store.stage(make.state(3))
    store.withdraw(PTK)
    store.withdraw(PTK)
    for reference in (FEATURES[0], f"{VIEW}@v1:value"):
        with pytest.raises(UnknownName):
            store.look_up([reference], [{"hour": 8}])
    assert store.look_up(["ptk_state:version"], [{"ptk": PTK}]) == [{"version": None}]
    assert store.look_up([f"{VIEW}_2:value"], [{"hour": 8}]) == [{"value": 1.0}]
    assert sorted(path.name for path in (repo / "history").iterdir()) == ["ptk_state", f"{VIEW}_2"]
    make.publish(store, make.state(1, hours=(8,)))
    rows = [{"hour": 7}, {"hour": 8}]
    assert consumer("online", repo=str(repo), features=FEATURES, rows=rows)["value"] == [None, 1.0]
    assert store.look_up(["ptk_state:version"], [{"ptk": PTK}]) == [{"version": 1}]


@pytest.mark.long
def test_a_withdrawn_ptk_that_comes_back_is_joined_in_time_with_all_its_versions(store, make, consumer, repo):
    states = [make.state(version) for version in range(1, 4)]
    make.publish(store, *states)
    store.withdraw(PTK)
    for _ in range(2):  # a crash in between leaves nothing to mend
        store.stage(states[2], earlier=iter(states[:2]))
    store.flip(states[2])
    assert store.look_up(FEATURES, [{"hour": 8}]) == [{"value": 3.0, "ptk_version": 3}]
    with pytest.raises(UnknownName):
        store.look_up([f"{VIEW}@v2:value"], [{"hour": 8}])
    assert store._history.ends(VIEW, 3) == {number: make.day(number) for number in (1, 2, 3)}

    def unread():
        raise AssertionError("a version is served")
        yield

    store.stage(make.state(4), earlier=unread())
    store.flip(make.state(4))
    rows = [{"hour": 8, "event_timestamp": make.day(day + 0.1).isoformat()} for day in range(5)]
    found = consumer("historical", repo=str(repo), features=FEATURES[:1], rows=rows)
    assert [row["value"] for row in found] == [None, 1.0, 2.0, 3.0, 4.0]


@pytest.mark.long
@pytest.mark.parametrize("cache_ttl_seconds", [60], indirect=True)
def test_versions_beyond_the_kept_ones_go_once_no_reader_can_name_them(repo, store, make, online_names):
    make.publish(store, *(make.state(version) for version in range(1, 7)))
    assert online_names(repo, VIEW) == {
        1,
        2,
        3,
        4,
        5,
        6,
    }  # just superseded: a reader's cache may name any of them
    age(repo, store)
    make.publish(store, make.state(7))
    with pytest.raises(UnknownName):
        store.look_up([f"{VIEW}@v4:value"], [{"hour": 8}])
    assert online_names(repo, VIEW) == {1, 2, 3, 4, 5, 6, 7}  # a reader may have resolved v4 a moment ago
    age(repo, store)
    make.publish(store, make.state(8))
    assert online_names(repo, VIEW) == {5, 6, 7, 8}
    assert store.look_up([f"{VIEW}@v6:value"], [{"hour": 8}]) == [{"value": 6.0}]
    assert sorted(path.name for path in (repo / "history" / VIEW).iterdir()) == [
        f"v{version:08d}.parquet" for version in (5, 6, 7, 8)
    ]


def test_older_versions_stay_for_the_configured_time(light_repo, make, online_names):
    store = FeastFeatureStore(light_repo, keep_versions=1, keep_seconds=5_000)
    make.publish(store, make.state(1), make.state(2))
    age(light_repo, store)  # an hour
    make.publish(store, make.state(3))
    assert store.look_up([f"{VIEW}@v1:value"], [{"hour": 8}]) == [{"value": 1.0}]
    age(light_repo, store)  # two hours since version 2 came
    make.publish(store, make.state(4))
    with pytest.raises(UnknownName):
        store.look_up([f"{VIEW}@v1:value"], [{"hour": 8}])
    assert store.look_up([f"{VIEW}@v2:value"], [{"hour": 8}]) == [{"value": 2.0}]  # one hour since version 3
    age(light_repo, store)
    make.publish(store, make.state(5))
    assert online_names(light_repo, VIEW) == {2, 3, 4, 5}  # 1 is gone; 2 was forgotten just now
    store.close()


def damage(repo: Path, *versions: int) -> None:
    for version in versions:
        for part in (repo / "history" / VIEW / f"v{version:08d}.parquet").iterdir():
            part.write_bytes(part.read_bytes()[:50])


@pytest.mark.long
@pytest.mark.parametrize("damaged", [(1,), (2,), (1, 2)])
def test_a_damaged_history_does_not_hold_up_a_withdrawal(repo, store, make, filled, online_names, damaged):
    declared = {"defaults": {"n": 1}}
    make.publish(store, filled(1, declared, hours=(7, 8)), filled(2, declared, hours=(7, 8)))
    damage(repo, *damaged)
    store.withdraw(PTK)
    assert not (repo / "history" / VIEW).exists()
    with pytest.raises(UnknownName):
        store.look_up(FEATURES, [{"hour": 8}])
    with store._sessions.use() as session:
        feasts_redis = session.config.online_store.type == "redis"
    # Feast's own Redis has no list of a version's keys; they are known from an intact one alone.
    assert online_names(repo, VIEW) == ({1, 2} if feasts_redis and len(damaged) == 2 else set())


@pytest.mark.parametrize("repo", ["sqlite+redis"], indirect=True)
@pytest.mark.parametrize("key", ["zone", "hour"])
def test_a_damaged_version_goes_by_all_columns_and_join_keys_of_the_others(
    repo, store, make, online_names, key
):
    wide = pa.table({"zone": ["a", "b"], "value": [1.0, 2.0], "more": [3, 4]})
    narrow = wide.select(["zone", "value"]).rename_columns([key, "value"])
    for version, join_key, rows in ((1, "zone", wide), (2, "zone", wide), (3, key, narrow)):
        make.publish(store, make.state(version, tables={"t": rows}, keys={"t": (join_key,)}))
    damage(repo, 2)
    store.withdraw(PTK)
    assert online_names(repo, VIEW) == set()
    with store._sessions.use() as session:
        left = session.online._get_client(session.config.online_store).keys("*")
    assert [row for row in left if PTK.encode() not in row] == []  # what `ptk_state` told is another matter


def test_a_flip_that_prunes_a_damaged_version_goes_through(repo, make, online_names):
    store = FeastFeatureStore(repo, keep_versions=1)
    make.publish(store, make.state(1), make.state(2, hours=(8,)))
    age(repo, store)
    make.publish(store, make.state(3, hours=(8,)))  # 1 is forgotten now, and its rows go at a later flip
    age(repo, store)
    damage(repo, 1)
    make.publish(store, make.state(4, hours=(8,)))
    assert store.look_up(FEATURES, [{"hour": 8}]) == [{"value": 4.0, "ptk_version": 4}]
    assert 1 not in online_names(repo, VIEW)
    assert not (repo / "history" / VIEW / "v00000001.parquet").exists()
    store.close()


def test_a_version_that_cannot_be_deleted_now_waits_for_the_next_flip(light_repo, make, monkeypatch):
    def refuse(*_: object) -> None:
        raise Unavailable("the history cannot be written (EIO)")

    store = FeastFeatureStore(light_repo, keep_versions=1)
    make.publish(store, make.state(1), make.state(2))
    age(light_repo, store)
    make.publish(store, make.state(3))
    age(light_repo, store)
    old = light_repo / "history" / VIEW / "v00000001.parquet"
    with monkeypatch.context() as patched:
        patched.setattr("ptkstore.adapters.feast.publishing.history.remove", refuse)
        make.publish(store, make.state(4))
    assert old.exists()
    assert store.look_up(["ptk_state:version"], [{"ptk": PTK}]) == [{"version": 4}]
    make.publish(store, make.state(5))
    assert not old.exists()
    store.close()


@pytest.fixture
def online_names():
    """The versions of a view that have rows online."""

    def names(repo: Path, view: str) -> set[int]:
        from feast import FeatureStore

        plain = FeatureStore(repo_path=str(repo))
        online = plain.provider.online_store
        if plain.config.online_store.type == "sqlite":
            query = "SELECT name FROM sqlite_master WHERE type = 'table'"
            found = [row[0] for row in online._get_conn(plain.config).execute(query)]  # type: ignore[attr-defined]
            marks = [name.removeprefix("ptk_") for name in found]
        else:
            client = online._get_client(plain.config.online_store)  # type: ignore[attr-defined]
            if plain.config.online_store.type != "redis":
                found = [key.decode() for key in client.scan_iter(b"ptk/*")]
                return {
                    int(name.removeprefix(f"ptk/{view}_v"))
                    for name in found
                    if name.startswith(f"ptk/{view}_v")
                }
            fields = [field for key in client.scan_iter(b"*ptk") for field in client.hkeys(key)]
            marks = [field[4:].decode() for field in fields if field.startswith(b"_ts:")]
        return {int(name.removeprefix(f"{view}_v")) for name in marks if name.startswith(f"{view}_v")}

    return names


def test_dropping_a_version_spares_other_views_of_the_same_key(store, make):
    """Views with one join key share a hash in Redis."""
    make.publish(store, make.state(1), make.state(1, ptk_id="taxi.other"))
    store.withdraw("taxi.other")
    assert store.look_up(FEATURES, [{"hour": 8}]) == [{"value": 1.0, "ptk_version": 1}]


def test_several_tables_flip_as_one_version_told_last(repo, store, make):
    def tables(version: int, *names: str) -> dict[str, pa.Table]:
        return {name: pa.table({"k": ["x"], "value": [float(version)]}) for name in names}

    def state(version: int, *names: str):
        return make.state(version, tables=tables(version, *names), keys=dict.fromkeys(names, ("k",)))

    make.publish(store, state(1, "means", "counts"))
    both = [f"{VIEW}__means:value", f"{VIEW}__counts:ptk_version"]
    assert store.look_up(both, [{"k": "x"}]) == [{"value": 1.0, "ptk_version": 1}]
    make.publish(store, state(2, "means", "spread"))
    assert store.look_up([f"{VIEW}__spread:value"], [{"k": "x"}]) == [{"value": 2.0}]
    with pytest.raises(UnknownName):  # or it would serve version 1 for ever
        store.look_up([f"{VIEW}__counts:value"], [{"k": "x"}])
    assert store.look_up(["ptk_state:version"], [{"ptk": PTK}]) == [{"version": 2}]


def test_rows_lost_online_come_back_with_a_second_publication(store, make, repo):
    make.publish(store, make.state(1))
    with store._sessions.use() as session:
        pass
    if session.config.online_store.type == "sqlite":
        connection = session.online._get_conn(session.config)
        connection.execute(f'DROP TABLE "ptk_{VIEW}_v1"')
    else:
        session.online._get_client(session.config.online_store).flushall()
    make.publish(store, make.state(1))
    assert store.look_up(FEATURES, [{"hour": 8}]) == [{"value": 1.0, "ptk_version": 1}]
    assert store.look_up(["ptk_state:version"], [{"ptk": PTK}]) == [{"version": 1}]
