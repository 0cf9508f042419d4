"""Health, readiness and metrics: each truth is tested by breaking the real part."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from ptkstore.adapters.processes import ForgetfulRedisServer, RedisServer
from ptkstore.adapters.sql import tables as t
from ptkstore.api import online_check
from ptkstore.api.online_check import OnlineRows
from ptkstore.api.routes import health
from ptkstore.application.operations.liveness import SILENT_AFTER, ProcessRole
from ptkstore.cli.main import app as command
from ptkstore.domain.identity import STREAM_ROLES, Grant, Role
from ptkstore.errors import Unavailable
from tests.support import full_disk
from tests.support.api_server import Api, arrow, ingest, problem
from tests.support.waiting import until
from tests.support.world import trips

TOKEN = "collector-0123456789abcdef"
NOBODY = {"online": "ok", "worker": "silent", "relay": "silent", "schedule": "silent"}
WELL = dict.fromkeys(("catalog", "keys", "lake", "raw"), "ok") | {
    "redis": "unused",
    "devices": "unused",
    **NOBODY,
}


@pytest.fixture(autouse=True)
def ask_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are kept for a while, and these tests do not wait."""
    monkeypatch.setattr(health, "KEPT_SECONDS", 0.0)
    monkeypatch.setattr(health, "WRITTEN_SECONDS", 0.0)
    monkeypatch.setattr("ptkstore.api.metrics.KEPT_SECONDS", 0.0)


def readiness(api: Api) -> tuple[int, dict[str, Any]]:
    reply = api.client().get("/readyz")
    return reply.status_code, reply.json()


def write_end(pipe: Path) -> int:
    """The other end of a pipe, once somebody has it open."""
    until = time.monotonic() + 60
    while True:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            assert time.monotonic() < until
            time.sleep(0.02)


def home(api: Api) -> Path:
    return api.world.service.settings.root


def test_a_store_that_is_well_is_ready(api: Api) -> None:
    assert api.client().get("/healthz").json() == {"status": "ok"}
    assert readiness(api) == (200, {"ready": True, "parts": WELL, "codes": {}})


