"""`ptk status`: what it says of a home, and what it says again and again."""

from __future__ import annotations

import shutil
import socket
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import ptkstore
from ptkstore.adapters.processes import ForgetfulRedisServer, Supervisor
from ptkstore.application.operations.liveness import ProcessRole, report_alive
from ptkstore.application.operations.read_overview import ExposureFacts, GivenUpPtk, Listed
from ptkstore.cli.output import console
from ptkstore.cli.service.status import shown
from ptkstore.domain.notices import Notice
from ptkstore.domain.subscriptions import DeadLetter
from ptkstore.errors import Unavailable
from ptkstore.wiring import Service
from tests.support.command_line import Line, repository
from tests.support.command_line import ptk as ptk
from tests.support.command_line import stream as stream
from tests.support.local import local


def test_an_empty_store_says_how_to_begin(ptk: Line) -> None:
    ptk.run("team", "create", "taxi")
    told = ptk.run("status").stdout
    assert "Healthy at " in told
    assert "No work is done without relay, schedule and worker; ptk up starts them." in told
    assert "Nothing needs you." in told
    assert "No stream yet. Create one by ptk stream create, or try ptk demo." in told


def test_what_needs_somebody_comes_with_the_command_that_tells_more(stream: Line, tmp_path: Path) -> None:
    stream.run("apply", repository(tmp_path / "taxi"))
    made = stream.json("subscribe", "taxi.speed", "--endpoint", "redis-stream:news")["id"]
    with ptkstore.connect(stream.home) as store, local(store).begin() as uow:
        now = local(store).clock.now()
        uow.notify_owner(Notice(now, "taxi", "killed", ptk_id="taxi.speed", window_index=3))
        uow.subscriptions.add_dead_letter(DeadLetter(made, 1, "timeout", now))
        uow.commit()
    told = stream.run("status").stdout
    lines = told.splitlines()
    assert "  taxi.speed  training on window 3 failed (killed) at " in told
    assert (
        " UTC. Its process was killed. Something of the service or its machine went wrong: see the worker's log."
        " See: ptk show taxi.speed"
    ) in " ".join(told.split())
    assert f"  taxi.speed  subscription {made} has 1 dead letter. See: ptk deliveries {made}" in lines
    assert "Waiting: 1 PTK" in lines
    assert "  taxi.speed  has no version yet" in lines


def test_a_store_whose_windows_do_not_open_is_not_healthy(stream: Line) -> None:
    assert stream.json("status")["parts"]["ledger"] == "ok"
    shutil.rmtree(stream.home / "keys" / "streams")
    told = stream.run("status").stdout
    assert told.startswith("Not healthy at ")
    assert " Failing: ledger." in told
    assert (
        "  ledger  does not continue what the key store saw, so no window opens; see: ptk ledger verify\n"
        in told
    )
    assert stream.json("status")["failing"] == ["ledger"]
    key = "there is no key of stream 'taxi'; the key store has none: is PTK_KEYS_URL the key store of this catalog"
    assert key in stream.run("ledger", "verify", code=1).stdout
    assert key in stream.refused("ledger", "recover", code=2)


def test_parts_that_do_not_answer_are_named_in_the_first_line(stream: Line) -> None:
    with ptkstore.connect(stream.home) as store:
        overview = local(store).overview(parts={"redis": "silent", "lake": "ok", "worker": "silent"})
    with console.capture() as told:
        console.print(shown(overview))
    line = told.get().splitlines()[0]
    assert line.startswith("Healthy at ")
    assert line.endswith(" Silent: redis. No work is done without worker; ptk up starts it.")


def test_a_window_that_is_prepared_or_lost_its_worker_is_shown(stream: Line) -> None:
    assert "Unfinished" not in stream.run("status").stdout
    stream.run("close", "taxi", "--until", "2026-01-06T00:00:00+00:00")
    told = stream.run("status").stdout
    assert "Unfinished: 1 job\n  taxi  preparation on window 0 waits; the window closed at " in told
    with ptkstore.connect(stream.home) as store, local(store).begin() as uow:
        now = local(store).clock.now()
        assert uow.jobs.claim("prepare/taxi/0", now, timedelta(hours=1)) is not None
        uow.commit()
    assert "preparation on window 0 runs; the window closed at " in stream.run("status").stdout
    with ptkstore.connect(stream.home) as store, local(store).begin() as uow:
        uow.jobs.extend(uow.jobs.get("prepare/taxi/0"), now, timedelta(seconds=-1))
        uow.commit()
    told = " ".join(stream.run("status").stdout.split())
    assert (
        "window 0 was interrupted: its worker stopped reporting, and the next worker takes it; the window"
        in told
    )


def test_a_home_whose_processes_are_kept_running_and_do_not_answer_yet_starts(stream: Line) -> None:
    with Supervisor(stream.home):
        told = stream.run("status").stdout
        assert told.startswith("Starting at ")
        words = "No work is done until relay, schedule and worker answer; the logs are in the folder log of the home."
        assert [words in told, "ptk up starts" in told] == [True, False]
        assert stream.json("status")["parts"]["worker"] == "starting"
        with ptkstore.connect(stream.home) as store:
            service = local(store)
            for role in (ProcessRole.RELAY, ProcessRole.SCHEDULE):
                report_alive(role, "a", begin=service.begin, clock=service.clock)
        told = stream.run("status").stdout
        assert " No work is done until worker answers; the logs " in told
        shutil.rmtree(stream.home / "keys" / "streams")
        assert stream.run("status").stdout.startswith("Not healthy at ")
    assert stream.json("status")["parts"]["worker"] == "silent"


