"""The audit trail, newest first, for officers of all streams and administrators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from ptkstore.application.identity.read_audit_log import LOOKED_THROUGH
from ptkstore.console.pages.reads import Reads
from ptkstore.domain.audit import TrailFilter
from ptkstore.domain.identity import Action, Principal
from ptkstore.domain.names import checked_name
from ptkstore.domain.times import utc
from ptkstore.errors import InvalidRequest

LINES_SHOWN = 200
FIELD_MOST = 40
_FIELDS: Final = ("from", "to", "action", "team", "below")


class TrailPage(Reads):
    """Who did what, when, to what, with which outcome."""

    def trail(self, who: Principal, asked: Mapping[str, Sequence[str]], request_id: str) -> dict[str, Any]:
        """Show lines of the trail; a look at them is on record, as over HTTP.

        Parameters
        ----------
        asked : Mapping
            `from` and `to` are UTC times, `action` and `team` the only ones shown, and `below` the number where a page
            before ended.
        """
        self._identity.permit(who, Action.AUDIT_READ)
        said = {name: asked.get(name, [""])[0].strip() for name in _FIELDS}
        shown: dict[str, Any] = {
            "said": {name: text[:FIELD_MOST] for name, text in said.items()},
            "actions": sorted(one.value for one in Action),
            "looked_through": LOOKED_THROUGH,
            "lines": [],
            "older": "",
            "problem": "",
        }
        try:
            wanted, below = _filter(said), _number(said["below"])
        except InvalidRequest as error:
            return {**shown, "problem": str(error)}
        with self._identity.recorded(Action.AUDIT_READ, "store", request_id, who):
            found = self._identity.newest_acts(wanted, below, LINES_SHOWN)
        if found.older is not None:
            kept = {name: text for name, text in said.items() if text}
            shown["older"] = urlencode({**kept, "below": found.older})
        return {**shown, "lines": [{**asdict(one), "at": one.at.isoformat()} for one in found.lines]}


def _filter(said: Mapping[str, str]) -> TrailFilter:
    """Read the fields of the form; `InvalidRequest` for what is none, which would find other lines than were meant."""
    if said["action"] not in ("", *Action):
        raise InvalidRequest("the action is not one of those that the trail has")
    if said["team"]:
        checked_name("team", said["team"])
    since, until = _time(said["from"]), _time(said["to"])
    return TrailFilter(said["action"] or None, said["team"] or None, since, until)


def _time(text: str) -> datetime | None:
    try:
        return utc(text) if text else None
    except InvalidRequest:
        raise InvalidRequest("a time is a UTC time such as 2026-01-06 or 2026-01-06T12:30") from None


def _number(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidRequest("the number of a line has at most 18 digits")
    return int(text)
