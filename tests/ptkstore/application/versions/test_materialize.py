"""Rows that the online store lost: written again on request, and found by the self-check."""

from __future__ import annotations

import pytest

from ptkstore.domain.jobs import JobKind, JobState
from ptkstore.domain.versions.provenance import Provenance
from ptkstore.errors import UnknownName
from tests.support.receiver import WebhookReceiver
from tests.support.world import World

PTK = "taxi.speed"


@pytest.fixture
def published(world: World) -> World:
    """A PTK with two versions shown."""
    world.register()
    for day in range(2):
        world.publish(day)
    return world


def test_the_newest_version_is_written_again_and_nobody_is_told_twice(
    published: World, webhook_receiver: WebhookReceiver
) -> None:
    subscription, secret = published.service.subscribe_to_ptk(PTK, webhook_receiver.endpoint())
    webhook_receiver.trust(secret)
    published.views.shown.clear()
    published.views.staged.clear()
    assert published.service.materialize_ptk(PTK) == 2
    assert published.service.materialize_ptk(PTK) == 2
    published.work("flip", "notify")
    assert published.views.staged == [(PTK, 2)]
    assert published.views.shown == {PTK: 2}
    flip = published.cursor(JobKind.FLIP, PTK)
    assert (flip.position, flip.state) == (2, JobState.IDLE)
    assert not webhook_receiver.accepted
    assert published.cursor(JobKind.NOTIFY, subscription.id).state is JobState.IDLE  # nothing was tried
    published.publish(2)
    assert published.views.shown == {PTK: 3}
    published.work("notify")
    assert [call.message["data"]["version"] for call in webhook_receiver.accepted if call.message] == [3]


def test_what_has_no_version_cannot_be_written(world: World) -> None:
    with pytest.raises(UnknownName, match="PTK"):
        world.service.materialize_ptk(PTK)
    world.register()
    with pytest.raises(UnknownName, match="published version"):
        world.service.materialize_ptk(PTK)


def test_the_check_finds_lost_rows_tells_the_owner_once_and_has_them_written(published: World) -> None:
    published.register("other")
    assert published.service.repair_online() == ()
    published.views.shown.clear()
    assert published.service.repair_online() == (PTK,)
    assert published.service.repair_online() == ()  # a worker is about to write them
    assert published.notices() == [(PTK, "online-rows-lost")]
    published.work("flip")
    assert published.views.shown == {PTK: 2}
    assert published.service.repair_online() == ()


def test_a_deregistered_ptk_is_not_missed(published: World) -> None:
    published.service.deregister_ptk(PTK)
    published.work("flip")
    assert published.views.shown == {}
    assert published.service.repair_online() == ()


def test_views_of_an_earlier_program_are_completed_by_the_check_and_at_the_next_flip(
    published: World,
) -> None:
    published.views.silent[PTK] = (1, 2, 7)
    published.register("other")  # shows nothing yet
    published.views.silent["taxi.other"] = (1,)
    assert published.service.repair_online() == ()
    told = published.views.told
    assert set(told) == {(PTK, 1), (PTK, 2), (PTK, 7)}
    first = told[PTK, 1]
    assert (first.epsilon, first.privacy_unit, first.assured.words()) == (0.1, "record", "library")
    assert first.oldest == first.newest == ("2026-01-05T00:00:00+00:00", "2026-01-06T00:00:00+00:00")
    assert told[PTK, 2].oldest == first.oldest
    assert told[PTK, 2].newest == ("2026-01-06T00:00:00+00:00", "2026-01-07T00:00:00+00:00")
    assert told[PTK, 7] == Provenance()  # the catalog has no such version
    told.clear()
    published.views.silent[PTK] = (2,)
    published.publish(2)
    assert set(told) == {(PTK, 2), ("taxi.other", 1)}  # the other one shows a version now, too
