"""Keys of confirmation pages: an action runs only as shown, for the session that saw it, within ten minutes."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Mapping

LIFE_SECONDS = 600


class Confirmations:
    """Makes and checks the key of a confirmation page.

    A key is valid for one session, one path and the same fields, for ten minutes. Its first part is random and names
    the request: a request sent twice runs once. Only this process has the secret that makes a key, so that no client
    can leave out the page.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._secret = clock, secrets.token_bytes(32)

    def key(self, session: str, path: str, fields: Mapping[str, str]) -> str:
        """Return a new key.

        Parameters
        ----------
        session : str
            A secret of this session, such as the key of its forms.
        """
        name, until = secrets.token_urlsafe(32), int(self._clock()) + LIFE_SECONDS
        return f"{name}.{until}.{self._seal(name, until, session, path, fields)}"

    def name_of(self, key: str, session: str, path: str, fields: Mapping[str, str]) -> str | None:
        """Return the random name of the confirmed request, or None if the key is not of this page."""
        name, _, rest = key.partition(".")
        until, _, seal = rest.partition(".")
        if not (until.isascii() and until.isdigit() and len(until) < 20 and seal.isascii()):
            return None
        expected = self._seal(name, int(until), session, path, fields)
        return name if hmac.compare_digest(seal, expected) and self._clock() < int(until) else None

    def _seal(self, name: str, until: int, session: str, path: str, fields: Mapping[str, str]) -> str:
        said = json.dumps([name, until, session, path, sorted(fields.items())]).encode()
        return hmac.new(self._secret, said, hashlib.sha256).hexdigest()
