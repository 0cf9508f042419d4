"""The actions of the console, each with the use case that the same route of the HTTP API calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ptkstore.console.actions import grants
from ptkstore.console.actions.acts import Act, Ask, Done, Field, version, yes
from ptkstore.domain.fields import time_of
from ptkstore.domain.identity import Action
from ptkstore.domain.subscriptions import TEST_TYPE
from ptkstore.sdk.subscriptions import answer_in_words, overlap_of, tested_document
from ptkstore.wire.identity import GrantIn
from ptkstore.wire.ptks import RollbackIn
from ptkstore.wire.streams import CloseIn
from ptkstore.wire.subscriptions import EnableIn, RedeliverIn, RotateSecretIn

_PAGE: Final = "/subscriptions/{subscription_id}"
_CHOICE: Final = {"yes": "", "no": ""}


def _subscription(ask: Ask) -> str:
    return ask["subscription_id"]


def _redeliver_says(ask: Ask) -> Sequence[str]:
    version = ask.document.version
    which = "All dead letters" if version is None else f"The dead letter of version {version}"
    return (
        f"{which} of {_subscription(ask)} will be sent again, in the background.",
        "The messages keep their ids and are marked as redelivered.",
    )


def _redeliver(ask: Ask) -> Done:
    since = None if ask.document.since is None else time_of(ask.document.since)
    waiting = ask.service.redeliver(_subscription(ask), ask.document.version, since)
    return Done(f"Dead letters of {_subscription(ask)} that wait to be sent again: {waiting}.")


def _enable_says(ask: Ask) -> Sequence[str]:
    letters = "are sent again too" if ask.document.redeliver else "stay as they are"
    return (
        f"Messages to {_subscription(ask)} are sent again, from the version on where they stopped.",
        f"Its dead letters {letters}. Failures until now are forgiven.",
    )


def _enable(ask: Ask) -> Done:
    ask.service.enable_subscription(_subscription(ask), redelivering=ask.document.redeliver)
    return Done(f"{_subscription(ask)} is enabled.")


def _disable(ask: Ask) -> Done:
    ask.service.disable_subscription(_subscription(ask))
    return Done(f"{_subscription(ask)} is disabled.")


def _rotate_says(ask: Ask) -> Sequence[str]:
    return (
        f"Messages to {_subscription(ask)} are signed with a new secret from now on.",
        f"For {ask.document.overlap_hours:g} hours they carry the signature of the old secret too.",
        "The new secret is shown once, on the next page. Nobody can show it again.",
    )


def _rotate(ask: Ask) -> Done:
    secret = ask.service.rotate_secret(_subscription(ask), overlap_of(ask.document.overlap_hours))
    return Done(f"{_subscription(ask)} has a new secret.", secret)


def _test_says(ask: Ask) -> Sequence[str]:
    return (
        f"One signed message of the type {TEST_TYPE} is sent to the endpoint of {_subscription(ask)}, now.",
        "It names the subscription and no version. Whatever the answer, nothing about the subscription changes.",
        "The answer is shown here, once: the list of attempts has versions alone.",
    )


def _test(ask: Ask) -> Done:
    tested = tested_document(ask.service.send_test_event(_subscription(ask)))
    how = "took" if tested["delivered"] else "did not take"
    code = f", {tested['code']}" if tested["code"] else ""
    return Done(
        f"The endpoint of {_subscription(ask)} {how} the test event: {answer_in_words(tested)}{code}."
    )


def _roll_back_says(ask: Ask) -> Sequence[str]:
    return (
        f"The state of version {ask.document.to} of {ask['ptk_id']} is published again, as the next version.",
        "Lookups read it, and every subscriber hears of it. Versions in between stay in the lake.",
        "It costs no privacy budget.",
    )


def _roll_back(ask: Ask) -> Done:
    version = ask.service.rollback_ptk(ask["ptk_id"], ask.document.to)
    return Done(f"Version {version} of {ask['ptk_id']} repeats version {ask.document.to}.")


def _deregister_says(ask: Ask) -> Sequence[str]:
    ask.service.ptk(ask["ptk_id"])
    return (
        f"{ask['ptk_id']} is withdrawn: it is trained no more, and lookups no longer answer.",
        "Its published versions stay in the lake, and whoever read them keeps what was read.",
        "Privacy budget that was spent stays spent. What was reserved and not used yet is free again.",
        "It comes back when its team registers the same name on the same stream.",
    )


def _deregister(ask: Ask) -> Done:
    ask.service.deregister_ptk(ask["ptk_id"])
    return Done(f"{ask['ptk_id']} is deregistered.")


def _close_says(ask: Ask) -> Sequence[str]:
    until = ask.document.until
    which = "that are due now" if until is None else f"that end by {until}"
    unfinished = (
        "Windows before them that are still being prepared expire unused."
        if ask.document.expire_unfinished
        else "Closing is refused while a window that would expire is still being prepared."
    )
    return (
        f"Windows of {ask['stream']} {which} are closed. This is final: later rows for them are refused as late.",
        "Their blocks are made, and their trainings begin. Windows that leave the retention expire.",
        unfinished,
    )


def _close(ask: Ask) -> Done:
    until = None if ask.document.until is None else time_of(ask.document.until)
    closed = ask.service.close_windows(ask["stream"], until, expire_unfinished=ask.document.expire_unfinished)
    numbers = ", ".join(str(window.index) for window in closed)
    return Done(f"Closed windows of {ask['stream']}: {numbers}." if closed else "No window was due.")


ACTS: Final = (
    Act(
        "/subscriptions/{subscription_id}/redeliver",
        Action.SUBSCRIPTION_REDELIVER,
        "Send dead letters again",
        "Send again",
        "subscription",
        _subscription,
        RedeliverIn,
        _redeliver_says,
        _redeliver,
        _PAGE,
        (Field("version", "Version", "of this version alone; all if blank", parse=version),),
    ),
    Act(
        "/subscriptions/{subscription_id}/enable",
        Action.SUBSCRIPTION_ENABLE,
        "Enable a subscription",
        "Enable",
        "subscription",
        _subscription,
        EnableIn,
        _enable_says,
        _enable,
        _PAGE,
        (Field("redeliver", "Send dead letters again too", first="yes", parse=yes, options=_CHOICE),),
    ),
    Act(
        "/subscriptions/{subscription_id}/disable",
        Action.SUBSCRIPTION_DISABLE,
        "Disable a subscription",
        "Disable",
        "subscription",
        _subscription,
        None,
        lambda ask: (f"Nothing is sent to {_subscription(ask)} until it is enabled again. Versions wait.",),
        _disable,
        _PAGE,
    ),
    Act(
        "/subscriptions/{subscription_id}/rotate",
        Action.SUBSCRIPTION_ROTATE,
        "Rotate the secret of a subscription",
        "Make a new secret",
        "subscription",
        _subscription,
        RotateSecretIn,
        _rotate_says,
        _rotate,
        _PAGE,
        (
            Field(
                "overlap_hours",
                "Overlap in hours",
                "for which the old secret signs too; 0 ends it now",
                "24",
                parse=float,
            ),
        ),
        secret=True,
    ),
    Act(
        "/subscriptions/{subscription_id}/test",
        Action.SUBSCRIPTION_TEST,
        "Send a test event",
        "Send a test event",
        "subscription",
        _subscription,
        None,
        _test_says,
        _test,
        _PAGE,
        asks_outside=True,
    ),
    Act(
        "/ptks/{ptk_id}/rollback",
        Action.PTK_ROLL_BACK,
        "Roll back a PTK",
        "Roll back",
        "ptk",
        lambda ask: ask["ptk_id"],
        RollbackIn,
        _roll_back_says,
        _roll_back,
        "/ptks/{ptk_id}",
        (Field("to", "Version", "whose state is published again", required=True, parse=version),),
        once=True,  # after a training it would replace what that made
    ),
    Act(
        "/ptks/{ptk_id}/deregister",
        Action.PTK_DEREGISTER,
        "Deregister a PTK",
        "Deregister",
        "ptk",
        lambda ask: ask["ptk_id"],
        None,
        _deregister_says,
        _deregister,
        "/ptks",
    ),
    Act(
        "/streams/{stream}/close",
        Action.STREAM_CLOSE,
        "Close windows",
        "Close windows",
        "stream",
        lambda ask: ask["stream"],
        CloseIn,
        _close_says,
        _close,
        "/streams/{stream}",
        (
            Field(
                "until",
                "Until",
                "an event time such as 2026-01-06T00:00:00Z; needed where the operator closes, now if blank",
            ),
            Field("expire_unfinished", "Expire unfinished windows", first="no", parse=yes, options=_CHOICE),
        ),
    ),
    Act(
        "/grants/add",
        Action.GRANT_ADD,
        "Give a role",
        "Give the role",
        "grant",
        grants.subject,
        GrantIn,
        grants.add_says,
        grants.add,
        "/act/grants/add",
        grants.FIELDS,
        leads_to=grants.page_of,
    ),
    Act(
        "/grants/remove",
        Action.GRANT_REMOVE,
        "Take a role away",
        "Take the role away",
        "grant",
        grants.subject,
        GrantIn,
        grants.remove_says,
        grants.remove,
        "/act/grants/remove",
        grants.FIELDS,
        leads_to=grants.page_of,
    ),
)
