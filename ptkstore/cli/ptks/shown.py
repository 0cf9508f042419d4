"""How one PTK is shown to people: tables on a terminal, one `name: value` a line where the output is piped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.table import Table

from ptkstore.cli.output import console, one_line, print_meanings, print_rows
from ptkstore.cli.tables import is_time, minute
from ptkstore.domain.codes import JOB, NOTICE, RUN
from ptkstore.domain.ptks.accept_deadlines import AcceptDeadline
from ptkstore.domain.ptks.ptks import LATER_FIELDS
from ptkstore.sdk.documents.times import age_in_words
from ptkstore.sdk.documents.validations import waiting_text

if TYPE_CHECKING:
    from ptkstore.application.states.state_tables import StateTable

_LISTS = ("trainings", "validations", "evaluations", "notices")


def print_ptk(detail: Mapping[str, Any]) -> None:
    """Print the fields of a PTK, its parameters and its newest version."""
    own = ["ptk", "family", "description", "stream", "target", "assurance"]
    own += ["asserted_by"] if detail["asserted_by"] else []
    own += [one.key for one in LATER_FIELDS]
    guarantee = detail["sentence"]
    if detail["guarantee"] != "central":
        own = [name for name in own if name not in ("target", "windows")]
        guarantee = f"{detail['guarantee']}. {guarantee}"
    print_fields("", {name: detail[name] for name in own} | {"guarantee": guarantee})
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
            "age": age_in_words(datetime.fromisoformat(newest["published_at"]), datetime.now(UTC)),
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


def print_values(state: StateTable | None) -> None:
    """Print the first rows of a state; a heading says the standard deviation of its column's noise, if it is one."""
    if state is None:
        console.print("no state to show: there is none yet, or it is too large; in Python: Store.ptk(...)")
        return
    of_columns = {} if state.noise_by_row else state.noise_std
    headings = [f"{name} ± {of_columns[name]:.3g}" if name in of_columns else name for name in state.columns]
    rows = [dict(zip(headings, row, strict=True)) for row in state.rows]
    print_rows(rows, as_json=False, title=f"What it says: {state.name}", nothing="the state has no rows")
    more = f"the first {len(rows)} of {state.n_rows} rows; " if state.n_rows > len(rows) else ""
    told = "± is one standard deviation of the noise" if state.noise_std else "the state tells no noise"
    if state.noise_by_row:
        noisy = ", ".join(state.noise_std)
        told = f"{state.noise_by_row} is one standard deviation of the noise in the row's {noisy}"
    console.print(one_line(f"{more}{told}"), highlight=False)


def values_document(state: StateTable | None) -> dict[str, Any] | None:
    """Write the rows of a state for programs."""
    if state is None:
        return None
    return {
        "table": state.name,
        "rows": [dict(zip(state.columns, row, strict=True)) for row in state.rows],
        "n_rows": state.n_rows,
        "noise_std": dict(state.noise_std),
        "noise_by_row": state.noise_by_row or None,
    }


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
