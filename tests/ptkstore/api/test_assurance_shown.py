"""Every document about what was released says whether its guarantee is proven, or which team asserts it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from typing import Any

import httpx
import pytest

from ptkstore.domain.accounting.assurances import SHARES, UNKNOWN, Assurance, Assured
from ptkstore.domain.evaluations import Evaluation, RiskMass
from ptkstore.domain.identity import STREAM_ROLES, Role
from ptkstore.domain.jobs import JobKind, job_id
from ptkstore.sdk import Store, connect
from ptkstore.sdk.documents.evaluations import evaluation_of
from ptkstore.sdk.reports.pages import report_page
from tests.support.api_server import Api
from tests.support.team_code import GOOD, Inspector, bundle_with, described
from tests.support.world import DAY, ORIGIN, trips

OWN, LIBRARY = "taxi.own", "taxi.speed"
WORD: dict[str, Any] = {"assurance": "asserted", "asserted_by": "taxi"}
PROVEN: dict[str, Any] = {"assurance": "library", "asserted_by": None}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with Api(tmp_path_factory.mktemp("home")) as api:
        world = api.world
        world.service.__dict__["sandbox"] = Inspector()
        world.stream("strict")
        world.stream("open", minimum_assurance=Assurance.ASSERTED)
        bundle = bundle_with(GOOD)
        world.service.put_bundle(bundle, team="taxi")
        world.register("own", stream="open", estimator=described(bundle))
        world.register("gone", stream="open", estimator=described(bundle))
        world.register("speed", stream="open")
        world.register("safe", stream="strict")
        for stream in ("open", "strict"):
            world.service.ingest(stream, trips((0.5, 0.6)))
            world.service.close_windows(stream, ORIGIN + DAY)
        world.work()
        world.work("flip")
        world.service.deregister_ptk("taxi.gone")
        with world.service.begin() as uow:
            for ptk_id in (OWN, LIBRARY):
                mass, run = RiskMass(1, 9), job_id(JobKind.EVALUATE, ptk_id, 1)
                uow.evaluations.add(Evaluation(ptk_id, 1, run, (0,), 0.1, mass, world.clock.now()))
            uow.commit()
        yield api


@pytest.fixture(scope="module")
def client(api: Api) -> httpx.Client:
    api.grant("taxi", "strict", Role.DEVELOPER)
    return api.acting(*STREAM_ROLES)


@pytest.fixture(params=["embedded", "remote"])
def store(request: pytest.FixtureRequest, api: Api) -> Iterator[Store]:
    if request.param == "embedded":
        yield Store(api.world.service)
        return
    with connect(api.url, token=api.token(*STREAM_ROLES)) as remote:
        yield remote


def told(document: dict[str, Any]) -> dict[str, Any]:
    return {name: document[name] for name in WORD}


@pytest.mark.long
def test_ptks_and_versions_say_it(client: httpx.Client) -> None:
    for ptk_id, expected in ((OWN, WORD), (LIBRARY, PROVEN)):
        assert told(client.get(f"/v1/ptks/{ptk_id}").json()) == expected
        (version,) = client.get(f"/v1/ptks/{ptk_id}/versions").json()["items"]
        assert told(version) == expected
        assert version["guarantee"]["assurance"] == expected["assurance"]


def test_estimates_and_profiles_say_on_whose_word_their_losses_are(
    client: httpx.Client, store: Store
) -> None:
    for ptk_id, expected in ((OWN, WORD), (LIBRARY, PROVEN)):
        (estimate,) = client.get(f"/v1/ptks/{ptk_id}/evaluations").json()["items"]
        profile = client.get(f"/v1/ptks/{ptk_id}/profile").json()
        assert told(estimate) == told(profile) == expected
        assert told(store.evaluations(ptk_id)[0]) == expected
        assert store.service.profile(ptk_id).assured.document() == expected


def test_an_estimate_of_before_is_of_unknown_assurance(api: Api, client: httpx.Client) -> None:
    (estimate,) = client.get(f"/v1/ptks/{OWN}/evaluations").json()["items"]
    assert evaluation_of(estimate) == replace(api.world.service.evaluations(OWN)[0], job_id="")
    for name in WORD:
        del estimate[name]
    assert evaluation_of(estimate).assured == UNKNOWN


def test_lookups_say_it_of_each_view(client: httpx.Client, store: Store) -> None:
    asked = {"features": ["taxi__own:trips", "taxi__speed:speed_mean"], "entities": [{"hour": 8}]}
    found = client.post("/v1/lookups", json=asked).json()
    assert found["assured"] == {"taxi__own": WORD, "taxi__speed": PROVEN}
    answers = store.look_up(asked["features"], asked["entities"])
    assert answers == found["results"]
    assert answers.assured == {
        "taxi__own": Assured(Assurance.ASSERTED, "taxi"),
        "taxi__speed": Assured(Assurance.LIBRARY),
    }


def test_odometers_say_it_of_each_ptk_and_the_least_of_a_team_and_a_stream(
    client: httpx.Client, store: Store
) -> None:
    found = client.get("/v1/streams/open/odometers").json()
    assert {one["name"]: told(one) for one in found["ptks"]} == {
        OWN: WORD,
        LIBRARY: PROVEN,
        "taxi.gone": WORD,
    }
    assert [told(one) for one in found["teams"]] == [WORD]
    assert told(found) == WORD
    strict = client.get("/v1/streams/strict/odometers").json()
    assert (told(strict), [told(one) for one in strict["ptks"]]) == (PROVEN, [PROVEN])
    assert store.odometers("open") == Store(store.service).odometers("open")
    assert store.odometers("open").assured == Assured(Assurance.ASSERTED, "taxi")


def test_a_budget_says_on_whose_word_it_may_have_been_spent(client: httpx.Client, store: Store) -> None:
    found = client.get("/v1/streams/open/budget").json()
    assert (found["minimum_assurance"], found["asserted_ptks"]) == ("asserted", [OWN])
    found = client.get("/v1/streams/strict/budget").json()
    assert (found["minimum_assurance"], found["asserted_ptks"]) == ("library", [])
    assert store.service.assurance_on("open") == (Assurance.ASSERTED, (OWN,))


def test_a_budget_says_of_each_block_how_much_is_proven_and_how_much_is_a_teams_word(
    api: Api, client: httpx.Client, store: Store
) -> None:
    for path in ("budget", "odometers"):
        train = [one for one in client.get(f"/v1/streams/open/{path}").json()["blocks"] if one["block"] == 2]
        assert [(one["library"]["epsilon"], one["asserted"]["epsilon"]) for one in train] == [("0.1", "0.2")]
        strict = client.get(f"/v1/streams/strict/{path}").json()["blocks"]
        assert {one["asserted"]["epsilon"] for one in strict} == {"0"}
        assert [one["library"]["epsilon"] for one in strict if one["block"] == 2] == ["0.1"]
    for tight in (False, True):
        rows = {one["block"]: one for one in store.budget("open", tight=tight)}
        row = rows[2]
        assert (row["spent_epsilon"], row["library_epsilon"], row["asserted_epsilon"]) == (0.3, 0.1, 0.2)
        assert "asserted_epsilon" not in store.budget("strict", tight=tight)[0]
    report = json.loads(api.world.service.export_ledger("open").content)["report"]
    (block,) = (one for one in report["blocks"] if one["block"] == 2)
    assert (block["library"]["epsilon"], block["asserted"]["epsilon"]) == ("0.1", "0.2")
    assert report["guarantee"]["shares"] == SHARES
    assert SHARES in unescape(report_page(api.world.service.export_ledger("open").content, "html").decode())


def test_lineage_says_it(store: Store) -> None:
    assert {one.ptk_id: one.assured for one in store.lineage_of_window("open", 0)} == {
        OWN: Assured(Assurance.ASSERTED, "taxi"),
        "taxi.gone": Assured(Assurance.ASSERTED, "taxi"),
        LIBRARY: Assured(Assurance.LIBRARY),
    }
    (ancestor,) = store.lineage(OWN)
    assert ancestor.assured == Assured(Assurance.ASSERTED, "taxi")


def test_the_signed_report_says_it_also_of_ptks_that_are_gone(api: Api) -> None:
    report = json.loads(api.world.service.export_ledger("open").content)
    report = report.get("report", report)
    assert report["assured"] == WORD
    (gone,) = (one for one in report["ptks"] if one["ptk"] == "taxi.gone")
    assert told(gone) == WORD
