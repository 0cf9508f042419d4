"""The tables of docs/reference/http.md, made from the OpenAPI document.

`python -m ptkstore.api.reference docs/reference/http.md` writes them into the page anew.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ptkstore.api.app import create_app
from ptkstore.api.problems import STATUS
from ptkstore.domain.identity import Action
from ptkstore.settings import Settings
from ptkstore.wiring import Service

BEGIN, END = "<!-- made from the program: begin -->\n", "<!-- end -->\n"
ANYBODY = "anybody, without a token"
_UNFORESEEN = 500, "internal-error", "Something that nobody foresaw; the operator finds it by the request id."
OPEN = {"/metrics": "administrator, officer for all streams, or `PTK_METRICS_TOKEN`"}


def openapi() -> dict[str, Any]:
    """Return the OpenAPI document, without a server and without a home."""
    return create_app(Service(Settings(home=Path("nowhere")))).openapi()


def tables() -> str:
    """Return operations by tag, problems by code."""
    return "\n".join((_operations(openapi()), _problems(), _traced()))


def page_with(text: str, page: str) -> str:
    """Put `text` between the marks of a page."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def _operations(document: Mapping[str, Any]) -> str:
    by_tag: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            roles = operation.get("description", "").rpartition("Roles: ")[2].rstrip(".")
            open_to = roles if "Roles: " in operation.get("description", "") else OPEN.get(path, ANYBODY)
            row = f"| `{method.upper()} {path}` | {operation['summary']} | {open_to} |"
            by_tag.setdefault(operation["tags"][0], []).append(row)
    return "\n".join(
        f"### {tag.capitalize()}\n\n| request | what it does | roles |\n|---|---|---|\n"
        + "\n".join(rows)
        + "\n"
        for tag, rows in by_tag.items()
    )


def _problems() -> str:
    rows = sorted(
        (status, kind.code, (kind.__doc__ or "").splitlines()[0]) for kind, status in STATUS.items()
    )
    rows = sorted([*(row for row in rows if row[1] != "error"), _UNFORESEEN])
    lines = [f"| {status} | `{code}` | {meaning} |" for status, code, meaning in rows]
    head = "### Problems\n\n| status | code | meaning |\n|---|---|---|\n"
    return (
        head
        + "\n".join(lines)
        + "\n\nMore codes exist below these; each has the status of the one above it.\n"
    )


def _traced() -> str:
    by_kind: dict[str, list[str]] = {}
    for action in Action:
        if action.rule.traced:
            by_kind.setdefault(action.value.partition(".")[0], []).append(f"`{action.value}`")
    rows = "\n".join(f"| {kind} | {', '.join(names)} |" for kind, names in by_kind.items())
    return (
        f"### Actions in the audit trail\n\n| about | actions |\n|---|---|\n{rows}\n\nThe trail also has every refusal "
        "by roles below `/v1` and, once a minute and entrance of a process, a token that opens nothing.\n"
    )


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(page_with(tables(), file.read_text()))
