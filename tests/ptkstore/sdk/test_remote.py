"""One suite for the store in its home and the same store behind HTTP: same answers, same errors."""

from __future__ import annotations

import json
import re
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx
import pandas as pd
import pyarrow as pa
import pytest

from ptkstore import check_report, connect, featurize
from ptkstore import errors as e
from ptkstore.application.profiling.read_profile import ProfileView
from ptkstore.application.versions.trace_window import Descendant
from ptkstore.domain.accounting.accountants import Accountant
from ptkstore.domain.accounting.assurances import Assurance, Assured
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.accounting.sharing import Sharing
from ptkstore.domain.identity import Role
from ptkstore.domain.ptks.profiles import Paid, Point, Verdict
from ptkstore.domain.scheduling.choices import Mode, Scheduler, ServedFirst, Significance
from ptkstore.domain.streams.blocks import BlockRange
from ptkstore.domain.streams.policies import Closing, Policy, PrivacyUnit
from ptkstore.domain.streams.schemas import ColumnType, Schema
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.subscriptions import DeadLetter
from ptkstore.sdk import Repository, Store
from ptkstore.sdk.documents.profiles import profile_document, profile_of
from ptkstore.sdk.documents.resources import asked_document, stream_document, stream_of
from ptkstore.sdk.remote import transport
from ptkstore.sdk.remote.errors import BY_CODE, error_of
from ptkstore.sdk.remote.transport import Transport
from ptkstore.wire.ptks import ProfileOut
from ptkstore.wire.streams import StreamIn, StreamOut
from tests.support.api_server import Api
from tests.support.cases import case
from tests.support.device_streams import device_policy
from tests.support.speeds import speeds
from tests.support.world import DAY, ORIGIN, STREAM, World, speed, trips

SCHEMA = {"at": "timestamp", "hour": "int64"}


def create(store: Store, **changes: Any) -> None:
    base = {"team": "taxi", "schema": SCHEMA, "time_column": "at", "epsilon": 1.0, "origin": ORIGIN}
    store.create_stream("taxi", **{**base, **changes})


def refusals(*acts: Callable[[], object]) -> list[type[Exception]]:
    """The kind of error that each of them ends with, as the taxonomy knows it."""
    found = []
    for act in acts:
        with pytest.raises(e.PtkStoreError) as error:
            act()
        found.append(next(kind for kind in type(error.value).__mro__ if kind.__module__ == e.__name__))
    return found


# streams


def test_a_stream_comes_back_as_it_was_created(store: Store, world: World) -> None:
    create(store, delta=1e-9, accountant="basic", retention=3, lateness="1h", closing="operator")
    create(store, delta=1e-9, accountant="basic", retention=3, lateness="1h", closing="operator")
    assert store.service.streams() == world.service.streams()
    (made,) = world.service.streams()
    assert (made.policy.capacity, made.policy.origin) == (Loss.capacity(1, 1e-9), ORIGIN)
    assert refusals(
        lambda: create(store, epsilon=2.0),
        lambda: create(store, epsilon=11),
        lambda: create(store, closing="never"),
        lambda: create(store, schema={"at": "date"}),
    ) == [e.NameTaken, e.InvalidRequest, e.InvalidRequest, e.InvalidRequest]


def test_a_stream_that_exists_says_in_what_another_differs(store: Store, world: World) -> None:
    create(store)
    with pytest.raises(e.NameTaken) as told:
        create(store, epsilon=2.0, retention=3, schema={"at": "timestamp", "hour": "string"})
    assert str(told.value) == (
        "stream 'taxi' exists with another schema or policy, both fixed at creation: column 'hour' is int64, not "
        "string; epsilon is 1, not 2; retention is 1, not 3"
    )


def test_nothing_is_told_of_the_stream_of_another_team(api: Api, world: World) -> None:
    theirs = world.stream("bikes", 3)
    with connect(api.url, token=api.token(*Role, team="bikes")) as store, pytest.raises(e.NameTaken) as told:
        store.create_stream(
            theirs.name, team="bikes", schema=SCHEMA, time_column="at", epsilon=1.0, origin=ORIGIN
        )
    assert str(told.value) == "stream 'bikes' exists and belongs to another team; choose another name"


def test_a_stream_grows_by_columns_with_defaults(store: Store, world: World) -> None:
    create(store)
    assert store.evolve_stream(STREAM, add_column="tip", type="float64", default=0) == 2
    assert store.evolve_stream(STREAM, add_column="fleet", type="string", default="none") == 3
    assert store.evolve_stream(STREAM, add_column="tip", type="float64", default=0.0) == 3
    assert store.service.streams() == world.service.streams()
    create(store)  # as it was: nothing to do
    frame = pd.DataFrame({"at": pd.to_datetime(["2026-01-05 12:00"]), "hour": [1]})
    assert store.ingest(STREAM, frame).accepted == 1
    assert store.ingest(STREAM, frame.assign(tip=1.5, fleet=None)).accepted == 1
    assert refusals(
        lambda: store.evolve_stream(STREAM, add_column="tip", type="float64", default=1.0),
        lambda: store.evolve_stream(STREAM, add_column="hour", type="int64", default=1),
        lambda: store.evolve_stream(STREAM, add_column="n", type="int64", default="x"),
        lambda: store.evolve_stream(STREAM, add_column="n", type="date", default="x"),
        lambda: store.evolve_stream("bikes", add_column="n", type="int64", default=1),
        lambda: store.ingest(STREAM, frame.drop(columns="hour")),
        lambda: store.ingest(STREAM, frame.assign(other=1)),
    ) == [*[e.InvalidRequest] * 4, e.UnknownName, e.SchemaMismatch, e.SchemaMismatch]


