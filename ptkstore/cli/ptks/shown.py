"""How one PTK is shown to people: tables on a terminal, one `name: value` a line where the output is piped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from ptkstore.cli.output import console, one_line, print_meanings, print_rows
from ptkstore.cli.tables import is_time, minute
from ptkstore.domain.codes import JOB, NOTICE, RUN
from ptkstore.domain.ptks.accept_deadlines import AcceptDeadline
from ptkstore.domain.ptks.ptks import LATER_FIELDS
from ptkstore.sdk.documents.validations import waiting_text

_LISTS = ("trainings", "validations", "evaluations", "notices")


def print_ptk(detail: Mapping[str, Any]) -> None:
    """Print the fields of a PTK, its parameters and its newest version."""
    own = ["ptk", "family", "description", "stream", "target", "assurance"]
    own += ["asserted_by"] if detail["asserted_by"] else []
    own += [one.key for one in LATER_FIELDS]
    if detail["guarantee"] != "central":
        own = ["guarantee", *(name for name in own if name not in ("target", "windows"))]
    print_fields("", {name: detail[name] for name in own})
    newest = detail["newest"]
    if (waiting := detail["waiting"]) is not None:
        state = waiting_text(AcceptDeadline.of(waiting), newest)
        print_fields("accept", {"state": state, "since_window": waiting["since"]})
    print_fields("config", detail["config"])
    if newest is None:
        print_fields("newest", {"version": "none yet"})
        return
    guarantee = {name: value for name, value in newest["guarantee"].items() if name != "event"}
    window = newest["newest_contributing_window"]
    print_fields(
        "newest",
        {
            "version": newest["version"],
            "published_at": newest["published_at"],
            "window_start": window["start"],
            "window_end": window["end"],
            **guarantee,
        },
    )
    if "instances" in newest:
        reports = newest["instances"].get("reports_at_most")  # a version of before has none
        others = {name: value for name, value in newest["instances"].items() if name != "reports_at_most"}
        print_fields("instances", others)
        if reports is not None:
            print_fields("reports", {f"{name}_at_most": count for name, count in reports.items()})


def print_lists(detail: Mapping[str, Any]) -> None:
    """Print what became of a PTK's trainings, what its losses are, and the notices to its owner."""
    for name in _LISTS:
        if detail[name] is not None:
            print_rows(detail[name], as_json=False, title=name.capitalize(), nothing=f"no {name} yet")
    with_codes = [*(detail["trainings"] or ()), *(detail["notices"] or ())]
    print_meanings(with_codes, NOTICE, RUN, JOB)
    parts = (*(("profile",) if detail["guarantee"] == "central" else ()), *_LISTS)
    print_hidden([name for name in parts if detail[name] is None])


def print_hidden(parts: Sequence[str]) -> None:
    """Print which parts of a page a token may not see."""
    if parts:
        console.print(f"not for this token: {', '.join(parts)}")


def print_fields(about: str, fields: Mapping[str, Any]) -> None:
    """Print names with their values: as a table on a terminal, else as lines `about.name: value`."""
    if not console.is_terminal:
        for name, value in fields.items():
            console.print(
                one_line(f"{about}.{name}: {_text(value)}" if about else f"{name}: {_text(value)}"),
                highlight=False,
                soft_wrap=True,
            )
        return
    table = Table(title=about.capitalize() or None, title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in fields.items():
        heading = (
            name if about == "config" else name.replace("_", " ")
        )  # set-config takes the names of a config
        table.add_row(one_line(heading), one_line(_shown(value)))
    console.print(table, highlight=False)


def _shown(value: object) -> str:
    """A value on a terminal: a mapping of texts, such as columns, as words."""
    if isinstance(value, Mapping) and value and all(isinstance(one, str) for one in value.values()):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    text = _text(value)
    return f"{minute(text)} UTC" if is_time(text) else text


def _text(value: object) -> str:
    """A value as people read it: a text as it is, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
