"""The commands of `ptk`, by the people who use them, with the line that `ptk --help` shows of each.

Help is printed from this table alone, so that it loads no command. The line is the first one of the command's
docstring; tests hold the two together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """A command, or a group of commands."""

    place: str
    """Module of this package, and the function or `typer.Typer` in it."""
    summary: str
    settings: Mapping[str, Any] = {}


NEGATIVE = {"ignore_unknown_options": True}
"""For a command that takes a number: -1 is one that is out of range, no option."""

# People and commands in the order that `ptk --help` shows.
COMMANDS: dict[str, dict[str, Entry]] = {
    "Everybody": {
        "status": Entry(
            "service.status:status",
            "Show whether the store is healthy, what needs you, and what happened in the last day.",
        ),
        "list": Entry(
            "ptks.ptks:list_ptks", "List registered PTKs: all, or those with these words or with a tag."
        ),
        "show": Entry(
            "ptks.ptks:show",
            "Show the newest version of a PTK, its profile, trainings, estimated losses and the "
            "notices to its owner.",
        ),
        "versions": Entry("ptks.ptks:versions", "List the published versions of a PTK."),
        "diff": Entry("ptks.versions:diff", "Show what differs between two published versions of a PTK."),
        "lineage": Entry(
            "service.lake:lineage",
            "Show the versions whose states went into one, back to the first trainings, or those that "
            "a window went into.",
        ),
        "notices": Entry(
            "consumers.notices:notices",
            "Show notices to owners, oldest first: how trainings ended, dead letters, "
            "disabled endpoints, refusals.",
        ),
        "demo": Entry(
            "demo.command:demo",
            "Run the main job end to end on real parts: trips in, private features out, looked up through Feast.",
        ),
    },
    "PTK developers": {
        "init": Entry(
            "repository.scaffold:init",
            "Begin the repository of a team: declarations, an example of team code, a README and a CI workflow.",
        ),
        "plan": Entry(
            "repository.changes:plan",
            "Show what `apply` would change, what it would reserve per window, and how PTKs do on synthetic rows.",
        ),
        "apply": Entry(
            "repository.changes:apply",
            "Register or update the PTKs that the repository of a team declares; repeatable.",
        ),
        "destroy": Entry(
            "repository.changes:destroy",
            "Deregister all PTKs of the team of a repository; their versions stay in the lake.",
        ),
        "set-config": Entry(
            "ptks.changes:set_config",
            "Change what a file names of the config of a PTK, from the next window on; the rest stays.",
        ),
        "set-target": Entry(
            "ptks.changes:set_target",
            "Change the target of a PTK from the next window on; refused with the reason if there is no room.",
            NEGATIVE,
        ),
        "resume": Entry(
            "ptks.changes:resume",
            "Train a PTK again that was given up because no state of it was accepted in time.",
        ),
        "sandbox": Entry(
            "repository.sandbox:sandbox",
            "Try whether team code can be run apart on this machine; exit code 1 and the reason if not.",
        ),
        "test-privacy": Entry(
            "ptks.privacy:examine",
            "Bound the epsilon that a PTK really loses, from trainings on synthetic neighbouring datasets.",
        ),
    },
    "Consumers": {
        "lookup": Entry("consumers.lookups:lookup", "Look features up online through Feast."),
        "featurize": Entry(
            "consumers.featurize:featurize", "Append the features of a published PTK to a table."
        ),
        "subscribe": Entry(
            "consumers.subscriptions:subscribe",
            "Subscribe an endpoint to a PTK; the signing secret is shown this once.",
        ),
        "subscriptions": Entry(
            "consumers.subscriptions:list_subscriptions",
            "List subscriptions: how far each has heard, whether its endpoint answers, what it missed.",
        ),
        "subscription": Entry(
            "consumers.subscriptions:subscription_app", "The attempts of one subscription, and a test of it."
        ),
        "deliveries": Entry(
            "consumers.subscriptions:deliveries",
            "Show how far a subscription has heard, how its endpoint answers, what waits and when it is "
            "tried next.",
        ),
        "redeliver": Entry(
            "consumers.subscriptions:redeliver",
            "Send dead letters again, all by default, under the ids they had.",
        ),
        "disable": Entry(
            "consumers.subscriptions:disable",
            "Send nothing to a subscription until it is enabled again; versions wait for that.",
        ),
        "enable": Entry(
            "consumers.subscriptions:enable",
            "Send to a disabled subscription again, from the version on where it stopped.",
        ),
        "rotate-secret": Entry(
            "consumers.subscriptions:rotate_secret",
            "Sign messages with a new secret; it is shown this once.",
        ),
    },
    "Producers": {
        "ingest": Entry(
            "streams.rows:ingest",
            "Ingest Parquet, Arrow, CSV or NDJSON files, the last two read as the stream declares its columns.",
        ),
        "close": Entry(
            "streams.rows:close",
            "Close the windows that are due; the schedule does it otherwise, but on streams that "
            "their operator closes.",
        ),
        "forget": Entry(
            "streams.rows:forget",
            "Erase the rows of a user from all windows that are still kept. The answer is the same if there were none.",
        ),
        "device": Entry("devices.devices:device_app", "Devices that contribute to models and send no row."),
    },
    "Privacy officers": {
        "budget": Entry(
            "officers.ledger:budget",
            "Show capacity, reserved and spent loss of every block, or what a line, stream, PTK or team spent.",
        ),
        "queue": Entry(
            "streams.queue:queue",
            "Say which PTKs wait on an adaptive stream, since when and for what, or how earlier waits ended.",
        ),
        "simulate": Entry(
            "streams.simulate:simulate",
            "Say when the PTKs of a stream would be released under other schedulers.",
        ),
        "audit-log": Entry(
            "officers.identity:audit_log",
            "Show who did what, when, to what, with which outcome; oldest first.",
        ),
        "ledger": Entry("officers.ledger:ledger_app", "The ledger of privacy losses."),
    },
    "Administrators": {
        "up": Entry("service.up:up", "Run every process of the service on this machine until interrupted."),
        "api": Entry(
            "service.api:api",
            "Serve the HTTP API and the console until interrupted. The first token is made by ptk "
            "token create --admin.",
        ),
        "ui": Entry(
            "service.ui:ui",
            "Open the console of a home on this machine, signed in by a link that works once.",
        ),
        "rollback": Entry(
            "ptks.versions:rollback",
            "Publish an older version again as the newest one; it costs no budget.",
        ),
        "materialize": Entry(
            "ptks.versions:materialize",
            "Write the rows of the newest version online again, after the online store lost them; it costs no budget.",
        ),
        "work": Entry(
            "service.work:work",
            "Do all due work on this machine, then end; `ptk up` does it for good.",
        ),
        "config": Entry("service.config:config", "Print the settings with their sources, secrets masked."),
        "stream": Entry("streams.streams:stream_app", "Streams and their policies."),
        "team": Entry("officers.identity:team_app", "Teams."),
        "token": Entry("officers.identity:token_app", "Tokens of the HTTP API."),
        "grant": Entry("officers.identity:grant_app", "Roles of teams on streams."),
        "catalog": Entry("service.catalog:catalog_app", "The schema of the catalog, and its upgrades."),
        "feast": Entry(
            "consumers.feast:feast_app", "Files that consumers need to read features by plain Feast."
        ),
        "lake": Entry("service.lake:lake_app", "Files of lake and raw zone."),
    },
}