def test_a_batch_is_stored_once_and_its_producer_told_why_rows_were_refused(
    store: Store, world: World
) -> None:
    create(store)
    frame = pd.DataFrame({"at": pd.to_datetime(["2026-01-05 12:00", None]), "hour": [1, 2]})
    first, second = store.ingest(STREAM, frame, "b1"), store.ingest(STREAM, frame, "b1")
    assert (first.accepted, first.refused, first.repeated) == (1, {"time-missing": 1}, False)
    assert (second.accepted, second.refused, second.repeated) == (0, {}, True)
    with world.service.begin() as uow:
        assert uow.streams.stored_part(STREAM, "b1") == (1, 1)


def test_a_frame_with_categories_is_taken(store: Store, world: World) -> None:
    world.stream()
    frame = trips([0.1, 0.2]).to_pandas()
    frame["zone"] = frame["zone"].astype("category")
    assert store.ingest(STREAM, frame).accepted == 2


def test_what_does_not_fit_a_stream_is_refused(store: Store, world: World) -> None:
    create(store)
    assert refusals(
        lambda: store.ingest("bikes", pa.table({"at": [1]})),
        lambda: store.ingest(STREAM, pa.table({"hour": [1]})),
        lambda: store.ingest(STREAM, pa.table({"at": ["x"], "hour": [1]})),
        lambda: store.ingest(STREAM, trips(), "a\nb"),
    ) == [e.UnknownName, e.SchemaMismatch, e.SchemaMismatch, e.InvalidRequest]


def test_windows_are_closed_until_a_time(store: Store, world: World) -> None:
    create(store, closing="operator", retention=3)
    assert store.close_windows(STREAM, ORIGIN + 2 * DAY) == 2
    assert store.close_windows(STREAM, "2026-01-07") == 0
    assert refusals(
        lambda: store.close_windows(STREAM),
        lambda: store.close_windows(STREAM, "soon"),
        lambda: store.close_windows(STREAM, "2100-01-01"),
        lambda: store.close_windows("bikes", ORIGIN),
    ) == [e.InvalidRequest, e.InvalidRequest, e.InvalidRequest, e.UnknownName]


def test_a_user_is_forgotten_where_the_unit_is_the_user(store: Store, world: World) -> None:
    create(store, privacy_unit="user-in-window", unit_column="hour")
    store.ingest(STREAM, pa.table({"at": pa.array([ORIGIN], pa.timestamp("us", "UTC")), "hour": [7]}))
    store.forget(STREAM, 7)
    store.forget(STREAM, 8)
    assert refusals(lambda: store.forget(STREAM, "seven")) == [e.InvalidRequest]
    assert refusals(lambda: store.forget("bikes", 7)) == [e.UnknownName]


# PTKs


def test_a_ptk_is_registered_changed_and_deregistered(store: Store, world: World) -> None:
    world.stream()
    ptk_id = store.register_ptk(speeds().estimator, name="speed", stream=STREAM, target=0.1)
    store.update_ptk_config(ptk_id, {"epsilon": 0.2})
    store.update_ptk_performance_target(ptk_id, 0.3)
    (spec,) = store.service.ptks()
    assert (spec,) == world.service.ptks()
    assert (spec.loss, spec.target) == (Loss.charge(0.2), 0.3)
    assert refusals(
        lambda: store.register_ptk(speeds().estimator, name="speed", stream=STREAM, target=0.1),
        lambda: store.register_ptk(speeds().estimator, name="Speed", stream=STREAM, target=0.1),
        lambda: store.register_ptk(speeds().estimator, name="two", stream="bikes", target=0.1),
        lambda: store.register_ptk(speeds(epsilon=0.9).estimator, name="two", stream=STREAM, target=0.1),
        lambda: store.update_ptk_config(ptk_id, {"colour": "red"}),
        lambda: store.update_ptk_performance_target("taxi.other", 1.0),
    ) == [
        e.NameTaken,
        e.InvalidRequest,
        e.UnknownName,
        e.PtkRejected,
        e.InvalidRequest,
        e.UnknownName,
    ]
    store.deregister_ptk(ptk_id)
    assert store.service.ptks() == ()
    assert refusals(lambda: store.deregister_ptk(ptk_id)) == [e.Deregistered]


