"""One person in several streams: the sum, for officers of each stream alone, over HTTP and on the command line."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ptklib.accounting import basic_composition
from ptklib.events import EpsilonDelta
from ptklib.privacy import PrivacyLoss
from ptkstore import connect
from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.identity import Role
from ptkstore.domain.ledger.journal import EntryKind
from ptkstore.domain.streams.policies import PrivacyUnit
from ptkstore.domain.streams.streams import Stream
from ptkstore.errors import InvalidRequest, NotAllowed, Refused, UnknownName
from ptkstore.sdk import Store
from tests.support.api_server import Api, problem
from tests.support.catalog_copies import catalog_of, put_back
from tests.support.command_line import Line
from tests.support.device_streams import SCHEMA, device_policy
from tests.support.team_code import GOOD, Inspector, bundle_with, described
from tests.support.world import DAY, ORIGIN, World, speed, trips

PATH = "/v1/ledger/person"
USERS: dict[str, Any] = {"unit_column": "zone", "max_rows_per_unit": 3}
BOTH = {"stream": ["rides", "bikes"]}


def of_users(epsilon: float) -> dict[str, Any]:
    made = speed(epsilon)
    return {**made, "params": {**made["params"], "unit": "zone", "max_rows_per_unit": 3}}


def made(world: World) -> None:
    """Two streams of users that each spent: one for life, one in each of two windows; and one of records."""
    world.stream("rides", privacy_unit=PrivacyUnit.USER, **USERS)
    world.stream("bikes", privacy_unit=PrivacyUnit.USER_IN_WINDOW, epsilon=2, **USERS)
    world.stream("taxi")
    world.register("speed", stream="rides", estimator=of_users(0.25))
    world.register("slow", stream="bikes", estimator=of_users(0.1))
    for name in ("rides", "bikes"):
        world.service.ingest(name, trips((0.5, 1.5)))
        world.service.close_windows(name, ORIGIN + 2 * DAY)
    world.work()


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with Api(tmp_path_factory.mktemp("home")) as api:
        made(api.world)
        yield api


def spends(world: World, stream: str) -> list[PrivacyLoss]:
    """Each loss that was ever spent on a stream, declared."""
    with world.service.begin() as uow:
        lines = uow.ledger.journal(stream)
    return [
        PrivacyLoss(loss.epsilon, loss.delta, EpsilonDelta(epsilon=loss.epsilon, delta=loss.delta))
        for loss in (one.loss for one in lines if one.kind is EntryKind.SPEND)
    ]


def test_the_sum_is_what_the_library_composes_of_all_releases_that_a_person_meets(api: Api) -> None:
    losses = {name: spends(api.world, name) for name in ("rides", "bikes")}
    assert [len(one) for one in losses.values()] == [2, 2]  # a training on each window
    found = Store(api.world.service).person_loss(["rides", "bikes"])
    of = {one["stream"]: one for one in found["streams"]}
    assert (of["rides"]["privacy_unit"], of["bikes"]["privacy_unit"]) == ("user", "user-in-window")
    assert (of["rides"]["spent"]["epsilon"], of["bikes"]["spent"]["epsilon"]) == ("0.5", "0.2")
    assert (of["rides"]["at_most"]["epsilon"], of["bikes"]["at_most"]["epsilon"]) == ("1", "4")
    assert found["together"] == {
        "spent": {"epsilon": "0.7", "delta": "0"},
        "at_most": {"epsilon": "5", "delta": "0"},
    }
    epsilon, delta = basic_composition([*losses["rides"], *losses["bikes"]])
    assert epsilon == pytest.approx(0.7, rel=1e-9)
    assert delta == 0
    assert (found["rule"].split(",")[0], found["proof"]) == (
        "basic composition over streams",
        "docs/proofs/several-streams.md",
    )


def test_an_officer_of_each_stream_reads_it_and_nobody_else(api: Api) -> None:
    api.grant("both", "rides", Role.OFFICER)
    api.grant("both", "bikes", Role.OFFICER)
    api.grant("one", "rides", Role.OFFICER)
    api.grant("one", "bikes", Role.CONSUMER)
    api.grant("half", "rides", Role.OFFICER)
    officer = api.acting(Role.OFFICER, team="both")
    assert officer.get(PATH, params=BOTH).json() == Store(api.world.service).person_loss(BOTH["stream"])
    for role in (Role.PRODUCER, Role.DEVELOPER, Role.CONSUMER, Role.ADMINISTRATOR):
        assert problem(api.acting(role).get(PATH, params=BOTH)) == (403, "not-allowed")
    assert problem(api.acting(team="one").get(PATH, params=BOTH)) == (403, "not-allowed")
    for unseen in ("bikes", "nothing"):
        reply = api.acting(team="half").get(PATH, params={"stream": ["rides", unseen]})
        assert problem(reply) == (404, "unknown-name")
        assert reply.json()["detail"].startswith(f"there is no stream '{unseen}'")
    assert problem(officer.get(PATH)) == (422, "invalid-request")
    with connect(api.url, token=api.token(Role.OFFICER, team="both")) as store:
        assert store.person_loss(BOTH["stream"]) == Store(api.world.service).person_loss(BOTH["stream"])
        with pytest.raises(UnknownName):
            store.person_loss(["rides", "taxi"])
    with connect(api.url, token=api.token(team="one")) as store, pytest.raises(NotAllowed):
        store.person_loss(BOTH["stream"])


def test_no_sum_is_told_of_streams_whose_figures_bound_no_person(api: Api) -> None:
    store = Store(api.world.service)
    with pytest.raises(InvalidRequest, match="taxi: its privacy unit is the record"):
        store.person_loss(["rides", "taxi"])
    for wrong in ([], ["rides", "rides"], ["rides"] * 21):
        with pytest.raises(InvalidRequest, match="each once"):
            store.person_loss(wrong)
    with pytest.raises(UnknownName):
        store.person_loss(["rides", "nothing"])


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "home")
    made(world)
    yield world
    world.service.close()


def test_devices_are_refused(world: World) -> None:
    world.service.create_stream(Stream("phones", "taxi", SCHEMA, device_policy()))
    with pytest.raises(InvalidRequest, match="phones: its rows stay on devices"):
        world.service.person_loss(["rides", "phones"])


def test_nothing_is_read_off_a_journal_that_does_not_add_up(world: World) -> None:
    with closing(sqlite3.connect(world.service.settings.root / "catalog.db")) as connection:
        for (trigger,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            connection.execute(f"DROP TRIGGER {trigger}")
        connection.execute("UPDATE journal SET epsilon_nano = 1 WHERE stream = 'bikes'")
        connection.commit()
    with pytest.raises(Refused, match="the journal of bikes is wrong"):
        world.service.person_loss(["rides", "bikes"])
    assert world.service.person_loss(["rides"]).spent.epsilon == 0.5


def test_windows_that_a_recovery_forgot_count_with_all_of_their_budget(world: World) -> None:
    home = world.service.settings.root
    before = catalog_of(home)
    for name in ("rides", "bikes"):
        world.service.ingest(name, trips((2.5,)))
        world.service.close_windows(name, ORIGIN + 3 * DAY)
    world.work()
    world.service.close()
    put_back(home, before)
    again = World(home)
    with pytest.raises(Refused):
        again.service.person_loss(["bikes"])
    again.service.recover_ledger()
    rides, bikes = again.service.person_loss(["rides", "bikes"]).streams
    assert (rides.spent.epsilon, rides.at_most.epsilon) == (1, 1)
    assert (bikes.windows, bikes.spent.epsilon, bikes.at_most.epsilon) == (3, 6, 6)
    again.service.close()


def test_a_few_sums_are_made_at_once(api: Api) -> None:
    officer = api.acting(Role.OFFICER, team="both")
    for name in BOTH["stream"]:
        api.grant("both", name, Role.OFFICER)
    heavy = api.app.state.heavy
    with heavy.place("both"), heavy.place("both"):
        assert problem(officer.get(PATH, params=BOTH)) == (429, "too-many-requests")
    assert officer.get(PATH, params=BOTH).status_code == 200


def test_ptks_are_named_whose_loss_is_their_teams_word_also_if_they_are_gone(world: World) -> None:
    world.service.__dict__["sandbox"] = Inspector()
    world.stream("open", privacy_unit=PrivacyUnit.USER, minimum_assurance=Assurance.ASSERTED, **USERS)
    bundle = bundle_with(GOOD)
    world.service.put_bundle(bundle, team="taxi")
    code = described(bundle)
    covering = {**code, "params": {**code["params"], "unit": "zone", "max_rows_per_unit": 3}}
    for name in ("gone", "idle"):
        world.register(name, stream="open", estimator=covering)
    world.service.ingest("open", trips((0.5, 0.6)))
    world.service.close_windows("open", ORIGIN + DAY)
    world.work()
    world.service.deregister_ptk("taxi.gone")
    (found,) = world.service.person_loss(["open"]).streams
    assert found.asserted_ptks == ("taxi.gone", "taxi.idle")


def test_the_command_says_units_rule_and_sum(world: World) -> None:
    ptk = Line(world.service.settings.root)
    assert ptk.json("ledger", "person", "rides", "bikes") == Store(world.service).person_loss(BOTH["stream"])
    said = " ".join(ptk.run("ledger", "person", "rides", "bikes").stdout.split())
    for text in (
        "user-in-window",
        "all together",
        "0.7",
        "bikes: the loss of one block for each window, 2 windows closed.",
        "epsilons add up and deltas add up",
        "docs/proofs/several-streams.md",
        "one id of the privacy unit in each stream",
    ):
        assert text in said
    assert "taxi: its privacy unit is the record" in ptk.refused("ledger", "person", "taxi", "rides", code=2)
