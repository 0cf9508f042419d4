"""Commands about subscribers: who hears of new versions, and what became of the messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from ptkstore.cli.output import (
    DATES,
    AsJson,
    Done,
    Rows,
    console,
    counted,
    print_json,
    print_meanings,
    print_rows,
    reads,
    utc,
)
from ptkstore.cli.ptks.shown import print_fields
from ptkstore.cli.tables import second
from ptkstore.domain.codes import LETTER, sentence_of
from ptkstore.sdk import Store
from ptkstore.sdk.subscriptions import answer_in_words, waiting_in_words

Subscription = Annotated[
    str, typer.Argument(help="The id of the subscription, as `ptk subscriptions` shows it.")
]

subscription_app = typer.Typer(
    no_args_is_help=True, help="The attempts of one subscription, and a test of it."
)

_COLUMNS = "id ptk_id team endpoint key heard_of_version status failures last_code missed"
# before the first message, `heard_of_version` is the version that was there already
_TITLES = {"heard_of_version": "after version"}


@reads
def subscribe(
    store: Store,
    ptk_id: str,
    endpoint: Annotated[str, typer.Option(help="A URL that takes signed webhooks, or redis-stream:NAME.")],
) -> Done:
    """Subscribe an endpoint to a PTK; the signing secret is shown this once."""
    made = store.subscribe_to_ptk(ptk_id, endpoint)
    text = f"{made.id} hears of every new version of {ptk_id}"
    if made.secret:
        text += f"; try it by: ptk subscription test {made.id}"
    return Done(vars(made), f"{text}\n{_secret(made.secret)}" if made.secret else text)


@reads
def list_subscriptions(store: Store, as_json: AsJson = False) -> Rows:
    """List subscriptions: how far each has heard, whether its endpoint answers, what it missed."""
    rows = store.subscriptions()
    if not as_json:
        rows = [{_TITLES.get(name, name): row[name] for name in _COLUMNS.split()} for row in rows]
    return Rows(rows, "Subscriptions", "no subscriptions yet; see: ptk subscribe --help")


@reads
def deliveries(store: Store, subscription_id: Subscription, as_json: AsJson = False) -> None:
    """Show how far a subscription has heard, how its endpoint answers, what waits and when it is tried next."""
    item = store.deliveries(subscription_id)
    if as_json:
        print_json(item)
        return
    waiting = waiting_in_words(item, datetime.now(UTC))
    letters = item.pop("dead_letters")
    del item["next_attempts"]
    print_fields("", {name: value for name, value in item.items() if value not in (None, "")})
    for line in waiting:
        console.print(line, highlight=False, soft_wrap=True)
    print_rows(letters, as_json=False, title="Dead letters", nothing="no dead letters")
    print_meanings(letters, LETTER)


@subscription_app.command("test")
@reads
def send_test_event(store: Store, subscription_id: Subscription) -> Done:
    """Send a signed test event to the endpoint of a subscription, once; exit code 1 if it was not taken.

    The answer is printed here alone: no list of attempts has test events.
    """
    tested = store.test_subscription(subscription_id)
    answer = answer_in_words(tested)
    how = (
        f"took the test event: {answer}"
        if tested["delivered"]
        else f"did not take the test event: {answer}. {_why(tested['code'])}"
    )
    return Done(tested, f"the endpoint of {subscription_id} {how}", failed=not tested["delivered"])


@subscription_app.command("attempts")
@reads
def attempts(store: Store, subscription_id: Subscription, as_json: AsJson = False) -> Rows:
    """List the attempts to deliver to a subscription, the newest first, with what its endpoint answered."""
    rows = store.attempts(subscription_id)
    if not as_json:
        rows = attempts_for_people(rows)
    nothing = "no version was sent yet, or not for 30 days; test events are not listed"
    return Rows(rows, "Attempts", nothing)


def attempts_for_people(documents: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return attempts with their times to the second, as several fall into a minute, and answers in words."""
    return [
        {
            "at_utc": second(one["at"]),
            "version": f"{one['version']}{' again' if one['redelivered'] else ''}",
            "attempt": one["attempt"],
            "answer": answer_in_words(one),
        }
        for one in documents
    ]


@reads
def redeliver(
    store: Store,
    subscription_id: Subscription,
    version: Annotated[int | None, typer.Option(help="The dead letter of this version alone.")] = None,
    since: Annotated[datetime | None, typer.Option(formats=DATES, help="Those since, in UTC.")] = None,
) -> Done:
    """Send dead letters again, all by default, under the ids they had."""
    waiting = store.redeliver(subscription_id, version, utc(since))
    text = f"{counted(waiting, 'dead letter')} will be sent again"
    return Done({"id": subscription_id, "dead_letters": waiting}, text)


@reads
def disable(store: Store, subscription_id: Subscription) -> Done:
    """Send nothing to a subscription until it is enabled again; versions wait for that."""
    store.disable_subscription(subscription_id)
    item = store.deliveries(subscription_id)
    return Done(item, f"{subscription_id} is sent nothing after version {item['heard_of_version']}")


@reads
def enable(
    store: Store,
    subscription_id: Subscription,
    redelivering: Annotated[
        bool, typer.Option("--redeliver/--no-redeliver", help="Send its dead letters again too.")
    ] = True,
) -> Done:
    """Send to a disabled subscription again, from the version on where it stopped."""
    store.enable_subscription(subscription_id, redeliver=redelivering)
    item = store.deliveries(subscription_id)
    return Done(item, f"{subscription_id} is sent to again, after version {item['heard_of_version']}")


@reads
def rotate_secret(
    store: Store,
    subscription_id: Subscription,
    overlap_hours: Annotated[
        float, typer.Option(min=0, help="How long messages carry the old signature too.")
    ] = 24.0,
) -> Done:
    """Sign messages with a new secret; it is shown this once."""
    secret = store.rotate_subscription_secret(subscription_id, overlap_hours)
    return Done({"id": subscription_id, "secret": secret}, _secret(secret))


def _why(code: str) -> str:
    """A code of an attempt, with its sentence."""
    sentence = sentence_of(code, LETTER)
    return code if sentence is None else f"{code}. {sentence}"


def _secret(secret: str) -> str:
    return f"secret, shown this once: {secret}"
