"""What needs a reader, one by one: each trouble is told once, with its place, and what is cut is counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ptkstore.application.operations.read_overview import (
    BudgetFacts,
    ExposureFacts,
    FailedTraining,
    GivenUpPtk,
    Listed,
    Overview,
    StreamFacts,
    TroubledSubscription,
)
from ptkstore.console.pages import overview as page
from tests.support.builders import stream_named
from tests.support.world import NOW

CALM = StreamFacts("taxi", "taxi", 1, 0, BudgetFacts(6, 0, None), ExposureFacts(True, "fine"))
NONE: Any = Listed(0, ())


def overview(*streams: StreamFacts, **more: Any) -> Overview:
    """An overview without trouble, but for what is given."""
    given: dict[str, Any] = dict.fromkeys(
        ("failed_trainings", "given_up", "waiting", "work", "published"), NONE
    )
    given |= {"at": NOW, "since": NOW, "parts": {}, "failing": (), "streams": streams, "ptks": 1}
    given |= {"subscriptions": 0, "troubled_subscriptions": NONE, "notices": NONE}
    return Overview(**{**given, **more})


def needs(found: Overview) -> list[tuple[str, str, str, bool]]:
    return [(one.kind, one.href, one.text, one.bad) for one in page._needs(found)]


def test_a_calm_store_needs_nobody() -> None:
    assert needs(overview(CALM)) == []
    assert needs(overview(replace(CALM, budget=None, exposure=None))) == []


def test_each_trouble_is_told_with_its_place() -> None:
    exposed = replace(CALM, exposure=ExposureFacts(False, "Rows of window 3 should be gone."))
    assert needs(overview(exposed)) == [
        ("exposure", "/streams/taxi#exposed", "Rows of window 3 should be gone.", True)
    ]
    given_up = Listed.of([GivenUpPtk("taxi.speed", "timeout")])
    assert needs(overview(given_up=given_up)) == [
        ("given up", "/ptks/taxi.speed", "It is trained no longer: timeout. A developer can resume it.", True)
    ]
    assert [kind for kind, *_ in needs(overview(failing=("catalog",)))] == ["service"]


@pytest.mark.parametrize(
    ("trouble", "text", "bad"),
    [
        (("ok", 1, None), "Subscription sub_1 has 1 dead letter.", False),
        (("ok", 2, None), "Subscription sub_1 has 2 dead letters.", False),
        (("failing", 0, None), "Subscription sub_1 is failing.", True),
        (("disabled", 3, "gone"), "Subscription sub_1 is disabled (gone) and has 3 dead letters.", True),
    ],
)
def test_a_subscription_in_trouble_is_told_in_a_sentence(
    trouble: tuple[str, int, str | None], text: str, bad: bool
) -> None:
    listed = Listed.of([TroubledSubscription("sub_1", "taxi.speed", *trouble)])
    found = needs(overview(troubled_subscriptions=listed))
    assert found == [("delivery", "/subscriptions/sub_1", text, bad)]


def test_what_lists_leave_out_is_counted() -> None:
    failed = [FailedTraining(f"taxi.p{number}", 1, "killed", NOW) for number in range(130)]
    listed: Any = Listed.of(failed)
    assert page._beyond(listed, None, NONE) == 130 - len(listed.items) > 0


def test_a_card_of_a_stream_says_what_is_exposed_and_what_may_be_read() -> None:
    exposed = replace(CALM, exposure=ExposureFacts(False, "left"))
    stream = stream_named()
    for facts, readable in ((CALM, True), (exposed, False)):
        card = page._card(stream, facts, readable=readable)
        assert (card["exposed"], card["readable"]) == (facts is exposed, readable)
    assert page._card(stream, replace(CALM, exposure=None), readable=True)["exposed"] is False
