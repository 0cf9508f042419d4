"""The pages of the console that tests open in a browser, and what each has to be like."""

from __future__ import annotations

from typing import Literal

from tests.services.chromium import Tab

PAGES = (
    *(
        "",
        "streams/taxi",
        "streams/taxi?by=ptk",
        "streams/taxi/windows/3",
        "ptks",
        "ptks?q=sped",
        "ptks?q=hours&epsilon=0.3",
        "ptks?q=nothing+at+all",
        "ptks?tag=adz",
        "ptks?tag=ads&age=7",
        "lookup",
        "lookup?q=sped",
        "ptks/taxi.speed",
        "ptks/taxi.speed?version=3&find=1&plot=speed_mean&sort=count&order=down",
        "ptks/taxi.waits_long",
        "ptks/taxi.speed/lookup",
        "ptks/taxi.speed/diff?one=3&other=4",
        "deliveries",
        "streams/rides/queue",
    ),
    *(
        "streams/rides/simulation?rate=0.5&windows=20&seed=1&scheduler=conserve&scheduler=guided",
        "streams/taxi/officer",
        "subscriptions/SUBSCRIPTION",
        "act/subscriptions/SUBSCRIPTION/rotate?overlap_hours=1",
        "act/ptks/taxi.speed/rollback",
        "act/ptks/taxi.speed/rollback?to=v2",
        "act/ptks/taxi.speed/deregister",
        "act/streams/taxi/close",
        "act/grants/add",
        "access",
        "access?team=taxi&stream=none",
        "audit-log",
        "audit-log?from=2026-01-01T00:00&to=2026-02-01T00:00&action=stream.create&team=taxi",
    ),
)
"""Pages for whoever is signed in, below `/console/`."""
WITHOUT_SESSION = ("login", "open?link=LINK")
"""Pages for whoever is not."""
ACTS = {
    "/act/subscriptions/{subscription_id}/redeliver": ({"version": ""}, "sent again: 1"),
    "/act/subscriptions/{subscription_id}/disable": ({}, "is disabled"),
    "/act/subscriptions/{subscription_id}/enable": ({"redeliver": "no"}, "is enabled"),
    "/act/subscriptions/{subscription_id}/rotate": ({"overlap_hours": "1"}, "has a new secret"),
    "/act/subscriptions/{subscription_id}/test": ({}, "did not take the test event"),
    "/act/ptks/{ptk_id}/rollback": ({"to": "v1"}, "repeats version 1"),
    "/act/ptks/{ptk_id}/deregister": ({}, "is deregistered"),
    "/act/streams/{stream}/close": (
        {"until": "2026-01-08T00:00:00Z", "expire_unfinished": "yes"},
        "Closed windows of taxi: 2",
    ),
    "/act/grants/add": ({"team": "ads", "stream": "taxi", "role": "consumer"}, "You gave the team ads"),
    "/act/grants/remove": (
        {"team": "ads", "stream": "taxi", "role": "consumer"},
        "You took from the team ads",
    ),
}
"""Each action by its route, with the fields of its form and what the page says when it is done."""
SENT = ("/login", "/logout", "/ptks/{ptk_id}", "/ptks/{ptk_id}/lookup", "/streams/{name}/check")
"""Routes of other forms that are sent by POST."""
WIDTHS = (390, 1_280)  # a phone and a desk
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def sign_in(one: Tab, token: str) -> None:
    one.page.get_by_label("API token").fill(token)
    one.page.get_by_role("button", name="Sign in").click()


def can_be_read_by_everybody(one: Tab) -> None:
    """No error, no sideways scrolling, nothing that axe-core finds."""
    assert one.wrong == []  # nothing that the policy had to stop
    assert one.overflow == 0  # wide tables scroll by themselves
    assert one.run("document.querySelectorAll('h1').length") == 1
    assert (found := one.violations()) == "", found


def looks_right(one: Tab) -> None:
    """Look at the page that is open at every width and in every colour scheme."""
    for width in WIDTHS:
        one.size(width)
        for scheme in SCHEMES:
            one.scheme(scheme)
            can_be_read_by_everybody(one)