def test_a_redis_that_is_named_and_does_not_answer_fails(
    stream: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "redis" not in stream.json("status")["parts"]  # none is named, so none is asked
    with ForgetfulRedisServer(stream.home) as server:
        monkeypatch.setenv("PTK_REDIS_URL", server.client_url)
        seen = stream.json("status")
        assert (seen["parts"]["redis"], seen["failing"]) == ("ok", [])
    with socket.create_server(("127.0.0.1", 0)) as other:  # takes the call and says nothing
        monkeypatch.setenv("PTK_REDIS_URL", f"redis://:hunter2@127.0.0.1:{other.getsockname()[1]}/0")
        seen = stream.json("status")
        assert (seen["parts"]["redis"], seen["failing"], seen["healthy"]) == ("failing", ["redis"], False)
        told = stream.run("status").stdout
    assert told.startswith("Not healthy at ")
    assert " Failing: redis." in told
    advice = "does not answer: look whether its server runs, and whether PTK_REDIS_URL names it"
    assert f"  redis  {advice}\n" in told
    assert "hunter2" not in told


def test_a_version_that_is_still_tried_is_no_dead_letter(stream: Line, tmp_path: Path) -> None:
    stream.run("apply", repository(tmp_path / "taxi"))
    made = stream.json("subscribe", "taxi.speed", "--endpoint", "redis-stream:news")["id"]
    told = stream.refused("redeliver", made, "--version", "3", code=2)
    assert told.endswith("; see: ptk deliveries; a version that is still tried, or waits, is no dead letter")


def test_a_home_whose_processes_ended_is_not_running(stream: Line) -> None:
    with ptkstore.connect(stream.home) as store:
        service = local(store)
        with service.begin() as uow:
            uow.operations.saw(ProcessRole.WORKER, "a", service.clock.now().replace(year=2000))
            uow.commit()
    assert "Not running at " in stream.run("status").stdout
    assert stream.json("status")["failing"] == ["worker"]


def test_the_last_day_says_units_and_what_is_not_shown(stream: Line) -> None:
    stream.run("close", "taxi", "--until", "2026-01-06T00:00:00+00:00")
    assert stream.json("status")["streams"][0]["closed_windows"] == 1
    lines = stream.run("status").stdout.splitlines()
    assert "  closed     1 window: taxi 1" in lines
    assert "  published  0 versions" in lines
    with ptkstore.connect(stream.home) as store:
        seen = store.service.overview()
    with console.capture() as printed:
        (one,) = seen.streams
        console.print(
            shown(replace(seen, published=None, notices=None, streams=(replace(one, closed_windows=None),)))
        )
    unseen = "not shown to you: your roles do not allow it"
    day = printed.get().split("Last 24 hours\n")[1].splitlines()
    assert day == [f"  {word.ljust(11)}{unseen}" for word in ("closed", "published", "notices")]


def test_an_exposure_check_that_fails_and_ptks_that_were_given_up_need_somebody(stream: Line) -> None:
    with ptkstore.connect(stream.home) as store:
        seen = store.service.overview()
    (one,) = seen.streams
    gone = tuple(GivenUpPtk(f"taxi.p{number}", "timeout") for number in range(7))
    failing = replace(one, exposure=ExposureFacts(False, "The exposure check fails."))
    with console.capture() as printed:
        console.print(shown(replace(seen, streams=(failing,), given_up=Listed(len(gone), gone))))
    lines = [line.strip() for line in printed.get().splitlines()]
    assert "taxi     The exposure check fails. See: ptk stream show taxi" in lines
    given_up = [line for line in lines if "given up (timeout)." in line]
    assert [line.split()[0] for line in given_up] == [f"taxi.p{number}" for number in range(5)]
    assert all(line.endswith(f"by: ptk resume taxi.p{number}") for number, line in enumerate(given_up))
    assert "and 2 more" in lines


def test_watching_and_programs_do_not_go_together(stream: Line) -> None:
    assert stream.run("status", "--watch", "--json", code=2).stdout.count("give one of them") == 1


def test_it_is_watched_until_interrupted_also_while_the_store_is_away(
    stream: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise KeyboardInterrupt

    overview, answers = Service.overview, iter((True, False, True))

    def sometimes(service: Service) -> object:
        if next(answers):
            return overview(service)
        raise Unavailable("the database is away")

    monkeypatch.setattr(Service, "overview", sometimes)
    monkeypatch.setattr(time, "sleep", sleep)
    told = stream.run("status", "--watch", "--every", "2").stdout
    assert waits == [2.0, 2.0, 2.0]
    assert "Nothing needs you." in told
    assert told.count("Streams") == 1 or "End with Ctrl-C." in told


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "width", 200, raising=False)
