"""Names that may become parts of a path."""

from __future__ import annotations

import re

from ptkstore.domain.names import checked_name
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import InvalidRequest

_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,191}")
STAGING = "_staging"  # the staging area in a raw zone; no stream can be called so
CHECKPOINTS = f"{STAGING}/_checkpoints"  # no draft can be called so
UNFINISHED = ".unfinished-"  # no valid name begins with a dot: what a crashed writer left is never read


def checked_token(kind: str, name: str) -> str:
    """Return `name`; `InvalidRequest` unless it is safe as one part of a path."""
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise InvalidRequest(
            f"a {kind} is 1 to 192 letters, digits, '.', '-' or '_', the first a letter or digit"
        )
    return name


def window_folder(window: WindowId) -> str:
    """Return the folder of the rows of a window."""
    if type(window.index) is not int or window.index < 0:
        raise InvalidRequest("a window index is a whole number, 0 or more")
    return f"{checked_name('stream', window.stream)}/{window.index}"