@pytest.mark.parametrize("name", ["speed/versions", "speed/", "/", "..", "."])
def test_a_name_with_a_slash_is_refused_in_words_and_names_nothing(
    store: Store, world: World, name: str
) -> None:
    world.stream()
    world.register()
    ptk = replace(speeds(), name=name)
    for register in (
        lambda: store.register_ptk(ptk.estimator, name=name, stream=STREAM, target=0.1),
        lambda: store.apply(Repository("taxi", (ptk,))),
    ):
        with pytest.raises(
            e.InvalidRequest, match=re.escape(f"PTK name {name!r} must match [a-z][a-z0-9_]*")
        ):
            register()
    for kind, text, read in (
        ("PTK", f"taxi.{name}", store.service.ptk),
        ("PTK", name, store.service.ptk),
        ("stream", f"{STREAM}/budget", store.service.stream),
        ("stream", name, store.service.stream),
    ):
        with pytest.raises(e.UnknownName, match=re.escape(f"there is no {kind} {text!r}")):
            read(text)


def test_how_a_ptk_is_profiled_and_planned_with_is_told(store: Store, world: World) -> None:
    world.stream(rows_per_window=4_800, profile_share=Decimal("0.5"))
    declared = store.register_ptk(speeds().estimator, name="speed", stream=STREAM, target=0.1)
    config = {"epsilons": [0.05, 0.1], "profile": {"drift": 0.01}}
    sampled = store.register_ptk(speeds().estimator, name="sampled", stream=STREAM, target=0.3, config=config)
    assert store.profile(declared)["method"] == "declared"
    assert store.profile(sampled)["method"] == "samples"
    for ptk_id in (declared, sampled):
        assert store.service.profile(ptk_id) == world.service.profile(ptk_id)
    assert store.service.ptks() == world.service.ptks()
    assert {spec.ptk_id: spec.profile is None for spec in store.service.ptks()} == {
        declared: True,
        sampled: False,
    }
    assert refusals(lambda: store.profile("taxi.other"), lambda: store.profile("x")) == [
        e.UnknownName,
        e.InvalidRequest,
    ]


def test_nothing_of_a_profile_is_lost_on_the_way() -> None:
    view = ProfileView(
        method="samples",
        menu=((0.5, 100), (1.0, 50)),
        state="answered",
        number=2,
        asked_at=3,
        age=1,
        max_age=30,
        drifted_at=4,
        tries=2,
        most_tries=5,
        target=0.25,
        evaluation="loss",
        drift_epsilon=0.01,
        points=(Point(0.5, Verdict.FOUND, 50), Point(1.0, Verdict.NEEDS_MORE, 70)),
        paid=(Paid("profile", 3, BlockRange(9, 10), Loss.charge(0.1)),),
        advice="take a larger target",
        assured=Assured(Assurance.ASSERTED, "taxi"),
    )
    assert profile_of(json.loads(json.dumps(profile_document(view)))) == view
    assert ProfileOut(**profile_document(view)).model_dump(mode="json") == profile_document(view)


def test_a_repository_is_planned_and_applied(store: Store, world: World) -> None:
    world.stream()
    team = Repository("taxi", (speeds(), speeds("fast", 0.2)))
    planned = store.plan(team, audit=False)
    assert [(c.action, c.ptk_id) for c in planned] == [("register", "taxi.speed"), ("register", "taxi.fast")]
    assert store.apply(team) == tuple(replace(c, checks=None, reason="", room=None) for c in planned)
    assert [c.action for c in store.apply(team)] == ["keep", "keep"]
    changed = Repository("taxi", (speeds(), replace(speeds("fast", 0.3), description="new")))
    assert [c.action for c in store.apply(changed)] == ["keep", "update"]
    assert [c.action for c in store.plan(changed)] == ["keep", "keep"]
    slower = Repository("taxi", (speeds(every="2d"),))
    assert [c.refused for c in store.plan(slower)] == ["invalid-request"]
    assert refusals(lambda: store.apply(slower)) == [e.InvalidRequest]


def test_a_published_state_is_had_verified_and_applied(store: Store, world: World) -> None:
    world.stream()
    world.register()
    world.publish(0)
    world.publish(1)
    newest = store.ptk("taxi.speed")
    embedded = Store(world.service).ptk("taxi.speed")
    assert (newest.version, newest.tau, newest.config) == (2, 0.1, embedded.config)
    assert newest.guarantee == embedded.guarantee
    assert newest.model_state.tables == embedded.model_state.tables
    (table,) = featurize([trips([0.1])], [newest])
    assert "taxi__speed__speed_mean" in table.column_names
    assert [v.number for v in store.service.versions("taxi.speed")] == [1, 2]
    assert store.service.versions("taxi.speed")[0].sha256 == world.service.versions("taxi.speed")[0].sha256
    assert refusals(
        lambda: store.ptk("taxi.speed", 3), lambda: store.ptk("taxi.other"), lambda: store.ptk("../x")
    ) == [e.UnknownName, e.UnknownName, e.InvalidRequest]


def test_a_version_is_compared_and_published_again(store: Store, world: World) -> None:
    world.stream()
    world.register()
    world.publish(0)
    world.publish(1)
    diff = store.diff("taxi.speed", 1, 2)
    assert diff == Store(world.service).diff("taxi.speed", 1, 2)
    assert diff.tables
    assert store.lineage("taxi.speed") == Store(world.service).lineage("taxi.speed")
    assert [one.version for one in store.lineage("taxi.speed", 1)] == [1]
    assert store.rollback("taxi.speed", 1) == 3
    assert store.rollback("taxi.speed", 1) == 3
    assert (
        refusals(
            lambda: store.rollback("taxi.speed", 9),
            lambda: store.rollback("taxi.other", 1),
            lambda: store.diff("taxi.speed", 1, 9),
            lambda: store.lineage("taxi.speed", 9),
        )
        == [e.UnknownName] * 4
    )


