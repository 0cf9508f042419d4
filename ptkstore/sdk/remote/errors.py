"""Problems of the HTTP API as the errors they were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from ptkstore import errors as e

BY_CODE: Mapping[str, type[e.PtkStoreError]] = {
    kind.code: kind
    for kind in vars(e).values()
    if isinstance(kind, type) and issubclass(kind, e.PtkStoreError)
}
# What an answer without a code of ours means.
_BY_STATUS: Mapping[int, type[e.PtkStoreError]] = {
    401: e.Unauthenticated,
    403: e.NotAllowed,
    409: e.Conflict,
    413: e.TooLarge,
    415: e.UnknownFormat,
    429: e.TooManyRequests,
    502: e.Unavailable,
    503: e.Unavailable,
    504: e.OutcomeUnknown,
}

_NO_NAME = "?"


def is_problem(document: Any) -> bool:
    """Return whether a refusal is one of our server's own, not of something in between."""
    return isinstance(document, dict) and document.get("code") in BY_CODE


def error_of(status: int, document: Any, path: str = "") -> e.PtkStoreError:
    """Return the error of a refusal; `document` is its body, None if that is no JSON.

    A server repeats no text that cannot be a name; the `path` that was asked has it.
    """
    problem = document if isinstance(document, dict) else {}
    kind = BY_CODE.get(str(problem.get("code")))
    if kind is None:
        kind = _BY_STATUS.get(status, e.InvalidRequest if status < 500 else e.InvariantBroken)
    message = str(problem.get("detail") or _unexplained(status))
    faults = [
        ": ".join(str(fault[name]) for name in ("where", "reason", "pattern") if name in fault)
        for fault in problem.get("faults") or ()
        if isinstance(fault, dict)
    ]
    if issubclass(kind, e.UnknownName) and problem.get("kind") is None:  # no such route
        return e.InvalidRequest(_unexplained(status))
    if issubclass(kind, e.UnknownName):
        error = kind(str(problem.get("kind", "thing")), str(problem.get("name", _NO_NAME)))
        plain = f"{error}; "
        error.hint = message.removeprefix(plain) if message.startswith(plain) else ""
        return error if error.name != _NO_NAME else kind(error.kind, _name_in(path), error.hint)
    if issubclass(kind, e.InvariantBroken) and "request_id" in problem:
        message = f"{message} {problem['request_id']}"
    return kind("; ".join([message, *faults]))


def _name_in(path: str) -> str:
    """What a path such as `v1/subscriptions/NAME/deliveries` or `.../files/NAME` names."""
    _, _, *names = map(unquote, path.split("/"))
    if not names:
        return _NO_NAME
    return names[-1] if names[-2:-1] == ["files"] else names[0]


def _unexplained(status: int) -> str:
    """Return the message about an answer that is not one of our server's."""
    message = f"the server answered {status}"
    return message if status >= 500 else f"{message} as no store does: is this the address of its HTTP API?"
