"""What people see of verdicts: `ptk show`, the store's own methods in the home and over HTTP, and a webhook's body."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ptklib import HistoricalStatistics
from ptklib.validation import Verdict
from ptkstore import connect, sdk
from ptkstore import errors as e
from ptkstore.domain.identity import Role
from ptkstore.domain.ptks.accept_deadlines import AcceptDeadline, GivenUp
from ptkstore.domain.subscriptions import event_of
from ptkstore.sdk import Repository, Store
from ptkstore.sdk.documents.validations import validation_document, validation_of
from tests.support.api_server import Api, all_items
from tests.support.command_line import Line
from tests.support.world import CHAIN, World, trips

PTK = "taxi.speed"
ACCEPT = {"metric": "loss", "epsilon": 0.9}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Line, list[dict[str, Any]], World]:
    """The command line of a home whose first state was destroyed, and whose second was accepted."""
    home = tmp_path_factory.mktemp("validated") / "home"
    world = World(home)
    world.stream()
    world.register(config={"accept": ACCEPT}, target=1e-9)
    for day, target in ((0, 1e-9), (1, 0.9)):
        world.service.update_ptk(PTK, target=target)
        world.ingest([day + i / 1_000 for i in range(1_000)])
        world.close(day + 1)
        world.work(*CHAIN, "validate", "flip")
    rows = Store(world.service).validations(PTK)
    documents = [validation_document(one) for one in world.service.validations(PTK)]
    assert [validation_document(validation_of(one)) for one in documents] == documents
    world.service.close()
    return Line(home), rows, world


def test_the_store_shows_each_verdict_with_what_became_of_it(
    seen: tuple[Line, list[dict[str, Any]], World],
) -> None:
    _, (first, second), _ = seen
    assert (first["decision"], first["version"], first["look"], first["window"]) == ("retry", None, 1, 0)
    assert (second["decision"], second["version"], second["look"], second["window"]) == ("accept", 1, 2, 1)
    assert second["estimate"] <= second["bound"] <= second["target"] == 0.9
    assert first["bound"] > first["target"]
    assert {first["confidence"], second["confidence"]} == {0.95}


def test_commands_show_verdicts(seen: tuple[Line, list[dict[str, Any]], World]) -> None:
    ptk, rows, _ = seen
    shown = ptk.json("show", PTK)
    assert shown["validations"] == rows
    assert "Validations" in ptk.run("show", PTK).output
    assert Verdict.from_json(shown["newest"]["verdict"]).decision == "accept"
    assert shown["newest"]["release_decision"] == "accepted"
    assert shown["waiting"] == {"since": 2, "given_up": None}
    assert "accept.state: version 1 was accepted, and the next is waited for" in ptk.run("show", PTK).output
    first, second = shown["trainings"]
    assert (first["outcome"], first["code"], first["version"]) == ("done", "validation-retry", None)
    assert (second["outcome"], second["code"], second["version"]) == ("done", None, 1)
    (version,) = ptk.json("versions", PTK)
    assert [version[name] for name in ("metric", "bound", "confidence")] == ["loss", rows[1]["bound"], 0.95]


def test_a_ptk_that_is_given_up_is_shown_and_resumed(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    world.stream()
    world.register(config={"accept": {**ACCEPT, "timeout": "1d"}}, target=1e-9)
    world.ingest([i / 1_000 for i in range(1_000)])
    world.close(1)
    world.work(*CHAIN, "validate")
    world.service.close()
    ptk = Line(tmp_path / "home")
    assert "accept.state: given up: timeout" in ptk.run("show", PTK).output
    assert ptk.json("resume", PTK) == {"ptk": PTK, "window": 1}
    assert ptk.json("show", PTK)["waiting"] == {"since": 1, "given_up": None}
    assert "from window 1 on" in ptk.run("resume", PTK).output


def test_a_rejected_ptk_and_its_verdict_are_shown(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api, connect(api.url, token=api.token(*Role)) as remote:
        world = api.world
        world.stream()
        accept = {"metric": "loss", "epsilon": 0.5, "reject_epsilon": 0.4}
        world.register(config={"accept": accept}, target=0.01)
        n = 10_000
        speeds = pa.array([60.0 * (i // 24 % 2) for i in range(n)])
        world.service.ingest("taxi", trips([i / n for i in range(n)], speed=speeds))
        world.close(1)
        world.work(*CHAIN, "validate")
        assert remote.service.ptk(PTK).waiting == AcceptDeadline(0, GivenUp.REJECT)
        with pytest.raises(e.Conflict, match="was rejected"):
            remote.resume(PTK)
        (row,) = remote.validations(PTK)
        assert (row["decision"], row["version"]) == ("reject", None)
        assert row["least_loss_above"] == row["bound"] > 0.01
        assert (row["epsilon"], row["reject_epsilon"]) == (0.5, 0.4)
        (sent,) = all_items(api.acting(*Role), f"/v1/ptks/{PTK}/validations")
        assert (sent["epsilon"], sent["reject_epsilon"]) == (0.5, 0.4)
        assert Store(world.service).validations(PTK) == [row]
    ptk = Line(tmp_path / "home")
    assert "accept.state: given up: reject" in ptk.run("show", PTK).output
    assert ptk.json("show", PTK)["validations"] == [row]
    assert "validation-reject" in ptk.run("show", PTK).output


def test_subscribers_are_told_the_verdict(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    world.stream()
    world.register(config={"accept": ACCEPT}, target=0.9)
    world.ingest([i / 1_000 for i in range(1_000)])
    world.close(1)
    world.work(*CHAIN, "validate", "flip")
    (version,) = world.service.versions(PTK)
    assert event_of(version, "")["data"]["verdict"] == version.content["verdict"]
    world.service.close()


def test_a_repository_declares_what_a_version_has_to_pass(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    world.stream()
    store = Store(world.service)
    speeds = HistoricalStatistics(
        ["hour"], ["speed"], domains={"hour": list(range(24))}, bounds={"speed": (0, 60)}, epsilon=0.1
    )
    declared = sdk.PTK("speed", "taxi", speeds, target=0.1, accept=ACCEPT)
    for action in ("register", "keep"):
        assert [c.action for c in store.apply(Repository("taxi", (declared,)))] == [action]
    assert world.service.ptks()[0].config == {"accept": ACCEPT}
    world.service.close()


def test_over_http_a_ptk_says_whether_it_waits_and_is_resumed(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api, connect(api.url, token=api.token(*Role)) as remote:
        world = api.world
        world.stream()
        world.register("plain")
        world.register(config={"accept": {**ACCEPT, "timeout": "1d"}}, target=1e-9)
        assert remote.service.ptk(PTK).waiting == AcceptDeadline(0)
        assert remote.service.ptk("taxi.plain").waiting is None
        world.ingest([i / 1_000 for i in range(1_000)])
        world.close(1)
        world.work(*CHAIN, "validate")
        assert remote.service.ptk(PTK).waiting == AcceptDeadline(0, GivenUp.TIMEOUT)
        assert [remote.resume(PTK) for _ in range(2)] == [1, 1]
        assert {one.ptk_id: one.waiting for one in remote.service.ptks()} == {
            PTK: AcceptDeadline(1),
            "taxi.plain": None,
        }
        with pytest.raises(e.Conflict, match="does not wait"):
            remote.resume("taxi.plain")
        for role in (Role.CONSUMER, Role.PRODUCER, Role.OFFICER):
            with connect(api.url, token=api.token(role)) as other, pytest.raises(e.NotAllowed):
                other.resume(PTK)
