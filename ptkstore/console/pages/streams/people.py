"""Who made a stream what it is and when, and who may do what with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from ptkstore.console.actions.routes import PREFIX as ACTIONS
from ptkstore.console.pages.oversight.access import grant_row, owner_row
from ptkstore.console.pages.reads import Reads
from ptkstore.console.pages.shown import shown_span, shown_time
from ptkstore.domain.audit import LOCAL, subject_of
from ptkstore.domain.identity import Action
from ptkstore.domain.streams.streams import Stream

ACTS_SHOWN = 30
GRANTS_SHOWN = 100
_TOLD: Final[Mapping[str, str]] = {
    Action.STREAM_CREATE: "created, with its policy",
    Action.STREAM_EVOLVE: "a column added",
    Action.STREAM_CLOSE: "windows closed",
}


class StreamPeople(Reads):
    """The history of a stream, and the grants on it."""

    def _history(self, name: str) -> list[dict[str, str]]:
        """The newest acts on a stream that made it what it is, as the audit trail has them."""
        lines = self._identity.acts_on(subject_of("stream", name), _TOLD, ACTS_SHOWN)
        return [
            {
                "at": shown_time(one.at.isoformat()),
                "who": "somebody in the store's home" if one.team == LOCAL else f"team {one.team}",
                "token": "" if one.token_id == LOCAL else one.token_id,
                "what": _TOLD[one.action],
                "outcome": one.outcome,
            }
            for one in lines
        ]

    def _grants(self, stream: Stream, may: Collection[Action]) -> dict[str, Any]:
        """The roles that were given on a stream, with a link to take each away for who may."""
        found = self._identity.grants(stream=stream.name)
        owner = owner_row(stream.team, stream.name)
        removable = Action.GRANT_REMOVE in may
        given = [grant_row(one, removable=removable) for one in found[:GRANTS_SHOWN]]
        return {
            "rows": [owner, *given],
            "more": len(found) - len(given),
            "add": f"{ACTIONS}/grants/add?stream={stream.name}" if Action.GRANT_ADD in may else "",
        }


def schema_rows(stream: Stream) -> list[dict[str, str]]:
    """Return the columns of a stream, and what each is for."""
    policy, added = stream.policy, {one.column: one for one in stream.schema.added}
    uses = {
        stream.schema.time_column: "event time",
        policy.unit_column: "the user, as the privacy unit",
        policy.attribute: "blocks are by its values",
    }
    rows = []
    for column, kind in stream.schema.columns:
        notes = [uses[column]] if column in uses else []
        if (one := added.get(column)) is not None:
            notes.append(f"added, from window {one.since} on; rows without it have {one.default!r}")
        rows.append({"column": column, "type": kind.value, "notes": "; ".join(notes)})
    return rows


def policy_rows(stream: Stream) -> list[tuple[str, str]]:
    """Return the choices of a policy that people ask about first; all are as they were at its creation."""
    policy = stream.policy
    return [
        ("closing", policy.closing.value),
        ("lateness", shown_span(policy.lateness)),
        (
            "retention",
            f"{policy.retention_windows} more window{'' if policy.retention_windows == 1 else 's'}",
        ),
        ("scheduler", policy.scheduler.value),
        ("accountant", policy.accountant.value),
        ("train partitions", str(policy.train_partitions)),
        ("rows stated for a window", f"{policy.rows_per_window:,}"),
        ("at most, for planning", f"{policy.n_max:,}"),
    ]