@pytest.mark.long
def test_lost_rows_are_told_and_written_again(store: Store, world: World) -> None:
    world.stream()
    world.register()
    assert refusals(lambda: store.materialize("taxi.speed"), lambda: store.materialize("x")) == [
        e.UnknownName,
        e.InvalidRequest,
    ]
    world.publish(0)
    del world.service.__dict__["features"]  # Feast itself, from here on
    assert store.materialize("taxi.speed") == 1
    world.work("flip")
    asked = ["taxi__speed:speed_mean"], [{"hour": 99}]
    assert store.look_up(*asked) == [{"speed_mean": None}]
    online = world.service.settings.root / "feast" / "online.db"
    with closing(sqlite3.connect(online)) as file:
        file.execute("DROP TABLE ptk_ptk_state")
        file.commit()
    with pytest.raises(e.RowsLost, match="ptk materialize"):
        store.look_up(*asked)
    assert store.materialize("taxi.speed") == 1
    world.work("flip")
    assert store.look_up(*asked) == [{"speed_mean": None}]


def test_a_window_is_traced_to_the_versions_that_its_rows_went_into(store: Store, world: World) -> None:
    world.stream(retention_windows=20)
    world.register(epsilon=0.001)
    world.service.register_ptk(
        team="ads", name="speed", stream=STREAM, estimator=speed(0.001), target=0.1, train_frequency="1d"
    )
    for day in range(3):
        world.publish(day)
    store.rollback("taxi.speed", 1)
    world.work("place", "flip")
    store.service.deregister_ptk("taxi.speed")
    found = store.lineage_of_window(STREAM, 1)
    assert found == Store(world.service).lineage_of_window(STREAM, 1)
    assert [(one.ptk_id, one.version, one.newest) for one in found] == [
        ("ads.speed", 2, False),
        ("ads.speed", 3, True),
        ("taxi.speed", 2, False),
        ("taxi.speed", 3, False),
    ]
    assert store.lineage_of_window(STREAM, 0)[-1] == Descendant(
        "taxi.speed",
        4,
        (ORIGIN + DAY).isoformat(),
        "rolled-back",
        ("taxi.speed v1",),
        newest=True,
        assured=Assured(Assurance.LIBRARY),
    )
    assert refusals(
        lambda: store.lineage_of_window("bikes", 0),
        lambda: store.lineage_of_window(STREAM, 3),
        lambda: store.lineage_of_window(STREAM, 10**18 - 1),
        lambda: store.lineage_of_window("taxi.speed", 0),
        lambda: store.lineage_of_window("../x", 0),
        lambda: store.lineage_of_window(STREAM, -1),
        lambda: store.lineage_of_window(STREAM, 10**18),
        lambda: store.lineage_of_window(STREAM, True),
        lambda: store.lineage_of_window(STREAM, "1"),  # type: ignore[arg-type]
    ) == [*[e.UnknownName] * 3, *[e.InvalidRequest] * 6]


def test_dead_letters_are_counted_in_a_list_and_told_of_one_subscription(store: Store, world: World) -> None:
    world.stream()
    world.register()
    made = store.subscribe_to_ptk("taxi.speed", "http://127.0.0.1:9/hook")
    with world.service.begin() as uow:
        for number in (2, 3):
            uow.subscriptions.add_dead_letter(DeadLetter(made.id, number, "timeout", world.clock.now()))
        uow.commit()
    (one,) = store.subscriptions("taxi.speed")
    told = store.deliveries(made.id)
    assert (one["missed"], told["missed"]) == (2, 2)
    assert "dead_letters" not in one
    assert [letter["version"] for letter in told["dead_letters"]] == [2, 3]
    (read,) = store._service.subscriptions("taxi.speed")
    assert (read.missed, read.dead_letters) == (2, ())  # none is made up


def test_dead_letters_and_subscriptions_are_read_to_their_end(
    store: Store, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "PAGE", 3)
    world.stream()
    world.register()
    made = [store.subscribe_to_ptk("taxi.speed", f"redis-stream:s{n}").id for n in range(7)]
    with world.service.begin() as uow:
        for number in range(1, 8):
            uow.subscriptions.add_dead_letter(DeadLetter(made[0], number, "timeout", world.clock.now()))
        uow.commit()
    told = store.deliveries(made[0])
    assert (told["id"], told["missed"]) == (made[0], 7)
    assert [letter["version"] for letter in told["dead_letters"]] == [1, 2, 3, 4, 5, 6, 7]
    assert [one["id"] for one in store.subscriptions()] == sorted(made)