def test_a_part_that_hangs_makes_it_unready_and_holds_up_nobody_who_asks(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert readiness(api)[0] == 200
    monkeypatch.setattr(health, "SLOW_SECONDS", 0.2)
    manifest = home(api) / "lake" / "ptks" / "ptk.ptk" / "v00000001" / "manifest.json"
    manifest.parent.mkdir(parents=True)
    os.mkfifo(manifest)  # whoever opens it waits
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(readiness, api)
        end = write_end(manifest)  # somebody reads by now, and goes on doing so
        try:
            time.sleep(2 * health.SLOW_SECONDS)
            assert readiness(api) == (
                503,
                {
                    "ready": False,
                    "parts": {**WELL, "lake": "failing"},
                    "codes": {"lake": "unavailable"},
                },
            )
            assert not first.done()
        finally:
            os.close(end)
    manifest.unlink()
    manifest.parent.rmdir()
    assert readiness(api)[0] == 200


@pytest.mark.parametrize("part", ["keys", "lake", "raw"])
def test_a_directory_that_is_not_mounted_makes_it_unready(api: Api, part: str) -> None:
    readiness(api)  # the lake is made by the first writer
    place = home(api) / part
    place.rename(place.with_name("elsewhere"))
    place.write_text("")
    status, told = readiness(api)
    assert (status, told["ready"], told["parts"]) == (503, False, {**WELL, part: "failing"})
    assert told["codes"] == {part: "unavailable"}
    place.unlink()
    place.with_name("elsewhere").rename(place)
    assert readiness(api)[0] == 200


def test_rows_that_cannot_be_written_are_refused_as_unavailable_and_taken_later(api: Api) -> None:
    api.world.stream()
    client = api.acting()
    assert ingest(client, arrow(trips([0.1])), **{"Idempotency-Key": "before"}).status_code == 200
    place = home(api) / "raw"
    place.rename(place.with_name("elsewhere"))
    place.write_text("")
    assert problem(ingest(client, arrow(trips([0.2])), **{"Idempotency-Key": "then"})) == (503, "unavailable")
    place.unlink()
    place.with_name("elsewhere").rename(place)
    told = ingest(client, arrow(trips([0.2])), **{"Idempotency-Key": "then"}).json()
    assert (told["accepted"], told["repeated"]) == (1, False)


@pytest.mark.parametrize(
    ("part", "setting", "place"),
    [
        ("catalog", "database_url", "sqlite:///{}/catalog.db"),
        ("keys", "keys_url", "{}/keys"),
        ("lake", "lake_url", "{}/lake"),
        ("raw", "raw_url", "{}/raw"),
    ],
)
def test_a_full_disk_makes_it_unready(tmp_path: Path, part: str, setting: str, place: str) -> None:
    with (
        full_disk.mounted(tmp_path / "disk") as disk,
        Api(tmp_path / "home", **{setting: place.format(disk)}) as api,
    ):
        assert readiness(api)[0] == 200
        full_disk.fill(disk)
        status, told = readiness(api)
        assert (status, told["parts"], told["codes"]) == (
            503,
            {**WELL, part: "failing"},
            {part: "unavailable"},
        )
        full_disk.free(disk)
        assert readiness(api)[0] == 200
        assert readiness(api)[0] == 200
        left = {path.name for path in disk.rglob("*") if path.name.startswith((".unfinished", "probe"))}
        assert left <= {"probe"}  # a lock


def test_rows_for_whose_key_there_is_no_room_are_refused_as_unavailable_and_taken_later(
    tmp_path: Path,
) -> None:
    with (
        full_disk.mounted(tmp_path / "disk") as disk,
        Api(tmp_path / "home", keys_url=f"{disk}/keys") as api,
    ):
        api.world.stream()
        client = api.acting()
        full_disk.fill(disk)
        assert problem(ingest(client, arrow(trips([0.1])))) == (503, "unavailable")
        full_disk.free(disk)
        assert ingest(client, arrow(trips([0.1]))).json()["accepted"] == 1


@pytest.mark.long
def test_a_catalog_that_somebody_writes_is_busy_and_fails_once_that_takes_too_long(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "LOCK_SECONDS", 0.05)
    assert readiness(api)[0] == 200
    with api.world.service.begin():
        assert readiness(api) == (200, {"ready": True, "parts": WELL, "codes": {}})
        monkeypatch.setattr(health, "BUSY_SECONDS", 0.0)
        assert readiness(api)[1]["codes"] == {"catalog": "unavailable"}
    assert readiness(api)[0] == 200


def test_how_long_a_catalog_is_held_counts_from_the_first_try_that_found_it_so(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "LOCK_SECONDS", 0.05)
    now = 1_000_000.0
    parts = health.Parts(api.world.service, OnlineRows(api.world.service), clock=lambda: now)
    for _ in range(2):  # in a new process, and again after a long time in which it was free, or nobody asked
        with api.world.service.begin():
            for later, state in ((1.0, "ok"), (59.0, "ok"), (59.0, "ok"), (2.0, "failing")):
                now += later
                assert parts.states()[0]["catalog"] == state
        now += 1.0
        assert parts.states()[0]["catalog"] == "ok"
        now += 3_600.0
    for _ in range(2):  # held each time that somebody asks, and nobody knows how it was between
        with api.world.service.begin():
            now += 600.0
            assert parts.states()[0]["catalog"] == "ok"


def test_what_is_well_is_written_to_once_in_a_while(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "WRITTEN_SECONDS", 60.0)
    assert readiness(api)[0] == 200
    monkeypatch.setattr(health, "LOCK_SECONDS", 60.0)
    with api.world.service.begin():  # whoever wrote would wait
        assert readiness(api)[0] == 200


def test_a_catalog_of_another_schema_makes_it_unready(api: Api) -> None:
    with api.world.service.begin() as uow:
        uow._connection.exec_driver_sql("UPDATE meta SET value = '99' WHERE name = 'schema_version'")  # type: ignore[attr-defined]
        uow.commit()
    status, told = readiness(api)
    assert (status, told["codes"]) == (503, {"catalog": "catalog-outdated"})


def test_a_catalog_that_does_not_answer_makes_it_unready(tmp_path: Path, postgres: Any) -> None:
    with (
        postgres.fresh_database() as url,
        Api(tmp_path / "home", database_url=url) as api,
    ):
        assert readiness(api)[0] == 200
        with postgres.connect() as connection:
            name = url.partition("@/")[2].partition("?")[0]
            connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
            )
            try:
                status, told = readiness(api)
            finally:
                connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        assert (status, told["codes"]["catalog"]) == (503, "unavailable")
        assert readiness(api)[0] == 200


def test_redis_counts_where_it_is_used(tmp_path: Path) -> None:
    with Api(tmp_path / "home", redis_url="redis://127.0.0.1:9/0") as api:
        status, told = readiness(api)
        assert (status, told["parts"]["redis"], told["codes"]) == (503, "failing", {"redis": "unavailable"})


