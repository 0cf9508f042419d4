"""`ptk subscribe`, `subscriptions`, `deliveries`, `redeliver`, `enable` and `rotate-secret`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptkstore.cli.consumers.subscriptions import attempts_for_people
from ptkstore.cli.tables import second
from ptkstore.domain.jobs import JobKind
from ptkstore.domain.subscriptions import DeadLetter
from tests.support.cases import case
from tests.support.command_line import Line
from tests.support.receiver import WebhookReceiver
from tests.support.world import World

PTK = "taxi.speed"
NOBODY = "sub_0000000000000000"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A home with a published version."""
    made = World(tmp_path / "home")
    made.stream()
    made.register()
    made.publish(0)
    return made


@pytest.fixture
def ptk(tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> Line:
    """Its command line; webhooks may go to this machine."""
    monkeypatch.setenv("PTK_WEBHOOK_NETWORKS", "127.0.0.0/8")
    return Line(tmp_path / "home")


def test_a_subscription_is_followed_repaired_and_renewed(
    ptk: Line, world: World, webhook_receiver: WebhookReceiver
) -> None:
    made = ptk.json("subscribe", PTK, "--endpoint", webhook_receiver.endpoint())
    webhook_receiver.trust(made["secret"])
    name = made["id"]
    (row,) = ptk.json("subscriptions")
    assert (row["id"], row["status"], row["missed"]) == (name, "ok", 0)
    with world.service.begin() as uow:
        uow.subscriptions.add_dead_letter(DeadLetter(name, 1, "timeout", world.clock.now()))
        uow.commit()
    assert ptk.json("deliveries", name)["dead_letters"][0]["code"] == "timeout"
    assert "timeout" in ptk.run("deliveries", name).output
    assert ptk.json("redeliver", name, "--version", "1") == {"id": name, "dead_letters": 1}
    assert ptk.json("redeliver", name, "--since", "2030-01-01")["dead_letters"] == 0
    world.clock.pass_(days=3650)  # the command line has asked by the clock of this machine
    world.work("redeliver")
    assert [call.webhook_id for call in webhook_receiver.accepted] == [f"msg_{name}_00000001"]
    (attempt,) = ptk.json("subscription", "attempts", name)
    assert (attempt["version"], attempt["status"], attempt["redelivered"]) == (1, 204, True)
    assert "delivered: 204" in ptk.run("subscription", "attempts", name).output
    new = ptk.json("rotate-secret", name, "--overlap-hours", "0")["secret"]
    assert new != made["secret"]
    assert new not in ptk.run("subscriptions").output + ptk.run("deliveries", name).output
    assert ptk.json("disable", name)["status"] == "disabled"
    assert ptk.json("enable", name)["status"] == "ok"
    trail = [(one["action"], one["subject"]) for one in ptk.json("audit-log") if one["outcome"] == "done"]
    assert trail[:2] == [
        ("subscription.create", f"ptk/{PTK}"),
        ("subscription.create", f"subscription/{name}"),
    ]
    assert trail[2:] == [
        (f"subscription.{action}", f"subscription/{name}")
        for action in ("redeliver", "redeliver", "rotate", "disable", "enable")
    ]


def test_a_version_that_waits_for_its_next_attempt_says_which_and_when(
    ptk: Line, world: World, webhook_receiver: WebhookReceiver
) -> None:
    made = ptk.json("subscribe", PTK, "--endpoint", webhook_receiver.endpoint())
    webhook_receiver.trust(made["secret"])
    told = ptk.run("deliveries", made["id"]).stdout
    assert ["no dead letters" in told, "wait" in told.replace("waiting_versions: 0", "")] == [True, False]
    world.publish(1)
    assert "version 2 waits for attempt 1, now" in ptk.run("deliveries", made["id"]).stdout
    world.publish(2)
    world.publish(3)
    world.clock.pass_(days=3650)  # the command line compares with the clock of this machine
    webhook_receiver.answer_next(1, 500)
    world.work("notify")
    (one,) = ptk.json("deliveries", made["id"])["next_attempts"]
    assert (one["version"], one["attempt"], one["redelivered"]) == (2, 2, False)
    assert one["at"] == world.cursor(JobKind.NOTIFY, made["id"]).due_at.isoformat()
    told = ptk.run("deliveries", made["id"]).stdout
    assert f"version 2 waits for attempt 2, at {second(one['at'])} UTC\n" in told
    assert "versions 3 to 4 wait until version 2 is done\n" in told
    assert "no dead letters" in told
    ptk.run("disable", made["id"])
    told = ptk.run("deliveries", made["id"]).stdout
    assert "versions 2 to 4 wait until the subscription is enabled\n" in told
    assert "attempt 2" not in told


def test_a_dead_letter_that_is_sent_again_says_when(ptk: Line, world: World) -> None:
    made = ptk.json("subscribe", PTK, "--endpoint", "redis-stream:news")
    with world.service.begin() as uow:
        for number in (1, 2):
            uow.subscriptions.add_dead_letter(DeadLetter(made["id"], number, "timeout", world.clock.now()))
        uow.commit()
    assert ptk.json("deliveries", made["id"])["next_attempts"] == []
    ptk.run("redeliver", made["id"])
    told = ptk.run("deliveries", made["id"]).stdout
    assert "version 1, a dead letter, waits for attempt 1, now\n" in told


def test_a_stream_has_no_secret_to_show(ptk: Line) -> None:
    output = ptk.run("subscribe", PTK, "--endpoint", "redis-stream:news").output
    assert "hears of every new version" in output
    assert "secret" not in output


def test_streams_of_one_name_are_told_apart_by_team_and_key(ptk: Line, world: World) -> None:
    for team in ("ads", "news"):
        world.service.subscribe_to_ptk(PTK, "redis-stream:news", team=team)
    ptk.run("subscribe", PTK, "--endpoint", "redis-stream:news")
    found = {(one["team"], one["key"]) for one in ptk.json("subscriptions")}
    assert found == {
        ("ads", "ptk:events:ads:news"),
        ("news", "ptk:events:news:news"),
        ("", "ptk:events:-:news"),
    }
    table = ptk.run("subscriptions").stdout
    assert ["ptk:events:ads:news" in table, "after version" in table] == [True, True]
    assert "heard_of_version" not in table  # nothing was sent yet


def test_what_is_unknown_is_named(ptk: Line) -> None:
    for words in [
        ("deliveries", NOBODY),
        ("subscription", "attempts", NOBODY),
        ("redeliver", NOBODY),
        ("enable", NOBODY),
        ("rotate-secret", NOBODY),
    ]:
        with case(str(words)):
            assert NOBODY in ptk.refused(*words, code=2)


def test_a_test_event_that_is_not_taken_is_a_failure_of_the_command(
    ptk: Line, webhook_receiver: WebhookReceiver
) -> None:
    made = ptk.json("subscribe", PTK, "--endpoint", webhook_receiver.endpoint())
    webhook_receiver.trust(made["secret"])
    assert "took the test event: delivered: 2" in ptk.run("subscription", "test", made["id"]).stdout
    webhook_receiver.answer_next(2, 500)
    refused = ptk.run("subscription", "test", made["id"], code=1)
    assert "did not take the test event: refused: 500 in " in refused.stdout
    assert "status-5xx. " in refused.stdout
    assert ptk.json("subscription", "test", made["id"], code=1)["delivered"] is False
    assert "test events are not listed" in ptk.run("subscription", "attempts", made["id"]).stdout


def test_attempts_tell_the_second_at_which_they_were_made() -> None:
    made = {
        "version": 4,
        "attempt": 2,
        "delivered": False,
        "code": "status-5xx",
        "status": 500,
        "seconds": 0.0,
    }
    again = {**made, "at": "2026-01-06T09:04:13.342944+00:00", "redelivered": True}
    (row,) = attempts_for_people([again])
    assert row == {
        "at_utc": "2026-01-06 09:04:13",
        "version": "4 again",
        "attempt": 2,
        "answer": "refused: 500 in under 0.1 s",
    }