def test_a_subscription_hears_and_ends(store: Store, world: World) -> None:
    world.stream()
    world.register()
    made = store.subscribe_to_ptk("taxi.speed", "http://127.0.0.1:9/hook")
    assert (made.ptk_id, made.secret[:6]) == ("taxi.speed", "whsec_")
    world.publish(0)
    assert store.notify_new_ptk_state("taxi.speed") == 0  # it has not heard of the first yet
    (one,) = store.subscriptions("taxi.speed")
    assert (one["id"], one["status"], one["heard_of_version"]) == (made.id, "ok", 0)
    told = store.deliveries(made.id)
    (attempt,) = told.pop("next_attempts")
    assert told == {**one, "waiting_versions": 1, "dead_letters": []}
    assert datetime.fromisoformat(attempt.pop("at")) <= world.clock.now()
    assert attempt == {"version": 1, "attempt": 1, "redelivered": False}
    assert store.rotate_subscription_secret(made.id, overlap_hours=0) != made.secret
    assert store.redeliver(made.id) == 0
    assert store.redeliver(made.id, since="2026-01-01") == 0
    for status, change in (("disabled", store.disable_subscription), ("ok", store.enable_subscription)):
        for _ in range(2):
            change(made.id)
        assert store.deliveries(made.id)["status"] == status
    assert refusals(
        lambda: store.redeliver(made.id, 7),
        lambda: store.redeliver(made.id, "7"),
        lambda: store.rotate_subscription_secret(made.id, overlap_hours=-1),
        lambda: store.rotate_subscription_secret(made.id, overlap_hours=24 * 100),
        lambda: store.deliveries("sub_0000000000000000"),
        lambda: store.enable_subscription("sub_0000000000000000"),
    ) == [
        e.UnknownName,
        e.InvalidRequest,
        e.InvalidRequest,
        e.InvalidRequest,
        e.UnknownName,
        e.UnknownName,
    ]
    store.unsubscribe(made.id)
    assert refusals(
        lambda: store.unsubscribe(made.id),
        lambda: store.subscribe_to_ptk("taxi.speed", "ftp://example.org"),
        lambda: store.subscribe_to_ptk("taxi.speed", "http://10.0.0.1/"),
        lambda: store.subscribe_to_ptk("taxi.other", "http://127.0.0.1:9/"),
    ) == [e.UnknownName, e.InvalidRequest, e.InvalidRequest, e.UnknownName]


def test_features_are_looked_up(store: Store, world: World) -> None:
    world.stream()
    world.register()
    features = ["taxi__speed:count", "taxi__speed:speed_mean"]
    assert store.look_up(features, [{"hour": 1}, {"hour": 2}]) == [dict.fromkeys(features)] * 2
    assert store.look_up(features, []) == []
    rows = ({"hour": hour} for hour in (1, 2))
    assert store.look_up(tuple(features), rows) == [dict.fromkeys(features)] * 2


def test_a_lookup_that_is_asked_for_in_another_form_is_refused_with_the_right_one(
    store: Store, world: World
) -> None:
    world.stream()
    world.register()
    for features, entities, says in [
        (["taxi__speed:count"], {"hour": 271828}, "[{'hour': 8}]; put this one mapping into a list"),
        (["taxi__speed:count"], [271828], "[{'hour': 8}], not of int"),
        (["taxi__speed:count"], [{"hour": 8}, ("hour", 271828)], "[{'hour': 8}], not of tuple"),
        (["taxi__speed:count"], "hour=271828", "[{'hour': 8}], no str"),
        (["taxi__speed:count"], None, "[{'hour': 8}], no NoneType"),
        (["taxi__speed:count"], pd.DataFrame({"hour": [271828]}), "are frame.to_dict('records')"),
        ("taxi__speed:count", [{"hour": 8}], "for one feature write ['taxi__speed:count']"),
        ([8], [{"hour": 8}], "['taxi__speed:speed_mean'], not of int"),
        ({"taxi__speed:count": 8}, [{"hour": 8}], "['taxi__speed:speed_mean'], no dict"),
        (None, [{"hour": 8}], "['taxi__speed:speed_mean'], no NoneType"),
    ]:
        with case(str((features, entities, says))):
            with pytest.raises(e.InvalidRequest) as error:
                store.look_up(features, entities)
            assert says in str(error.value)
            assert "271828" not in str(error.value)


def test_the_ledger_is_read_verified_and_exported(store: Store, world: World) -> None:
    world.stream()
    world.register()
    world.publish(0)
    embedded = Store(world.service)
    assert store.budget(STREAM) == embedded.budget(STREAM)
    assert store.budget(STREAM, tight=True) == embedded.budget(STREAM, tight=True)
    assert store.odometers(STREAM) == embedded.odometers(STREAM)
    export = store.export_ledger(STREAM, ORIGIN, ORIGIN + DAY)
    assert export == embedded.export_ledger(STREAM, ORIGIN, ORIGIN + DAY)
    assert check_report(export.content, store.report_key()).fault == ""
    assert store.service.verify_ledger(STREAM) == world.service.verify_ledger(STREAM)
    assert refusals(
        lambda: store.budget("bikes"),
        lambda: store.odometers("bikes"),
        lambda: store.export_ledger(STREAM, ORIGIN, ORIGIN),
    ) == [e.UnknownName, e.UnknownName, e.InvalidRequest]