def test_redis_that_answers_is_well(tmp_path: Path, redis_server: Any) -> None:
    with Api(tmp_path / "home", redis_url=redis_server.client_url) as api:
        assert readiness(api)[1]["parts"]["redis"] == "ok"


@pytest.mark.real
def test_the_redis_of_the_machine_is_told_of_and_holds_up_no_request(api: Api) -> None:
    with RedisServer(home(api)) as server:
        assert readiness(api)[1]["parts"]["redis"] == "ok"
        place = Path(server.client_url.removeprefix("unix://"))
    assert readiness(api)[1]["parts"]["redis"] == "unused"
    place.parent.mkdir(mode=0o700)
    try:
        place.touch()  # as a server that was killed leaves it
        status, told = readiness(api)
    finally:
        place.unlink()
        place.parent.rmdir()
    assert (status, told["ready"], told["parts"]["redis"], told["codes"]) == (200, True, "silent", {})


@pytest.mark.real
def test_the_redis_of_devices_is_told_of_and_holds_up_no_request(api: Api, tmp_path: Path) -> None:
    with ForgetfulRedisServer(home(api)):
        assert readiness(api)[1]["parts"]["devices"] == "ok"
    assert readiness(api)[1]["parts"]["devices"] == "unused"
    with Api(tmp_path / "other", devices_redis_url="redis://127.0.0.1:9/0") as other:
        status, told = readiness(other)
    assert (status, told["ready"], told["parts"]["devices"], told["codes"]) == (200, True, "silent", {})


def test_a_process_that_falls_silent_makes_it_unready_and_requests_are_served(api: Api) -> None:
    for role in ProcessRole:
        api.world.service.report_alive(role, "a")
    assert readiness(api)[1]["parts"] == {**WELL, "worker": "ok", "relay": "ok", "schedule": "ok"}
    api.world.clock.pass_(seconds=SILENT_AFTER.total_seconds() - 10)
    api.world.service.report_alive(ProcessRole.RELAY, "b")
    api.world.clock.pass_(seconds=20)
    status, told = readiness(api)
    silent = dict.fromkeys(("worker", "schedule"), "unavailable")
    assert (status, told) == (503, {"ready": False, "parts": {**WELL, "relay": "ok"}, "codes": silent})
    for_a_balancer = api.client().get("/readyz", params={"only": "requests"})
    assert (for_a_balancer.status_code, for_a_balancer.json()) == (200, {**told, "ready": True})
    for role in ProcessRole:
        api.world.service.report_alive(role, "c")
    assert readiness(api)[0] == 200


