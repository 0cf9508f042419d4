"""The page of the error codes, made from the classes of the errors: who should act, and what to do."""

from __future__ import annotations

from collections.abc import Iterator

import ptklib.exceptions
from infra.docs.reference.marks import MADE, escaped
from ptklib.exceptions import PtklibError
from ptkstore import errors as e
from ptkstore.api import problems
from ptkstore.api.devices import routes as devices
from ptkstore.domain.budgeting.blocks import Unaffordable
from ptkstore.domain.budgeting.looks import NoLookLeft

INTRODUCTION = """\
# Error codes

Each error has a fixed code. The code decides what a program should do; the message is for people. Messages name public things only: ids, columns, limits.

| where | the code is | the address of its section here is |
|---|---|---|
| `ptk` | the first word of the error | in the line below the message, on a terminal |
| `ptk --json` | `error.code` | `error.page` |
| HTTP | `code` of the problem | `page` of the problem |
| Python | `error.code` | `error.page`, and the last line of a traceback |

If `PTK_DOCS_URL` names the site of this documentation, the address leads there, of the library's errors too. Otherwise it is a path in the project's repository,
such as `docs/reference/errors.md#refused`. That is this page.

The exit code of `ptk` is 2 where the caller fixes the request, and otherwise 1.
"""
ACTORS: dict[type[e.PtkStoreError], tuple[str, str]] = {
    e.InvalidRequest: ("The caller fixes the request", "The same request never succeeds. Do not retry it."),
    e.Refused: ("A policy said no", "The reason says what would fit. Ask whoever may change the policy, the role or the budget."),
    e.Conflict: ("Refresh and redo", "Something else changed meanwhile. Read the newest state, decide anew, and send the request again."),
    e.Unavailable: ("Wait and retry", "Retry with growing waits, and keep the same idempotency key."),
    e.OutcomeUnknown: ("Look before acting", "The write may have happened. Read what is there, or repeat the request under the same idempotency key."),
    e.InvariantBroken: ("Page the operator", "The service stopped, because something that must always hold does not. Retrying does not help."),
}  # fmt: skip
ADVICE: dict[str, str] = {
    "error": "Read the message. If it does not help, ask the operator, with the request id.",
    "invalid-request": "Change what the message names. Over HTTP, `faults` says which field is wrong and how.",
    "unknown-name": "Check the name. The hint suggests names that are near. A name that your roles do not cover is answered in the same way.",
    "deregistered": "Apply the declaration again if the PTK should come back. The hint says how.",
    "schema-mismatch": "Send the columns and types that the stream declares: `ptk stream show STREAM` lists them.",
    "too-large": "Send less at once: split the batch or the request. The message names the limit.",
    "unknown-format": "Send a type of body that the message names.",
    "refused": "Compare what was asked with what is left: `ptk budget STREAM` shows it. Ask for a smaller loss, or wait for the next window.",
    "unauthenticated": "Check `PTK_TOKEN`. If it has expired, ask an administrator for a new one.",
    "not-allowed": "Ask an administrator for the role: `ptk grant add` gives it. The token must name the role in its scopes, too.",
    "ptk-rejected": "Change the declaration, so that its loss fits the stream beside the PTKs that are registered. `ptk plan` shows the room that is left.",
    "no-sandbox": "Install bubblewrap on the machines that run workers. `ptk sandbox` tells what is missing.",
    "window-gone": "Use a later window. The rows and the key of this one were destroyed, and nothing brings them back.",
    "conflict": "Read the thing again and repeat the change on what is there now.",
    "name-taken": "Choose another name, or change what is registered under this one.",
    "lease-lost": "Nothing needs to be done: another worker does the job. If this is frequent, raise `PTK_LEASE_SECONDS`.",
    "late-writer": "Nothing needs to be done: the newer state stays.",
    "still-at-work": "Ask again in a few seconds under the same idempotency key.",
    "unavailable": "Retry. If it lasts, the operator looks at the part that the message names; `/readyz` lists all parts.",
    "too-many-requests": "Wait for as long as `Retry-After` says. If it is frequent, send fewer and larger requests.",
    "no-process": "The worker tries again by itself. If it lasts, look at the memory and the process limit of the machine.",
    "rows-lost": "The operator writes the rows again: `ptk materialize PTK`.",
    "catalog-outdated": "Run the command that the message names.",
    "outcome-unknown": "Read whether the change is there. Then repeat the request if it is not.",
    "invariant-broken": "Tell the operator the request id. The operator finds the reason in the log of the service.",
    "catalog-behind": "If the catalog was restored from a backup, follow [the backup guide](../guide/backup.md). Until then no window opens.",
    "corrupt-object": "Stop using the version. The operator restores the object from a backup, or rolls the PTK back to a version that is sound.",
    "unaffordable": "Only simulations and the budgeting scheduler meet it: the query waits for a block with more left.",
    "no-look-left": "The PTK waits for a window with fresh test blocks.",
}  # fmt: skip
PLAIN: dict[str, tuple[int, str, str]] = {
    "method-not-allowed": (405, "This path has no such method.", "Look the request up in [the HTTP API](http.md)."),
    "too-slow": (408, "The body of the request came too slowly.", "Send it again, over a faster connection or in smaller parts."),
    "internal-error": (500, "Something that nobody foresaw.", "Tell the operator the request id. The log of the service has the reason."),
}  # fmt: skip