# what only a remote store has


@pytest.fixture
def remote(api: Api) -> Iterator[Store]:
    with connect(api.url, token=api.token(*Role)) as store:
        yield store


def test_a_stream_created_without_an_origin_begins_now_and_keeps_it(remote: Store) -> None:
    base = {"team": "taxi", "schema": SCHEMA, "time_column": "at", "epsilon": 1.0}
    before = datetime.now(UTC)
    for _ in range(2):
        remote.create_stream("fresh", window="1h", **base)
        (made,) = (stream for stream in remote.service.streams() if stream.name == "fresh")
        assert before - timedelta(hours=1) < made.policy.origin <= datetime.now(UTC)


def test_lists_are_read_to_their_end(remote: Store, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "PAGE", 3)
    for number in range(7):
        world.stream(f"s{number}")
    assert remote.service.streams() == world.service.streams()


def test_a_remote_store_is_worked_on_by_others(remote: Store) -> None:
    with pytest.raises(e.InvalidRequest, match="workers"):
        remote.work_until_idle()


@pytest.mark.parametrize(
    "url",
    ["http://example.org", "ftp://example.org", "https://user:x@example.org", "https://", "https://x?y=1"],
)
def test_a_token_is_sent_only_where_it_is_safe(url: str) -> None:
    with pytest.raises(e.InvalidRequest):
        connect(url, token="ptk_x")


@pytest.mark.parametrize("token", ["", "a b", "a\nb", "é"])
def test_a_remote_store_needs_a_token(token: str) -> None:
    with pytest.raises(e.InvalidRequest, match="token"):
        connect("https://example.org", token=token)


def test_the_token_may_stand_in_the_environment(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTK_TOKEN", api.token(Role.CONSUMER))
    with connect(api.url) as store:
        assert store.service.streams() == ()


def test_a_wrong_token_and_a_narrow_one_are_told_apart(api: Api) -> None:
    api.world.stream()
    with connect(api.url, token="ptk_" + "0" * 16 + "_" + "s" * 43) as store:
        assert refusals(store.service.streams) == [e.Unauthenticated]
    with connect(api.url, token=api.token(Role.CONSUMER)) as store:
        assert refusals(lambda: store.ingest(STREAM, trips())) == [e.NotAllowed]


def test_every_error_comes_back_as_what_it_was() -> None:
    assert len(set(BY_CODE)) == len(set(BY_CODE.values()))
    for code, kind in BY_CODE.items():
        back = error_of(400, {"code": code, "detail": "why", "kind": "stream", "name": "x"})
        assert type(back) is kind
        if not issubclass(kind, e.UnknownName):
            assert str(back) == "why"
    unknown = error_of(404, {"code": "unknown-name", "kind": "stream", "name": "x"})
    assert isinstance(unknown, e.UnknownName)
    assert (unknown.kind, unknown.name, str(unknown)) == ("stream", "x", "there is no stream 'x'")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, e.InvalidRequest),
        (401, e.Unauthenticated),
        (502, e.Unavailable),
        (429, e.TooManyRequests),
        (500, e.InvariantBroken),
    ],
)
@pytest.mark.parametrize("body", [None, [], {}, {"code": 5}, {"faults": "x"}, "text"])
def test_an_answer_of_something_in_between_is_an_error_too(
    status: int, kind: type[Exception], body: Any
) -> None:
    assert type(error_of(status, body)) is kind


class Flaky:
    """A server on loopback that answers connections one by one as it was told, each with one request."""

    def __init__(self, *answers: bytes | None) -> None:
        self._answers = answers
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.seen: list[bytes] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _serve(self) -> None:
        for answer in self._answers:
            with suppress(OSError):  # the test has ended, or the client went away
                connection, _ = self._socket.accept()
                with connection:
                    self.seen.append(connection.recv(65_536))
                    if answer is not None:
                        connection.sendall(answer)


def answered(status: str, body: bytes = b"{}") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "FIRST_WAIT_SECONDS", 0.001)
    monkeypatch.setattr(transport, "LONGEST_WAIT_SECONDS", 0.002)


BUSY = answered("503 Service Unavailable")


@pytest.mark.usefixtures("quick")
def test_what_may_be_repeated_is_sent_until_it_is_answered() -> None:
    flaky = Flaky(None, BUSY, answered("200 OK", b'{"a": 1}'))
    with flaky as url, closing(Transport(url, "t")) as http:
        assert http.create("v1/x", {"b": 2}, dict) == {"a": 1}
    keys = {line for seen in flaky.seen for line in seen.split(b"\r\n") if b"idempotency-key" in line.lower()}
    assert (len(flaky.seen), len(keys)) == (3, 1)  # the same request, by its key


@pytest.mark.usefixtures("quick")
def test_what_may_not_be_repeated_is_sent_once_and_its_outcome_is_not_known() -> None:
    flaky = Flaky(None, answered("200 OK"))
    with flaky as url, closing(Transport(url, "t")) as http, pytest.raises(e.OutcomeUnknown):
        http.send("POST", "v1/x", repeatable=False)
    assert len(flaky.seen) == 1


