"""Commands about subscribers: who hears of new versions, and what became of the messages."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from ptkstore.cli.output import (
    AsJson,
    HomeOrUrl,
    answers,
    console,
    counted,
    one_line,
    print_json,
    print_rows,
    reading,
)

Subscription = Annotated[
    str, typer.Argument(help="The id of the subscription, as `ptk subscriptions` shows it.")
]

_SHOWN = {
    "id": "id",
    "ptk_id": "ptk_id",
    "team": "team",
    "endpoint": "endpoint",
    "key": "key",
    "heard_of_version": "after version",  # before the first message it is the version that was there already
    "status": "status",
    "failures": "failures",
    "last_code": "last_code",
    "missed": "missed",
}
"""The columns of the table, by their names in JSON."""


@answers
def subscribe(
    ptk_id: str,
    endpoint: Annotated[str, typer.Option(help="A URL that takes signed webhooks, or redis-stream:NAME.")],
    home: HomeOrUrl = None,
    as_json: AsJson = False,
) -> None:
    """Subscribe an endpoint to a PTK; the signing secret is shown this once."""
    with reading(home) as store:
        made = store.subscribe_to_ptk(ptk_id, endpoint)
    if as_json:
        print_json(vars(made))
        return
    console.print(f"{made.id} hears of every new version of {ptk_id}")
    if made.secret:
        console.print(f"secret, shown this once: {made.secret}")


@answers
def list_subscriptions(home: HomeOrUrl = None, as_json: AsJson = False) -> None:
    """List subscriptions: how far each has heard, whether its endpoint answers, what it missed."""
    with reading(home) as store:
        items = store.subscriptions()
    rows = items if as_json else [{title: one[name] for name, title in _SHOWN.items()} for one in items]
    print_rows(
        rows,
        as_json=as_json,
        title="Subscriptions",
        nothing="no subscriptions yet; see: ptk subscribe --help",
    )


@answers
def deliveries(subscription_id: Subscription, home: HomeOrUrl = None, as_json: AsJson = False) -> None:
    """Show how far a subscription has heard, how its endpoint answers, and its dead letters."""
    with reading(home) as store:
        item = store.deliveries(subscription_id)
    if as_json:
        print_json(item)
        return
    letters = item.pop("dead_letters")
    for name, value in item.items():
        if value is not None:
            console.print(f"[bold]{name}[/]: {one_line(value)}", highlight=False)
    print_rows(letters, as_json=False, title="Dead letters", nothing="nothing was missed")


@answers
def redeliver(
    subscription_id: Subscription,
    version: Annotated[int | None, typer.Option(help="The dead letter of this version alone.")] = None,
    since: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"], help="Those since, in UTC.")
    ] = None,
    home: HomeOrUrl = None,
    as_json: AsJson = False,
) -> None:
    """Send dead letters again, all by default, under the ids they had."""
    with reading(home) as store:
        waiting = store.redeliver(
            subscription_id, version, None if since is None else since.isoformat() + "+00:00"
        )
    if as_json:
        print_json({"id": subscription_id, "dead_letters": waiting})
    else:
        console.print(f"{counted(waiting, 'dead letter')} will be sent again")


@answers
def disable(subscription_id: Subscription, home: HomeOrUrl = None, as_json: AsJson = False) -> None:
    """Send nothing to a subscription until it is enabled again; versions wait for that."""
    with reading(home) as store:
        store.disable_subscription(subscription_id)
        item = store.deliveries(subscription_id)
    if as_json:
        print_json(item)
    else:
        console.print(f"{subscription_id} is sent nothing after version {item['heard_of_version']}")


@answers
def enable(
    subscription_id: Subscription,
    redelivering: Annotated[
        bool, typer.Option("--redeliver/--no-redeliver", help="Send its dead letters again too.")
    ] = True,
    home: HomeOrUrl = None,
    as_json: AsJson = False,
) -> None:
    """Send to a disabled subscription again, from the version on where it stopped."""
    with reading(home) as store:
        store.enable_subscription(subscription_id, redeliver=redelivering)
        item = store.deliveries(subscription_id)
    if as_json:
        print_json(item)
    else:
        console.print(f"{subscription_id} is sent to again, after version {item['heard_of_version']}")


@answers
def rotate_secret(
    subscription_id: Subscription,
    overlap_hours: Annotated[
        float, typer.Option(min=0, help="How long messages carry the old signature too.")
    ] = 24.0,
    home: HomeOrUrl = None,
    as_json: AsJson = False,
) -> None:
    """Sign messages with a new secret; it is shown this once."""
    with reading(home) as store:
        secret = store.rotate_subscription_secret(subscription_id, overlap_hours)
    if as_json:
        print_json({"id": subscription_id, "secret": secret})
    else:
        console.print(f"secret, shown this once: {secret}")