def page() -> str:
    """Return the page."""
    kinds = sorted(set(_below(e.PtkStoreError)) | {Unaffordable, NoLookLeft}, key=_order)
    parts = [INTRODUCTION, MADE, ""]
    for actor, (heading, first) in ACTORS.items():
        parts.append(f"## {heading}\n{first}\n")
        parts.extend(_section(kind) for kind in kinds if issubclass(kind, actor))
    parts.append("## Without a class of errors\n")
    parts.append(_section(e.PtkStoreError))
    for code, (status, meaning, advice) in PLAIN.items():
        parts.append(f"### {code}\n{meaning}\n\n- **HTTP status**: {status}\n- **Remedy**: {advice}\n")
    parts.extend(_devices())
    parts.extend(_library())
    return "\n".join(parts)


def _below(kind: type[e.PtkStoreError]) -> Iterator[type[e.PtkStoreError]]:
    """Yield the kinds that have a code of their own."""
    for one in kind.__subclasses__():
        if "code" in vars(one):
            yield one
        yield from _below(one)


def _order(kind: type[e.PtkStoreError]) -> tuple[bool, str]:
    return kind not in ACTORS, kind.code


def _section(kind: type[e.PtkStoreError]) -> str:
    meaning = escaped(" ".join((kind.__doc__ or "").split()))
    exit_code = 2 if issubclass(kind, e.InvalidRequest) else 1
    status = next(problems.STATUS[one] for one in kind.__mro__ if one in problems.STATUS)
    return (
        f"### {kind.code}\n{meaning}\n\n- **Remedy**: {ADVICE[kind.code]}\n"
        f"- **HTTP status**: {status}\n- **Exit code of `ptk`**: {exit_code}\n"
        f"- **Python**: `{kind.__module__}.{kind.__name__}`\n"
    )


def _devices() -> Iterator[str]:
    yield "## Of devices"
    yield "Only the [requests of devices](devices.md) have these codes.\n"
    for refusal, status in devices._STATUS.items():
        yield f"### {refusal}\n{devices._SAYS[refusal][0].upper()}{devices._SAYS[refusal][1:]}.\n\n- **HTTP status**: {status}\n"


def _library() -> Iterator[str]:
    yield "## Of the library"
    yield "`ptklib` raises classes instead of codes. All of them are below `ptklib.PtklibError`, and the caller fixes the call.\n"
    for kind in vars(ptklib.exceptions).values():
        if isinstance(kind, type) and issubclass(kind, PtklibError):
            meaning = escaped(" ".join((kind.__doc__ or "").split()))
            yield f"### {kind.__name__}\n{meaning}\n\n- **Python**: `ptklib.exceptions.{kind.__name__}`\n"