def of_ours(status: str, kind: type[e.PtkStoreError]) -> bytes:
    """A refusal that is a problem of our own server."""
    return answered(status, f'{{"code": "{kind.code}", "detail": "why"}}'.encode())


OURS = of_ours("503 Service Unavailable", e.Unavailable)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("answer", "changing", "reading"),
    [
        (OURS, e.Unavailable, e.Unavailable),  # nothing was done: the server says so
        (of_ours("504 Gateway Timeout", e.OutcomeUnknown), e.OutcomeUnknown, e.OutcomeUnknown),
        (of_ours("429 Too Many Requests", e.TooManyRequests), e.TooManyRequests, e.TooManyRequests),
        (BUSY, e.OutcomeUnknown, e.Unavailable),  # of something in between, which does not know
        (answered("502 Bad Gateway"), e.OutcomeUnknown, e.Unavailable),
        (answered("504 Gateway Timeout", b"<html>"), e.OutcomeUnknown, e.OutcomeUnknown),
    ],
)
def test_who_answers_decides_whether_a_change_may_have_been_made(
    answer: bytes, changing: type[e.PtkStoreError], reading: type[e.PtkStoreError]
) -> None:
    flaky = Flaky(answer, answered("200 OK"))
    with flaky as url, closing(Transport(url, "t")) as http, pytest.raises(e.PtkStoreError) as found:
        http.send("POST", "v1/x", repeatable=False)
    assert (type(found.value), len(flaky.seen)) == (changing, 1)
    flaky = Flaky(*[answer] * transport.TRIES)
    with flaky as url, closing(Transport(url, "t")) as http, pytest.raises(e.PtkStoreError) as found:
        http.create("v1/x", {}, dict)
    assert (type(found.value), len(flaky.seen)) == (changing, transport.TRIES)
    flaky = Flaky(*[answer] * transport.TRIES)
    with flaky as url, closing(Transport(url, "t")) as http, pytest.raises(e.PtkStoreError) as found:
        http.get("v1/x", dict)
    assert (type(found.value), len(flaky.seen)) == (reading, transport.TRIES)


@pytest.mark.usefixtures("quick")
def test_a_request_whose_first_is_still_at_work_is_asked_again_under_its_key() -> None:
    flaky = Flaky(
        answered("504 Gateway Timeout"),
        of_ours("409 Conflict", e.StillAtWork),
        answered("201 Created", b'{"a": 1}'),
    )
    with flaky as url, closing(Transport(url, "t")) as http:
        assert http.create("v1/x", {}, dict) == {"a": 1}
    keys = {line for seen in flaky.seen for line in seen.split(b"\r\n") if b"idempotency-key" in line.lower()}
    assert (len(flaky.seen), len(keys)) == (3, 1)


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>Sign in</html>", b"[]", b"5", b'{"other": 1}', b'{"windows": 3}', b"[" * 100_000, b"\xff"],
)
def test_an_answer_that_is_no_document_of_ours_is_an_error_of_ours(body: bytes) -> None:
    strange = "no document of this API"
    with Flaky(answered("200 OK", body)) as url, connect(url, token="t") as store:  # noqa: SIM117
        with pytest.raises(e.Unavailable, match=strange):
            store.service.streams()
    with Flaky(answered("200 OK", body)) as url, connect(url, token="t") as store:  # noqa: SIM117
        with pytest.raises(e.OutcomeUnknown, match=strange):
            store.close_windows(STREAM)


def test_a_service_of_before_answers_all_at_once() -> None:
    whole = answered("200 OK", b'{"stream": "taxi", "blocks": []}')
    with Flaky(whole) as url, connect(url, token="t") as store:
        assert store.service.budget(STREAM) == ()


@pytest.mark.usefixtures("quick")
def test_patience_ends() -> None:
    flaky = Flaky(*[None] * 2 * transport.TRIES)
    with flaky as url, closing(Transport(url, "t")) as http:
        with pytest.raises(e.Unavailable):
            http.get("v1/x", dict)
        with pytest.raises(e.OutcomeUnknown):
            http.create("v1/x", {}, dict)
    assert len(flaky.seen) == 2 * transport.TRIES


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("then", [(), (OURS,) * 9])
def test_a_request_that_went_out_once_is_not_told_as_never_done(then: tuple[bytes, ...]) -> None:
    with Flaky(None, *then) as url, closing(Transport(url, "t")) as http:
        if not then:
            stop_after_one(http)
        with pytest.raises(e.OutcomeUnknown):
            http.create("v1/x", {}, dict)
    with Flaky(None, *then) as url, closing(Transport(url, "t")) as http, pytest.raises(e.Unavailable):
        if not then:
            stop_after_one(http)
        http.get("v1/x", dict)


def stop_after_one(http: Transport) -> None:
    """Let the first request out, and no connection be made after it."""
    client = http._client
    real, sent = client.request, list[bool]()

    def request(*args: Any, **more: Any) -> httpx.Response:
        if sent:
            raise httpx.ConnectError("refused")
        sent.append(True)
        return real(*args, **more)

    client.request = request  # type: ignore[method-assign]


