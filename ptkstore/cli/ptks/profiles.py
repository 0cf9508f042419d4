"""How the profile of a PTK is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape

from ptkstore.cli.output import console, counted, print_rows

if TYPE_CHECKING:
    from ptkstore.application.profiling.read_profile import ProfileView


def profile_json(view: ProfileView) -> dict[str, Any]:
    """Return the profile as plain JSON."""
    document: dict[str, Any] = {
        "method": view.method,
        "menu": [{"epsilon": epsilon, "rows": rows} for epsilon, rows in view.menu],
        **view.assured.document(),
    }
    if view.method != "samples":
        return {**document, "facts_of_version": view.facts_of} if view.method == "formula" else document
    return {
        **document,
        "state": view.state,
        "renewals": max(0, view.number - 1),
        "asked_at_window": view.asked_at,
        "age_in_windows": view.age,
        "max_age_in_windows": view.max_age,
        "drifted_at_window": view.drifted_at,
        "tries": view.tries,
        "most_tries": view.most_tries,
        "target": view.target,
        "evaluation": view.evaluation,
        "drift_test_epsilon": view.drift_epsilon,
        "answers": [
            {"epsilon": point.epsilon, "answer": point.verdict.value, "units": point.n}
            for point in view.points
        ],
        "paid": [
            {
                "what": one.what,
                "window": one.window,
                "block": one.blocks.lo,
                "last_block": one.blocks.hi - 1,
                "epsilon": one.loss.epsilon,
                "delta": one.loss.delta,
            }
            for one in view.paid
        ],
        "advice": view.advice,
    }


def print_profile(view: ProfileView) -> None:
    """Print the profile for people: in one line, with tables of answers and of what they cost."""
    shown = profile_json(view)
    console.print(f"[bold]profile[/]: {escape(_line(view))}", highlight=False, soft_wrap=True)
    if view.method == "samples":
        print_rows(shown["answers"], as_json=False, title="Profile", nothing="the profile has no answer yet")
        if shown["paid"]:
            print_rows(shown["paid"], as_json=False, title="Paid for the profile", nothing="")
    if view.advice:
        console.print(f"[bold]advice[/]: {escape(view.advice)}", highlight=False, soft_wrap=True)


def _line(view: ProfileView) -> str:
    if view.method != "samples":
        if view.method == "declared":
            return "the declared loss, on all rows"
        facts = f", with what version {view.facts_of} tells of the data" if view.facts_of else ""
        return f"by formula{facts}{_menu(view)}"
    if view.state is None:
        return "by samples: none yet; until then the declared loss, on all rows"
    age = f"{view.age} of {counted(view.max_age or 0, 'window')} old"
    drifted = "" if view.drifted_at is None else f", drifted at window {view.drifted_at}"
    return f"by samples: {view.state}, {age}{drifted}{_menu(view)}"


def _menu(view: ProfileView) -> str:
    pairs = ", ".join(f"({epsilon:.4g}, {rows})" for epsilon, rows in view.menu)
    return f"; (epsilon, rows) to choose from: {pairs or 'none'}"
