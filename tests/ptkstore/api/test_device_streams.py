"""A device stream through every room: HTTP, the client, the command line and the console tell the same of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from typer.testing import CliRunner

from ptklib import DrawDiscardModel
from ptklib.draw_discard import reports_needed
from ptkstore.adapters.devices.keys import counts_key
from ptkstore.adapters.processes import ForgetfulRedisServer
from ptkstore.cli.main import app
from ptkstore.domain.identity import STREAM_ROLES, Grant, Role
from ptkstore.errors import InvalidRequest, PtkRejected, Refused
from ptkstore.sdk import Repository, Store, connect
from ptkstore.sdk.repository import declarations as declared
from ptkstore.sdk.repository.device_reports import ReportsPlanned
from ptkstore.sdk.store import HomeStore
from ptkstore.wiring.work import devices_of
from tests.support.api_server import Api, arrow, ingest, problem
from tests.support.console_pages import seen, signed_in
from tests.support.device_streams import AVERAGING, PTK, fresh_database, phishy
from tests.support.world import DAY, ORIGIN, trips

STREAM = "phones"
SCHEMA = {"at": "timestamp", "length": "float64", "kind": "string", "spam": "bool"}
SAID: dict[str, Any] = {
    "rows": "on-devices",
    "report_epsilon": 3.47,
    "reports_per_window": 1,
    "reports_in_all": 8,
}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory, devices_redis: ForgetfulRedisServer) -> Iterator[Api]:
    url = fresh_database(devices_redis, 13)
    with Api(tmp_path_factory.mktemp("http") / "home", devices_redis_url=url) as api:
        world = api.world
        api.identity.create_team("taxi")
        with connect(api.url, token=api.token(Role.ADMINISTRATOR)) as store:
            store.create_stream(
                STREAM,
                team="taxi",
                schema=SCHEMA,
                time_column="at",
                origin=ORIGIN,
                closing="operator",
                **SAID,
            )
        world.service.register_ptk(
            team="taxi", name="phishy", stream=STREAM, estimator=phishy(), train_frequency="1d"
        )
        world.service.close_windows(STREAM, ORIGIN + DAY)
        world.work(*AVERAGING)
        _, epoch = devices_of(world.service).epoch_of(PTK)
        with redis.Redis.from_url(url) as client:
            client.hset(counts_key(PTK, epoch.id), mapping={"put": 900, "norm": 20})
        world.service.close_windows(STREAM, ORIGIN + 2 * DAY)
        world.work(*AVERAGING)
        yield api


@pytest.fixture
def store(api: Api) -> Iterator[Store]:
    with connect(api.url, token=api.token(*STREAM_ROLES)) as store:
        yield store


def at_home(api: Api, *words: str, code: int = 0) -> str:
    env = {"PTK_HOME": str(api.world.service.settings.root), "COLUMNS": "250"}
    result = CliRunner().invoke(app, list(words), env=env)
    assert result.exit_code == code, result.output
    return result.output


def test_a_stream_is_the_same_here_and_over_http(api: Api, store: Store) -> None:
    assert store.service.stream(STREAM) == api.world.service.stream(STREAM)
    (shown,) = (one for one in store.streams() if one["name"] == STREAM)
    assert {name: shown[name] for name in SAID} == SAID
    assert (shown["privacy_unit"], shown["epsilon"]) == ("device", "0")


def test_it_is_created_by_its_document(api: Api) -> None:
    body = {
        "name": "tablets",
        "team": "taxi",
        "columns": SCHEMA,
        "time_column": "at",
        "window_seconds": 3600,
        **SAID,
    }
    client = api.acting(Role.ADMINISTRATOR)
    assert client.post("/v1/streams", json=body).status_code == 201
    refused = client.post("/v1/streams", json={**body, "name": "loud", "epsilon": "1"})
    assert problem(refused)[1] == "invalid-request"
    missing = {name: value for name, value in body.items() if name != "reports_in_all"}
    assert problem(client.post("/v1/streams", json={**missing, "name": "endless"}))[1] == "invalid-request"
    plain = {"name": "plain", "team": "taxi", "columns": SCHEMA, "time_column": "at"}
    assert problem(client.post("/v1/streams", json=plain))[1] == "invalid-request"


def test_only_who_may_register_on_the_labelled_stream_has_it_pay_for_tests(api: Api) -> None:
    labelled = {**SAID, "name": "labelled", "team": "taxi", "columns": SCHEMA, "time_column": "at"}
    body = {name: value for name, value in labelled.items() if name not in SAID} | {"epsilon": "1"}
    assert api.acting(Role.ADMINISTRATOR).post("/v1/streams", json=body).status_code == 201
    api.grant("mail", STREAM, Role.DEVELOPER)
    mail = api.acting(Role.DEVELOPER, Role.CONSUMER, team="mail")
    accept = {"metric": "loss", "epsilon": 0.1, "stream": "labelled"}
    said = {
        "name": "junk",
        "estimator": phishy(),
        "target": 0.5,
        "train_frequency": "1d",
        "config": {"accept": accept},
    }
    exchange = {"ptks": [said], "deregister": []}

    def answers() -> list[int]:
        return [
            mail.post("/v1/ptks", json={**said, "stream": STREAM}).status_code,
            mail.post(f"/v1/streams/{STREAM}/admission", json=exchange).status_code,
            mail.post(f"/v1/streams/{STREAM}/exchange", json=exchange).status_code,
        ]

    assert answers() == [404, 404, 404]  # as if there were no such stream
    api.grant("mail", "labelled", Role.CONSUMER)
    assert answers() == [403, 403, 403]
    plain = {**said, "target": None, "config": {}, "stream": STREAM}
    assert mail.post("/v1/ptks", json=plain).status_code == 201
    change = {"target": 0.5, "config": {"accept": accept}}
    assert mail.patch("/v1/ptks/mail.junk", json=change).status_code == 403
    api.grant("mail", "labelled", Role.DEVELOPER)
    assert mail.patch("/v1/ptks/mail.junk", json=change).status_code == 200
    assert [one.ptk_id for one in api.world.service.ptks() if one.accept is not None] == ["mail.junk"]
    api.identity.withdraw(Grant("mail", "labelled", Role.DEVELOPER))
    assert mail.patch("/v1/ptks/mail.junk", json={"target": 0.4}).status_code == 403
    assert mail.post("/v1/ptks/mail.junk/resume").status_code == 403
    api.grant("payers", "labelled", Role.OFFICER)
    payers = api.acting(Role.OFFICER, team="payers")
    listed = payers.get("/v1/ptks", params={"stream": "labelled"}).json()["items"]
    assert [one["ptk_id"] for one in listed] == ["mail.junk"]
    assert mail.patch("/v1/ptks/mail.junk", json={"config": {}}).status_code == 200
    assert payers.get("/v1/ptks").json()["items"] == []
    assert mail.delete("/v1/ptks/mail.junk").status_code == 204


def test_rows_are_refused_over_http(api: Api, store: Store) -> None:
    answer = ingest(api.acting(), arrow(trips()), STREAM)
    assert problem(answer)[1] == "refused"
    assert "stay on devices" in answer.json()["detail"]
    with pytest.raises(Refused, match="stay on devices"):
        store.forget(STREAM, "user-1")


def test_odometers_exposure_versions_and_ptks_are_the_same_over_http(api: Api, store: Store) -> None:
    service = api.world.service
    there = store.service.odometers(STREAM).local
    here = service.odometers(STREAM).local
    assert [(one.ptk_id, one.losses, one.counts, one.mechanism) for one in there] == [
        (one.ptk_id, one.losses, one.counts, one.mechanism) for one in here
    ]
    assert store.service.odometers(STREAM).device == service.odometers(STREAM).device is not None
    assert store.service.exposure(STREAM) == service.exposure(STREAM)
    assert store.service.ptk(PTK) == service.ptk(PTK)
    assert [one["guarantee"]["model"] for one in store.versions(PTK)] == ["local", "local"]
    shown = api.acting().get(f"/v1/ptks/{PTK}").json()
    assert (shown["guarantee_model"], shown["target"]) == ("local", None)


def test_a_ptk_is_registered_and_refused_over_http(store: Store) -> None:
    model = DrawDiscardModel({"length": (0.0, 10.0)}, "spam", epsilon=1.0)
    assert store.register_ptk(model, name="short", stream=STREAM) == "taxi.short"
    with pytest.raises(PtkRejected, match="the whole model counted"):
        store.register_ptk(
            DrawDiscardModel({"length": (0.0, 10.0)}, "spam", epsilon=5.0), name="loud", stream=STREAM
        )
    with pytest.raises(InvalidRequest, match="leave target out"):
        store.register_ptk(model, name="aimed", stream=STREAM, target=0.1)
    store.deregister_ptk("taxi.short")


def test_the_command_line_says_what_a_device_loses(api: Api) -> None:
    shown = at_home(api, "stream", "show", STREAM)
    for line in ("rows: on-devices", "guarantee: local", "report_epsilon: 3.47", "reports_in_all: 8"):
        assert line in shown
    assert "The exposure check holds: rows stay on devices" in shown
    for word in ("accountant", "retention", "capacity", "train_partitions"):
        assert word not in shown
    row, together = json.loads(at_home(api, "budget", STREAM, "--json"))
    assert (together["ptk"], together["in_all_epsilon"]) == (None, 27.76)
    assert (row["ptk"], row["guarantee"], row["report_epsilon"], row["in_all_epsilon"]) == (
        PTK,
        "local",
        3.47,
        27.76,
    )
    assert json.loads(at_home(api, "status", "--json"))["parts"]["ledger"] == "ok"
    budget = at_home(api, "budget", STREAM)
    assert "None of them adds up with losses of blocks" in budget
    assert "all PTKs together, also earlier ones" in budget
    assert "guarantee: local, one report of a device" in at_home(api, "show", PTK)
    versions = json.loads(at_home(api, "versions", PTK, "--json"))
    assert {row["guarantee"] for row in versions} == {"local, one report of a device"}
    shown = at_home(api, "show", PTK)
    for line in (
        "reports.taken_at_most: 1024\n",
        'reports.refused_at_most: {"norm": 32}\n',
        "instances.moved: 0.0\n",
        "instances.spread: ",
        "newest.reports_in_all: 8\n",
        'newest.in_all: {"delta": 0.0, "epsilon": 27.76}\n',
    ):
        assert line in shown
    assert STREAM in at_home(api, "stream", "list")
    assert PTK in at_home(api, "list")


def test_a_plan_says_how_many_reports_a_model_needs_and_warns_where_fewer_come(
    api: Api, store: Store, tmp_path: Path
) -> None:
    small = DrawDiscardModel({"length": (0.0, 10.0)}, "spam", k=2, epsilon=3.0)
    large = DrawDiscardModel({"kind": {"hash_buckets": 200}}, "spam", epsilon=1.0)
    repository = Repository(
        "taxi", (declared.PTK("small", STREAM, small), declared.PTK("large", STREAM, large))
    )
    for there in (store, HomeStore(api.world.service)):
        fits, warned = there.plan(repository, audit=False)
        assert fits.reports == ReportsPlanned(reports_needed(small.specification), 8 * 1_024)
        assert warned.reports == ReportsPlanned(reports_needed(large.specification), 8 * 1_024)
        assert [one.reports.short for one in (fits, warned) if one.reports is not None] == [False, True]
        for one in (fits, warned):
            assert one.acceptable, one.reason
    (tmp_path / "team.toml").write_text('team = "taxi"\n')
    (tmp_path / "ptks.py").write_text(
        "from ptklib import DrawDiscardModel\nfrom ptkstore import PTK\n"
        'PTK_LARGE = PTK("large", "phones", DrawDiscardModel({"kind": {"hash_buckets": 200}}, "spam", epsilon=1.0))\n'
        'PTK_SMALL = PTK("small", "phones", DrawDiscardModel({"length": (0.0, 10.0)}, "spam", k=2, epsilon=3.0))\n'
    )
    shown = at_home(api, "plan", str(tmp_path), "--skip-audit")
    assert "reports until it is more than noise" in shown
    warning = (
        "warning, the devices whose reports the newest versions on phones count send at most 8,192 in all"
    )
    assert shown.count(warning) == 1
    told = at_home(api, "plan", str(tmp_path), "--skip-audit", "--json")
    planned = json.loads(told[told.index("[") :])  # after what is checked, on standard error
    assert {one["reports"]["brought"] for one in planned if one["ptk_id"] != PTK} == {8_192}


def test_single_reports_in_versions_are_warned_of_where_a_ptk_is_registered(
    api: Api, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "team.toml").write_text('team = "taxi"\n')
    (tmp_path / "ptks.py").write_text(
        "from ptklib import DrawDiscardModel\nfrom ptkstore import PTK\n"
        'ONE = PTK("one", "phones", DrawDiscardModel({"length": (0.0, 10.0)}, "spam", k=1, epsilon=3.0))\n'
        'KEPT = DrawDiscardModel({"length": (0.0, 10.0)}, "spam", average="predictions", epsilon=3.0)\n'
        'ALL = PTK("all", "phones", KEPT)\n'
        'FEW = PTK("few", "phones", DrawDiscardModel({"length": (0.0, 10.0)}, "spam", k=2, epsilon=3.0))\n'
    )
    for command in (("plan", "--skip-audit"), ("apply",)):
        shown = at_home(api, *command, str(tmp_path))
        assert shown.count("warning, with k=1 nothing is averaged") == 1
        assert shown.count("warning, with average='predictions' each version has all 20 instances") == 1
    assert "nothing is averaged" not in at_home(api, "apply", str(tmp_path))  # nothing changes
    for name in ("one", "all", "few"):
        store.deregister_ptk(f"taxi.{name}")
    for params, words in (({"k": 1}, "is the last report"), ({"average": "predictions"}, "all 20 instances")):
        model = DrawDiscardModel({"length": (0.0, 10.0)}, "spam", epsilon=3.0, **params)
        with pytest.warns(UserWarning, match=words) as caught:
            store.register_ptk(model, name="warned", stream=STREAM)
        assert len(caught) == 1
        store.deregister_ptk("taxi.warned")


def test_each_report_that_was_counted_may_be_of_another_device(api: Api, store: Store) -> None:
    said = {**SAID, "reports_per_window": 4}
    with connect(api.url, token=api.token(Role.ADMINISTRATOR)) as administrator:
        administrator.create_stream(
            "busy", team="taxi", schema=SCHEMA, time_column="at", origin=ORIGIN, closing="operator", **said
        )
    service = api.world.service
    config = {"train_frequency": "2d", "estimator": phishy()}
    busy = service.register_ptk(team="taxi", name="busy", stream="busy", **config)
    _, epoch = devices_of(service).epoch_of(busy)
    with redis.Redis.from_url(str(service.settings.devices_redis_url)) as client:
        client.hset(counts_key(busy, epoch.id), mapping={"put": 900})
    service.close_windows("busy", ORIGIN + 2 * DAY)
    api.world.work(*AVERAGING)
    model = DrawDiscardModel({"length": (0.0, 10.0)}, "spam", epsilon=1.5)
    (change,) = store.plan(Repository("taxi", (declared.PTK("new", "busy", model),)), audit=False)
    assert change.reports == ReportsPlanned(reports_needed(model.specification), 8 * 1_024)
    assert change.reports.needed > 8 * 1_024 // 4
    assert not change.reports.short


def test_nothing_is_warned_of_on_a_stream_that_counted_nothing(api: Api, store: Store) -> None:
    with connect(api.url, token=api.token(Role.ADMINISTRATOR)) as administrator:
        administrator.create_stream("quiet", team="taxi", schema=SCHEMA, time_column="at", **SAID)
    model = DrawDiscardModel({"length": (0.0, 10.0)}, "spam", epsilon=1.0)
    (change,) = store.plan(Repository("taxi", (declared.PTK("new", "quiet", model),)), audit=False)
    assert change.reports == ReportsPlanned(reports_needed(model.specification), None)
    assert not change.reports.short


def test_the_console_shows_no_budget_of_blocks(api: Api) -> None:
    client = signed_in(api, *STREAM_ROLES)
    page = seen(client.get(f"/console/streams/{STREAM}")).text
    for text in (
        "stay on devices",
        "What a device loses",
        "one device in all windows",
        "epsilon 27.76",
        PTK,
        "also earlier ones",
    ):
        assert text in page
    for text in ("Budget per block", "kept for", "Simulate other schedulers"):
        assert text not in page
    ptk = seen(client.get(f"/console/ptks/{PTK}")).text
    assert "one report of a device loses" in ptk
    assert "3.47 per report" in ptk
    for text in ("27.76", "8 reports, 1 in a window", "at most 1,024", "norm: at most 32"):
        assert text in ptk
    for text in ("spread", "drift", "one device loses in all"):
        assert text in ptk
    limit = api.world.service.version(PTK, 2).content["instances"]["limit"]
    assert limit > 0
    assert "limit on drift" in ptk
    assert f"{limit:.3g}" in ptk
    assert "rows stay on devices" in seen(client.get("/console/")).text


def test_versions_tell_how_many_reports_came_and_what_they_did(api: Api, store: Store) -> None:
    first, second = store.versions(PTK)
    assert first["instances"]["reports_at_most"] == {"taken": 0, "refused": {}}
    assert second["instances"]["reports_at_most"] == {"taken": 1_024, "refused": {"norm": 32}}
    assert first["instances"]["moved"] > second["instances"]["moved"] == 0.0
    assert second["instances"]["spread"] > 0
    reply = api.acting(Role.CONSUMER).get(f"/v1/ptks/{PTK}/versions")
    assert [one["instances"] for one in reply.json()["items"]] == [first["instances"], second["instances"]]


def test_metrics_count_no_local_loss_as_a_training(api: Api) -> None:
    text = api.client(api.token(Role.ADMINISTRATOR)).get("/metrics").text
    of_ptk = [line for line in text.splitlines() if PTK in line and "epsilon" in line]
    assert of_ptk == [f'ptk_report_epsilon{{ptk="{PTK}",stream="{STREAM}"}} 3.47']
    assert f'ptk_policy_epsilon{{stream="{STREAM}"}}' not in text


def test_a_report_is_signed_and_its_page_says_what_a_device_loses(api: Api, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("report")
    at_home(api, "ledger", "export", STREAM, "-o", str(folder / "report.html"))
    page = (folder / "report.html").read_text()
    for text in ("What a device loses", "27.76", "no block is charged", PTK):
        assert text in page
    assert "Worst block" not in page
    checked = at_home(api, "ledger", "check", str(folder / "report.html.json"))
    assert "27.76" in checked
