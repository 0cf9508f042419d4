"""Links that sign in once: who can write to the home makes one, and the server of that home takes it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from ptkstore.adapters.processes.private_paths import private_directory
from ptkstore.errors import Unavailable

LIFE = timedelta(minutes=2)
_FOLDER, _PAGE = "links", ".html"
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class OneTimeLinks:
    """The links of a home, each a file whose name is the hash of the link's secret.

    Nothing in a file can be used to sign in. To remove the file is to take the link, so that one caller gets it.

    Parameters
    ----------
    home : Path
        Its folder `links` is for this user alone.
    """

    home: Path

    def make(self, token_id: str, address: str, now: datetime) -> str:
        """Return the secret of a new link, for the holder of a token at the server of one address.

        Parameters
        ----------
        address : str
            `host:port`. Another server cannot use the link, and so cannot pass it on either.
        """
        secret = secrets.token_urlsafe(32)
        self._remove_old(now)
        document = {
            "token_id": token_id,
            "address": address,
            "made": now.isoformat(),
            "until": (now + LIFE).isoformat(),
        }
        self._write(_hashed(secret), json.dumps(document))
        return secret

    def write_page(self, secret: str, url: str) -> Path:
        """Write a page that leads to `url`, and that only this user can read.

        A browser is started with the page's path: other users can see how a process was started.
        """
        page = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={url}">\n'
        return self._write(_hashed(secret) + _PAGE, page)

    def take(self, secret: str, address: str | None, now: datetime, *, since: datetime) -> str | None:
        """Return the id of the token of a link, or None; either way the link is used up.

        Parameters
        ----------
        address : str, optional
            `host:port` at which the request came; None for one that came in a way that is not allowed.
        since : datetime
            When the server started. An older link may have been sent to whoever had the address before.
        """
        if not _SECRET.fullmatch(secret):
            return None
        file = self._folder / _hashed(secret)
        try:
            document = json.loads(file.read_text())
            file.unlink()
        except (OSError, ValueError):
            return None
        with suppress(OSError):
            file.with_name(file.name + _PAGE).unlink()
        made, until = (datetime.fromisoformat(document[name]) for name in ("made", "until"))
        holds = document["address"] == address and since <= made and now < until
        return str(document["token_id"]) if holds else None

    @property
    def _folder(self) -> Path:
        return self.home / _FOLDER

    def _write(self, name: str, text: str) -> Path:
        file = private_directory(self._folder) / name
        try:
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
                stream.write(text)
        except OSError as error:
            raise Unavailable(f"the link cannot be written to {self._folder}: {error.strerror}") from error
        return file

    def _remove_old(self, now: datetime) -> None:
        """Remove links that nobody took in time, with their pages."""
        for file in self._files():
            try:
                over = now >= datetime.fromisoformat(json.loads(file.read_text())["until"])
            except (OSError, ValueError, KeyError):
                over = True
            if over:
                file.unlink(missing_ok=True)
                file.with_name(file.name + _PAGE).unlink(missing_ok=True)

    def _files(self) -> Iterator[Path]:
        if self._folder.is_dir():
            yield from (file for file in self._folder.iterdir() if file.suffix != _PAGE)


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