def test_lost_rows_are_told_until_they_are_back_and_requests_are_served(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(online_check, "EVERY_SECONDS", 0.0)
    world, admin = api.world, api.acting(Role.ADMINISTRATOR, team="operators")
    name = "ptk_online_rows_lost", "taxi.speed"

    def told(state: str) -> bool:
        status, said = readiness(api)
        assert (status, said["ready"], said["codes"]) == (200, True, {})
        return bool(said["parts"]["online"] == state)

    world.register()
    world.publish(0)
    assert told("ok")
    assert name not in samples(admin.get("/metrics"))
    version = world.views.shown.pop("taxi.speed")  # as a FLUSHALL does
    until(lambda: told("lost"), "the loss to be told")
    assert samples(admin.get("/metrics"))[name] == 1
    assert world.service.repair_online() == ("taxi.speed",)
    assert world.service.lost_online() == {"taxi.speed"}  # nobody has written them yet
    world.work("flip")
    assert world.views.shown == {"taxi.speed": version}
    until(lambda: told("ok"), "the rows to be back")
    until(lambda: name not in samples(admin.get("/metrics")), "no rows to be lost")


def test_an_online_store_that_does_not_answer_is_not_told_as_lost(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(ptk_ids: object) -> frozenset[str]:
        raise Unavailable("the online store does not answer")

    api.world.register()
    api.world.publish(0)
    monkeypatch.setattr(api.world.views, "lost", away)
    api.app.state.parts.online.ask()
    assert readiness(api)[1]["parts"]["online"] == "ok"


def test_a_part_that_fails_makes_it_unready_for_a_balancer_too(api: Api) -> None:
    readiness(api)  # the lake is made by the first writer
    place = home(api) / "lake"
    place.rename(place.with_name("elsewhere"))
    place.write_text("")
    assert api.client().get("/readyz", params={"only": "requests"}).status_code == 503


# metrics


@pytest.mark.parametrize("token", [None, "ptk_none", TOKEN])
def test_metrics_need_a_token(api: Api, token: str | None) -> None:
    assert problem(api.client(token).get("/metrics")) == (401, "unauthenticated")


def test_metrics_are_for_whoever_may_see_the_whole_store(api: Api) -> None:
    assert problem(api.acting(*STREAM_ROLES).get("/metrics")) == (403, "not-allowed")
    assert api.acting(Role.ADMINISTRATOR, team="operators").get("/metrics").status_code == 200
    officer = api.acting(Role.OFFICER, team="officers")
    assert problem(officer.get("/metrics")) == (403, "not-allowed")
    api.identity.grant(Grant("officers", "*", Role.OFFICER))
    assert officer.get("/metrics").status_code == 200


def test_a_collector_has_a_token_of_its_own(tmp_path: Path) -> None:
    with Api(tmp_path / "home", metrics_token=TOKEN) as api:
        collector = api.client(TOKEN)
        assert collector.get("/metrics").status_code == 200
        assert problem(collector.get("/v1/streams")) == (401, "unauthenticated")
        assert problem(api.client(TOKEN[:-1]).get("/metrics")) == (401, "unauthenticated")


def test_the_collectors_token_is_not_printed(tmp_path: Path) -> None:
    env = {"PTK_HOME": str(tmp_path), "PTK_METRICS_TOKEN": TOKEN}
    shown = CliRunner().invoke(command, ["config", "--json"], env=env).stdout
    assert "PTK_METRICS_TOKEN" in {row["name"] for row in json.loads(shown)}
    assert TOKEN not in shown


def samples(reply: httpx.Response) -> dict[tuple[str, ...], float]:
    """Values by name and labels."""
    return {
        (one.name, *one.labels.values()): one.value
        for family in text_string_to_metric_families(reply.text)
        for one in family.samples
    }


def test_metrics_say_what_waits_what_is_left_and_who_lives(api: Api) -> None:
    world, admin = api.world, api.acting(Role.ADMINISTRATOR, team="operators")
    world.register()
    world.publish(0)
    world.service.report_alive(ProcessRole.RELAY, "a")
    world.clock.pass_(seconds=5)
    before = samples(admin.get("/metrics"))
    assert before["ptk_version", "lake", "taxi.speed"] == 1
    assert before["ptk_jobs_ended", "train", "published"] == 1
    assert before["ptk_budget_left_epsilon", "taxi"] == pytest.approx(0.9, abs=1e-9)
    assert before["ptk_processes", "relay"] == 1
    assert before["ptk_processes", "worker"] == 0
    assert before["ptk_process_silent_seconds", "relay"] == pytest.approx(5)
    waiting = before["ptk_jobs_waiting", "prepare"]
    world.ingest((1.5,))
    world.close(2)
    world.clock.pass_(seconds=30)
    after = samples(admin.get("/metrics"))
    assert after["ptk_jobs_waiting", "prepare"] == waiting + 1
    assert after["ptk_jobs_oldest_seconds", "prepare"] == pytest.approx(30)


def test_metrics_are_ids_and_public_numbers(api: Api) -> None:
    client = api.acting(Role.ADMINISTRATOR, team="operators")
    client.get("/v1/streams/canary")
    client.get("/canary?canary=canary")
    client.request("CANARY", "/v1/streams")
    text = client.get("/metrics").text
    assert 'ptk_http_requests_total{method="GET",route="/v1/streams/{stream}",status="404"} 1.0' in text
    assert 'method="other"' in text
    assert "canary" not in text.lower()
    assert "ingest" not in "".join(line for line in text.splitlines() if "seconds" in line)


def test_there_are_no_more_samples_where_there_are_more_subscriptions(api: Api) -> None:
    api.world.register()
    admin = api.acting(Role.ADMINISTRATOR, team="operators")

    def catalogs() -> set[tuple[str, ...]]:
        return {key for key in samples(admin.get("/metrics")) if not key[0].startswith("ptk_http")}

    def subscribe(number: int) -> None:
        subscription, _ = api.world.service.subscribe_to_ptk("taxi.speed", "http://127.0.0.1:9/")
        with api.world.service.begin() as uow:
            letter = t.dead_letters.insert().values(subscription_id=subscription.id, number=number)
            uow._connection.execute(letter.values(code="timeout", at=api.world.clock.now()))  # type: ignore[attr-defined]
            uow.commit()

    subscribe(1)
    one = catalogs()
    for number in range(2, 12):
        subscribe(number)
    assert catalogs() == one
