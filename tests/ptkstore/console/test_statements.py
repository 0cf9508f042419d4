"""A page asks the catalog a few times, however much there is to show."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ptkstore.application.identity.authorize import Named
from ptkstore.console.pages.overview import BUDGETS_SHOWN, NOTICES_SHOWN
from ptkstore.domain.identity import STREAM_ROLES, Action, Principal, Role
from ptkstore.domain.jobs import Job, JobKind, JobState, Outcome, job_id
from ptkstore.domain.notices import Notice
from ptkstore.domain.subscriptions import DeadLetter
from ptkstore.domain.versions.versions import Version
from ptkstore.errors import NotAllowed, UnknownName
from tests.support.api_server import Api
from tests.support.console_pages import OF_THE_STORE, PAGES, seen, signed_in
from tests.support.statements import counted
from tests.support.world import World

MOST = 30
PER_BUDGET = 15


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with Api(tmp_path_factory.mktemp("home")) as api:
        fill(api.world, 1, 1)
        yield api


def fill(world: World, streams: int, ptks: int) -> None:
    """So many streams, so many PTKs on the first, each with a version, a subscription and two dead letters.

    As many words are left, and the first PTK has as many trainings of which they tell.
    """
    for number in range(streams):
        name = "taxi" if not number else f"stream{number}"
        if name not in {stream.name for stream in world.service.streams()}:
            world.stream(name, n_max=100_000)
    known = {spec.ptk_id for spec in world.service.ptks()}
    for number in range(ptks):
        name = "speed" if not number else f"speed{number}"
        if f"taxi.{name}" in known:
            continue
        ptk_id = world.register(name, epsilon=0.001)
        with world.service.begin() as uow:
            place = uow.jobs.get(f"place/{ptk_id}")
            uow.versions.add(Version(ptk_id, 1, place.id, f"draft{number}", 0, world.clock.now(), "{}"))
            uow.commit()
        subscription, _ = world.service.subscribe_to_ptk(
            ptk_id, f"http://127.0.0.1:9/hook{number}", team="taxi"
        )
        with world.service.begin() as uow:
            name = job_id(JobKind.TRAIN, "taxi.speed", number)
            job = Job(
                name, JobKind.TRAIN, "taxi", JobState.ENDED, world.clock.now(), number, ptk_id="taxi.speed"
            )
            uow.jobs.add(job.ended(Outcome.FAILED))
            uow.notify_owner(Notice.of_run(job, "killed", world.clock.now()))
            for version in (1, 2):
                uow.subscriptions.add_dead_letter(
                    DeadLetter(subscription.id, version, "timeout", world.clock.now())
                )
            uow.commit()


@pytest.mark.long
def test_the_number_of_statements_does_not_grow_with_what_is_shown(api: Api) -> None:
    asked: dict[str, list[int]] = {path: [] for path in (*PAGES, *OF_THE_STORE)}
    health = api.app.state.parts
    health.states()  # asked about once in a while, and kept
    for streams, ptks in ((1, 1), (BUDGETS_SHOWN + 20, 30)):
        fill(api.world, streams, ptks)
        client, administrator = signed_in(api), signed_in(api, Role.ADMINISTRATOR)
        for path in asked:
            client = administrator if path in OF_THE_STORE else client
            client.get(path)  # what is kept from here on is read
            with counted(api.world) as statements:
                assert client.get(path).status_code == 200
            asked[path].append(len(statements))
    print(asked)
    overview = asked.pop("/console/")
    assert overview[1] <= overview[0] + PER_BUDGET * (BUDGETS_SHOWN - 1)
    assert {path: few == many and many <= MOST for path, (few, many) in asked.items()} == dict.fromkeys(
        asked, True
    ), asked
    page = seen(signed_in(api).get("/console/")).text
    assert page.count("its page shows what is left") == 20
    assert page.count("Its process was killed.") == NOTICES_SHOWN
    trainings = seen(signed_in(api).get("/console/ptks/taxi.speed")).text
    assert trainings.count("killed") == 2 * 30  # its code, and the sentence of its cause
    letters = seen(signed_in(api).get("/console/deliveries")).text
    assert letters.count("timeout") >= 60


def test_streams_for_an_action_are_those_that_each_question_allows(api: Api) -> None:
    names = [stream.name for stream in api.world.service.streams()]
    for who in (
        Principal("taxi", "t", STREAM_ROLES),
        Principal("ads", "t", STREAM_ROLES),
        Principal("taxi", "t", frozenset()),
    ):
        for action in (Action.BUDGET_READ, Action.STREAM_READ, Action.STREAM_INGEST):
            allowed = set()
            for name in names:
                try:
                    api.identity.permit(who, action, Named(stream=name))
                except (NotAllowed, UnknownName):
                    continue
                allowed.add(name)
            assert api.identity.streams_for(who, action) == allowed
