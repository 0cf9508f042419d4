"""Pages about schedulers: who waited when, of the caller's context alone, and what a simulation tells."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from ptkstore.console.charts import Span, wait_chart
from ptkstore.domain.accounting.sharing import Sharing
from ptkstore.domain.identity import Role
from ptkstore.domain.scheduling.choices import Mode, Scheduler
from ptkstore.domain.scheduling.queues import WaitSpan
from ptkstore.domain.scheduling.simulation.requests import MOST_WINDOWS, SimulatedScheduler, SimulationRequest
from tests.support.api_server import Api
from tests.support.console_pages import HOSTILE, seen, signed_in
from tests.support.world import NOW, ORIGIN, STREAM, speed

QUEUE, SIMULATION = f"/console/streams/{STREAM}/queue", f"/console/streams/{STREAM}/simulation"
ASKED = {"rate": "0.5", "windows": "20", "seed": "7", "scheduler": ["conserve", "dpf"]}
RETRIES: dict[str, Any] = {"target": 1e-9, "config": {"accept": {"metric": "loss", "epsilon": 0.2}}}
MINUTE = timedelta(minutes=1)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A stream with two contexts: `served` has a version, `exhausted` a RETRY, and `rolls` is of the other one."""
    with Api(tmp_path_factory.mktemp("home")) as api:
        contexts = Sharing((("north", ("taxi",)), ("south", ("bikes",))), "two companies")
        api.world.stream(
            scheduler=Scheduler.ADAPTIVE,
            scheduler_mode=Mode.CONSERVE,
            retention_windows=4,
            rows_per_window=1_000,
            sharing=contexts,
        )
        api.world.register("exhausted", epsilon=0.1, **RETRIES)
        api.world.register("served", epsilon=0.1)
        api.world.clock.pass_(hours=1)
        api.world.ingest([i / 1_000 for i in range(1_000)])
        api.world.close(1)
        api.world.work("prepare", "allocate", "schedule", "train", "validate", "place", "flip")
        api.world.clock.pass_(hours=1)
        api.world.register("late", epsilon=0.1, **RETRIES)
        own = {"estimator": speed(0.1), "train_frequency": "1d", **RETRIES}
        api.world.service.register_ptk(team="bikes", name="rolls", stream=STREAM, **own)
        yield api


def text_of(page: Any) -> str:
    assert page.status_code == 200
    return re.sub(r"\s+", " ", seen(page).text)


def labels(page: Any) -> list[str]:
    return re.findall(r'class="wait"[^>]* aria-label="([^"]*)"', page.text)


def test_a_queue_shows_who_waited_when_and_who_waits_for_what(api: Api) -> None:
    page = signed_in(api, Role.DEVELOPER).get(QUEUE)
    assert [label.partition(" since")[0] for label in labels(page)] == [
        "taxi.exhausted:",
        "taxi.served:",
        "taxi.late:",
    ]
    exhausted, served, late = labels(page)
    assert "still waits, retry " in exhausted
    assert served.endswith(", version")
    assert " until " in served
    assert late.endswith(", still waits")
    told = text_of(page)
    assert "more-than-it-may-have" in told
    assert page.text.count('class="retried"') == 1
    assert (
        'href="/console/streams/taxi/queue"'
        in signed_in(api, Role.DEVELOPER).get("/console/streams/taxi").text
    )


def test_a_team_sees_its_own_context_alone(api: Api) -> None:
    api.grant("bikes", STREAM, Role.DEVELOPER)
    client = signed_in(api, Role.DEVELOPER, team="bikes")
    assert [label.partition(":")[0] for label in labels(client.get(QUEUE))] == ["bikes.rolls"]
    for path, asked in ((QUEUE, {}), (SIMULATION, ASKED)):
        own, others = (
            client.get(path, params=asked).text,
            signed_in(api, Role.DEVELOPER).get(path, params=asked).text,
        )
        assert ("bikes.rolls" in own, "taxi.late" in own) == (True, False)
        assert ("bikes.rolls" in others, "taxi.late" in others) == (False, True)