@pytest.mark.usefixtures("quick")
def test_a_server_that_cannot_be_reached_did_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with closing(Transport(f"http://127.0.0.1:{port}", "t")) as http, pytest.raises(e.Unavailable):
        http.send("POST", "v1/x", repeatable=False)


def test_a_redirect_takes_no_token_elsewhere() -> None:
    moved = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    flaky = Flaky(moved)
    with flaky as url, closing(Transport(url, "t")) as http, pytest.raises(e.InvalidRequest):
        http.get("v1/x", dict)


@pytest.mark.long
def test_a_file_that_is_not_the_published_one_is_refused(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.world.stream()
    api.world.register()
    api.world.publish(0)
    right = Transport.get_bytes

    def changed(self: Transport, path: str) -> bytes:
        content = right(self, path)
        return content[:-1] + b"x" if "/files/" in path else content

    monkeypatch.setattr(Transport, "get_bytes", changed)
    with connect(api.url, token=api.token()) as store, pytest.raises(e.CorruptObject):
        store.ptk("taxi.speed")


# documents


def every_field_set() -> Stream:
    policy = Policy(
        capacity=Loss.capacity(Decimal("3.000000001"), Decimal("0.000001000000000001")),
        window=timedelta(hours=6),
        origin=ORIGIN,
        lateness=timedelta(milliseconds=1500),
        retention_windows=7,
        n_max=10**9,
        rows_per_window=12_345,
        accountant=Accountant.ZCDP,
        sharing=Sharing(
            (("east", ("ads", "taxi")), ("west", ("web",))),
            "the contexts are run by companies that share nothing",
            (("taxi.speed", Decimal("0.25")),),
        ),
        retire_below=Loss.capacity(Decimal("0.001")),
        privacy_unit=PrivacyUnit.USER_IN_WINDOW,
        minimum_assurance=Assurance.COMPOSED,
        closing=Closing.OPERATOR,
        future_skew=timedelta(seconds=7),
        profile_share=Decimal("0.125"),
        test_share=Decimal("0.2"),
        profile_max_age=17,
        train_partitions=3,
        unit_column="rider",
        max_rows_per_unit=4,
        attribute="city",
        attribute_values=("rome", "oslo"),
        max_cell_bytes=1_000,
        asserted_text=True,
        drop_retired=True,
    )
    columns = (("at", ColumnType.TIMESTAMP), ("rider", ColumnType.INT64), ("city", ColumnType.STRING))
    return Stream("rides", "taxi", Schema(columns, "at"), policy)


def test_nothing_of_a_policy_is_lost_on_the_way() -> None:
    stream = every_field_set()
    plain = Policy(Loss.capacity(1), timedelta(days=1), datetime(2026, 1, 1, tzinfo=UTC))
    same = {f.name for f in fields(Policy) if getattr(stream.policy, f.name) == getattr(plain, f.name)}
    # relation has one value, shards do not go with blocks by attribute, nor adaptive streams with train partitions
    of_scheduler = {"scheduler", "scheduler_mode", "significance", "least_significance", "most_significance"}
    of_scheduler |= {"comparison_epsilon", "served_first"}
    of_devices = {"rows", "report_epsilon", "report_delta", "reports_per_window", "reports_in_all"}
    assert same == {"relation", "user_shards", *of_scheduler, *of_devices}
    document = stream_document(stream)
    assert stream_of(document) == stream
    policy = replace(
        stream.policy, train_partitions=1, scheduler=Scheduler.ADAPTIVE, scheduler_mode=Mode.CONSERVE
    )
    adaptive = replace(stream, policy=policy)
    assert stream_of(stream_document(adaptive)) == adaptive
    budgeting = replace(
        stream,
        policy=replace(
            stream.policy,
            train_partitions=1,
            scheduler=Scheduler.BUDGETING,
            attribute=None,
            attribute_values=(),
            significance=Significance.LOSS,
            comparison_epsilon=0.25,
            served_first=ServedFirst.DPACK,
            least_significance=2.0,
            most_significance=10.5,
        ),
    )
    assert stream_of(stream_document(budgeting)) == budgeting
    assert stream_of(StreamIn(**asked_document(budgeting)).model_dump()) == budgeting
    assert StreamOut(**stream_document(budgeting)).model_dump() == stream_document(budgeting)
    assert StreamOut(**document).model_dump() == document
    assert stream_of(StreamIn(**asked_document(stream)).model_dump()) == stream
    sharded = replace(
        stream,
        policy=replace(
            stream.policy,
            privacy_unit=PrivacyUnit.USER,
            drop_retired=False,
            user_shards=5,
            attribute=None,
            attribute_values=(),
        ),
    )
    assert stream_of(stream_document(sharded)) == sharded
    away = replace(stream, policy=device_policy(report_delta=1e-6, closing=Closing.OPERATOR))
    assert stream_of(stream_document(away)) == away
    assert stream_of(StreamIn(**asked_document(away)).model_dump()) == away
    assert StreamOut(**stream_document(away)).model_dump() == stream_document(away)


def test_the_client_speaks_to_nobody_but_its_server(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with connect(api.url, token=api.token()) as store:
        assert store.service.streams() == ()
