"""Sessions of signed-in users, in the memory of this process. The browser has a random name of its session."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

IDLE_SECONDS = 30 * 60.0
LIFE_SECONDS = 12 * 3600.0
SESSIONS_MAX = 1_000
OF_A_TOKEN_MAX = 20
"""Sessions of one token: whoever signs in again and again ends their own ones, and nobody else's."""
OF_A_TEAM_MAX = 200
"""Sessions of one team, which may have many tokens."""


@dataclass(frozen=True, slots=True)
class Session:
    """A session keeps the token's id, never its text. Every form carries `form_key`, and sends it back.

    The next page shows `message`, about the action before it. A session that began `by_link` has a token of its own,
    which ends with it.
    """

    token_id: str
    team: str
    form_key: str
    begun_at: float
    used_at: float
    message: str = ""
    by_link: bool = False


class Sessions:
    """Sessions end half an hour after their last use, after twelve hours, with the process and by signing out.

    The process stores only a hash of the name that the browser has. Each request checks that the token is still valid.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: dict[str, Session] = {}

    def begin(self, token_id: str, team: str, *, by_link: bool = False) -> str:
        """Begin a session and return its name, which is in no other place."""
        name, now = secrets.token_urlsafe(32), self._clock()
        with self._lock:
            self._sessions = {key: one for key, one in self._sessions.items() if _lives(one, now)}
            self._make_room(
                [k for k, one in self._sessions.items() if one.token_id == token_id], OF_A_TOKEN_MAX
            )
            self._make_room([k for k, one in self._sessions.items() if one.team == team], OF_A_TEAM_MAX)
            self._make_room(list(self._sessions), SESSIONS_MAX)
            self._sessions[_hashed(name)] = Session(
                token_id, team, secrets.token_urlsafe(32), now, now, by_link=by_link
            )
        return name

    def _make_room(self, keys: list[str], most: int) -> None:
        """End the sessions that were unused for the longest time, until there is room for one more."""
        keys.sort(key=lambda key: self._sessions[key].used_at)
        for key in keys[: max(0, len(keys) - most + 1)]:
            del self._sessions[key]

    def of(self, name: str | None) -> Session | None:
        """Return the session of this name and note its use. None if there is none."""
        if not name:
            return None
        now = self._clock()
        with self._lock:
            session = self._sessions.get(_hashed(name))
            if session is None or not _lives(session, now):
                return None
            self._sessions[_hashed(name)] = replace(session, used_at=now)
            return session

    def leave_message(self, name: str | None, text: str) -> None:
        """Keep a sentence for the next page of the session."""
        self._change_message(name, text)

    def take_message(self, name: str | None) -> str:
        """Return the sentence that was kept, and forget it."""
        return self._change_message(name, "")

    def _change_message(self, name: str | None, text: str) -> str:
        key = _hashed(name or "")
        with self._lock:
            session = self._sessions.get(key)
            if session is None or session.message == text:
                return ""
            self._sessions[key] = replace(session, message=text)
            return session.message

    def end(self, name: str | None) -> Session | None:
        """Sign out. Return the session that ended, if there was one."""
        with self._lock:
            return self._sessions.pop(_hashed(name or ""), None)


def _lives(session: Session, now: float) -> bool:
    return now - session.used_at < IDLE_SECONDS and now - session.begun_at < LIFE_SECONDS


def _hashed(name: str) -> str:
    return hashlib.sha256(name.encode(errors="replace")).hexdigest()