def test_only_those_who_may_read_the_queue_see_it(api: Api) -> None:
    producer = signed_in(api, Role.PRODUCER)
    for path in (QUEUE, SIMULATION):
        assert producer.get(path).status_code == 403
    page = producer.get(f"/console/streams/{STREAM}").text
    assert "/queue" not in page
    assert "/simulation" not in page
    stranger = signed_in(api, Role.DEVELOPER, team="trains")
    for path in (QUEUE, SIMULATION):
        assert stranger.get(path).status_code == 404


def test_a_simulation_tells_what_the_store_tells(api: Api) -> None:
    asked = SimulationRequest(0.5, 20, 7, (SimulatedScheduler.CONSERVE, SimulatedScheduler.DPF))
    expected = api.world.service.simulate(STREAM, asked, team="taxi")
    found = text_of(signed_in(api, Role.DEVELOPER).get(SIMULATION, params=ASKED))
    assert f"{expected.arrived} PTKs arrived in 20 windows" in found
    for fared in expected.schedulers:
        assert fared.median is not None
        assert f"{fared.scheduler.value}{fared.released}{fared.median:.2f}" in found
    assert "their first look counts as accepted: taxi.exhausted, taxi.late" in found


def test_a_simulation_of_budgeting_takes_bounds_from_the_form(api: Api) -> None:
    budgeting = {**ASKED, "scheduler": ["budgeting"], "least_significance": "0.1", "most_significance": "0.2"}
    schedulers = (SimulatedScheduler.BUDGETING,)
    request = SimulationRequest(0.5, 20, 7, schedulers, least_significance=0.1, most_significance=0.2)
    (expected,) = api.world.service.simulate(STREAM, request, team="taxi").schedulers
    page = signed_in(api, Role.DEVELOPER).get(SIMULATION, params=budgeting)
    assert f"budgeting{expected.released}{expected.median:.2f}" in text_of(page)
    assert seen(page).fields["most_significance"] == "0.2"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"windows": str(MOST_WINDOWS + 1)}, f"between 1 and {MOST_WINDOWS}"),
        ({"rate": "0"}, "must be a positive number"),
        ({"rate": "nan"}, "must be a positive number"),
        ({"rate": "1e3"}, "rate times windows"),
        ({"rate": HOSTILE}, "are numbers"),
        ({"seed": "9" * 5_000}, "are numbers"),
        ({"windows": "1.5"}, "are numbers"),
        ({"scheduler": ["budgeting"]}, "give least_significance and most_significance"),
        ({"scheduler": ["budgeting"], "least_significance": "2", "most_significance": "1"}, "must be above"),
        ({"least_significance": "2"}, "are for the scheduler"),
        ({"most_significance": HOSTILE}, "are numbers"),
        ({"scheduler": ["lottery"]}, "those of the form"),
        ({"scheduler": ["dpf", "dpf"]}, "each once"),
        ({"scheduler": []}, "one scheduler at least"),
    ],
    ids=str,
)
def test_a_question_that_cannot_be_asked_is_refused_with_the_form(
    api: Api, wrong: dict[str, Any], says: str
) -> None:
    page = signed_in(api, Role.DEVELOPER).get(SIMULATION, params={**ASKED, **wrong})
    assert says in text_of(page)
    assert "<table>" not in page.text
    found = seen(page)
    assert not {"script", "img"} & set(found.tags)
    assert all(len(value) <= 20 for name, value in found.fields.items() if name != "form_key")


def test_waits_are_drawn_on_one_scale_of_time() -> None:
    waits = (
        WaitSpan(
            "a", NOW, NOW + 2 * MINUTE, "version", ((NOW + MINUTE, "retry"), (NOW + 2 * MINUTE, "accept"))
        ),
        WaitSpan("b", NOW + MINUTE, None, None, ()),
        WaitSpan("c", NOW + MINUTE, None, "timeout", ((NOW + 3 * MINUTE, "retry"),)),
    )
    assert wait_chart(waits, NOW + 4 * MINUTE) == (
        Span(0.0, 200.0, ((100.0, "retry"), (200.0, "accept"))),
        Span(100.0, 300.0, ()),
        Span(100.0, 200.0, ((300.0, "retry"),)),
    )
    assert wait_chart((), NOW) == ()
    (alone,) = wait_chart((WaitSpan("a", NOW, None, None, ()),), NOW)  # no time has passed
    assert (alone.x, alone.width) == (0.0, 1.0)
    assert ORIGIN < NOW
