"""Names of streams, teams, columns and PTKs."""

from __future__ import annotations

import re

from ptkstore.errors import InvalidRequest

_NAME = re.compile(r"[a-z][a-z0-9_]*")


def checked_name(kind: str, name: str) -> str:
    """Return `name`, or `InvalidRequest` unless it is `[a-z][a-z0-9_]*` without `__` and of at most 63 characters."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or "__" in name or len(name) > 63:
        raise InvalidRequest(
            f"{kind} name {name!r} must match [a-z][a-z0-9_]*, without '__', 63 characters at most"
        )
    return name


def ptk_id_of(team: str, name: str) -> str:
    """Return `<team>.<name>`, both checked."""
    return f"{checked_name('team', team)}.{checked_name('PTK', name)}"


def split_ptk_id(ptk_id: str) -> tuple[str, str]:
    """Team and name of an id, or `InvalidRequest`."""
    team, dot, name = ptk_id.partition(".")
    if not dot:
        parts = ptk_id.split("__")  # as the names of its views begin
        meant = f"; this view is of {'.'.join(parts[:2])!r}" if len(parts) > 1 else ""
        raise InvalidRequest(f"PTK id {ptk_id!r} must be <team>.<name>{meant}")
    return checked_name("team", team), checked_name("PTK", name)


def split_pin(text: str) -> tuple[str, int | None]:
    """Id and version of `taxi.speed@v3`; the version is None in an id alone.

    Raises
    ------
    InvalidRequest
        The id is none, or what follows `@` is no version.
    """
    ptk_id, at, version = text.partition("@")
    split_ptk_id(ptk_id)
    digits = version.removeprefix("v")
    if at and not (digits.isascii() and digits.isdecimal() and len(digits) < 10):
        raise InvalidRequest(f"{text!r}: write a pinned version as {ptk_id}@v3")
    return ptk_id, int(digits) if at else None


def team_of(ptk_id: str) -> str:
    """Return the team of an id that was checked before."""
    return ptk_id.partition(".")[0]
