"""Commands about a team's repository: plan, apply, destroy."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from ptkstore.cli.output import (
    REFUSED,
    URL,
    AsJson,
    Home,
    answers,
    at_url,
    console,
    one_line,
    opened,
    print_json,
    said,
)
from ptkstore.errors import Refused
from ptkstore.sdk import Repository, Store, load_repository, team_of
from ptkstore.sdk.repository.changes import Change
from ptkstore.sdk.repository.device_reports import ReportsPlanned, VerdictAsked

Folder = Annotated[Path, typer.Argument(metavar="[DIR]", help="The repository of the team; here by default.")]
Url = Annotated[
    str | None,
    typer.Option(
        "--url", envvar=URL, help="The store behind this URL, with the token in PTK_TOKEN; not a home."
    ),
]
Prune = Annotated[
    bool,
    typer.Option(
        "--prune",
        help="Deregister those PTKs of the team that are not declared; declared again, they come back.",
    ),
]
_MARKS = {
    "register": "[green]+ register[/]",
    "update": "[yellow]~ update[/]",
    "keep": "  keep",
    "deregister": "[red]- deregister[/]",
    "stay": "[yellow]! stays[/]",
}
_COUNTED = {
    "register": "to register",
    "update": "to update",
    "keep": "unchanged",
    "deregister": "to deregister",
}
_DONE = {
    "register": ("registered",),
    "update": ("updated",),
    "keep": ("left", " as it is", " as they are"),
    "deregister": ("deregistered",),
    "stay": ("left registered", ", though undeclared", ", though undeclared"),
}
_SHOWN = 60
"""Characters of a value that a plan shows; `--json` has all of it."""


@answers
def plan(
    folder: Folder = Path("."),
    prune: Prune = False,
    skip_audit: Annotated[
        bool, typer.Option("--skip-audit", help="Leave audits out; apply never does, of team code.")
    ] = False,
    url: Url = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Show what `apply` would change, what it would reserve per window, and how PTKs do on synthetic rows.

    Exit code 1 when `apply` would refuse something, or a check failed.
    """
    repository = load_repository(folder)
    with _store(url, home) as store:
        changes = store.plan(repository, prune=prune, audit=not skip_audit, tell=_tell)
        staying = () if prune else store.undeclared(repository)
        queues = _with_queues(store, (*changes, *staying), as_json=as_json)
    _show((*changes, *staying), queues, as_json=as_json, declared=bool(repository.ptks))
    if not as_json and (changes or staying):
        for line in _rooms(changes):
            console.print(one_line(line), highlight=False, soft_wrap=True)
        console.print(_summary((*changes, *staying)), highlight=False)
    if not all(change.acceptable for change in changes):
        raise typer.Exit(REFUSED)


@answers
def apply(
    folder: Folder = Path("."),
    prune: Prune = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Deregister with --prune without asking; needed without a terminal.")
    ] = False,
    url: Url = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Register or update the PTKs that the repository of a team declares; repeatable.

    With `--prune` it lists the PTKs that would be deregistered, and asks.
    """
    repository = load_repository(folder)
    with _store(url, home) as store:
        if prune and not yes:
            names = [change.ptk_id for change in store.undeclared(repository)]
            _confirm(names)
            changes = store.apply(repository, prune=names)  # no PTK that nobody was asked about
        else:
            changes = store.apply(repository, prune=prune)
        if not prune and not as_json:
            changes = (*changes, *store.undeclared(repository))
        queues = _with_queues(store, changes, as_json=as_json)
    _show(changes, queues, as_json=as_json, declared=bool(repository.ptks))
    if not as_json and changes:
        console.print(_done(changes), highlight=False)


@answers
def destroy(
    folder: Folder = Path("."),
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it; without, only what would be done is shown.")
    ] = False,
    url: Url = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Deregister all PTKs of the team of a repository; their versions stay in the lake.

    Declaring a PTK again and applying that brings it back under the next version.

    The team is read from team.toml; what the repository declares is not.
    """
    team = Repository(team_of(folder), ())
    with _store(url, home) as store:
        changes = store.apply(team, prune=True) if yes else store.plan(team, prune=True)
        queues = _with_queues(store, changes, as_json=as_json)
    _show(changes, queues, as_json=as_json)
    if as_json:
        return
    if not changes:
        console.print("the team has no PTK")
    else:
        console.print(_done(changes) if yes else "nothing was done: say --yes to do it", highlight=False)


def _confirm(names: Sequence[str]) -> None:
    """Ask on the terminal whether these PTKs are to go; `Refused` where nobody says yes."""
    if not names:
        return
    warning = f"--prune deregisters {', '.join(names)}; declaring a PTK again brings it back"
    if not sys.stdin.isatty():
        raise Refused(
            f"{warning}. Nobody can be asked without a terminal: say --yes to do it; nothing was changed"
        )
    if not typer.confirm(f"{warning}. Deregister?", err=True):
        raise Refused("nothing was changed, as the answer was no")


def _tell(what: str) -> None:
    """On standard error, so that a document on standard output stays one."""
    said.print(f"[dim]{escape(what)} ...[/]", highlight=False, soft_wrap=True)


def _store(url: str | None, home: Path | None) -> Store:
    return opened(home) if url is None else at_url(url)


def _with_queues(store: Store, changes: Sequence[Change], *, as_json: bool) -> frozenset[str]:
    """The streams of these changes where PTKs wait for their trainings, so that no window reserves anything ahead."""
    names = {change.stream for change in changes if change.stream and change.per_device is None}
    if as_json or not names:
        return frozenset()
    return frozenset(
        one.name for one in store.service.streams() if one.name in names and one.policy.scheduler.lets_wait
    )


def _show(changes: Sequence[Change], queues: frozenset[str], *, as_json: bool, declared: bool = True) -> None:
    """Print what changes; and whether the repository has `declared` anything, where that was read.

    On the streams `queues` PTKs wait for their trainings.
    """
    if as_json:
        print_json([asdict(change) for change in changes])
        return
    for change in changes:
        console.print(
            f"{_MARKS[change.action]} {one_line(change.ptk_id)}  {_reserved(change, queues)}", highlight=False
        )
        if change.reports is not None:
            _show_reports(change.stream, change.reports)
        for warning in change.warnings:
            _warn(warning)
        for one in change.changes:
            change_text = f"{one.field} {_value(one.before)} -> {_value(one.after)}"
            console.print(f"    {one_line(change_text)}", highlight=False, soft_wrap=True)
        if change.returns is not None:
            console.print(f"    {_returning(change.returns)}", highlight=False, soft_wrap=True)
        if change.refused is not None:
            console.print(f"    [bold red]refused[/], {one_line(change.refused)}", highlight=False)
        else:
            about = [] if change.bundle is None else [f"team code, {change.assurance}"]
            about += [] if change.checks is None else [f"checks {change.checks}"]
            if about:
                console.print(f"    {one_line(': '.join(about))}", highlight=False)
        if change.reason:
            console.print(f"    {escape(change.reason)}", highlight=False, soft_wrap=True)
    if not declared:
        console.print("the repository declares no PTK: assign each to a name in its ptks.py", highlight=False)


def _show_reports(stream: str, reports: ReportsPlanned) -> None:
    """Print how many reports a model needs, with a warning where the counted devices cannot send as many."""
    text = f"needs some {_two_digits(reports.needed):,} reports until it is more than noise"
    if reports.brought is None:
        text += f"; no window of {stream} has counted reports yet"
    console.print(f"    {one_line(text)}", highlight=False, soft_wrap=True)
    if reports.short:
        text = (
            f"the devices whose reports the newest versions on {stream} count send at most {reports.brought:,} in "
            "all. Take fewer weights, a larger epsilon or a smaller k, or wait for more devices"
        )
        _warn(text)


def _warn(text: str) -> None:
    console.print(f"    [bold yellow]warning[/], {one_line(text)}", highlight=False, soft_wrap=True)


def _summary(changes: Sequence[Change]) -> str:
    """How many PTKs a plan is about: `1 to update, 3 unchanged, 1 stays registered though undeclared`."""
    count = Counter(change.action for change in changes)
    counts = [f"{count[action]} {words}" for action, words in _COUNTED.items() if count[action]]
    if stay := count["stay"]:
        counts.append(f"{stay} {'stays' if stay == 1 else 'stay'} registered though undeclared")
    text = ", ".join(counts)
    if refused := [change.ptk_id for change in changes if not change.acceptable]:
        text += f"; refused or failed, see ptks.py: {', '.join(refused)}"
    return one_line(text)


def _done(changes: Sequence[Change]) -> str:
    """Say what was done: `Done: 1 PTK was registered, 3 were left as they are.`."""
    count = Counter(change.action for change in changes)
    parts = [_were(count[action], *words) for action, words in _DONE.items() if count[action]]
    first, *rest = parts
    noun = " PTK" if first.startswith("1 ") else " PTKs"
    number, words = first.split(" ", 1)
    return f"Done: {', '.join((f'{number}{noun} {words}', *rest))}."


def _were(number: int, word: str, as_one: str = "", as_many: str = "") -> str:
    return f"{number} was {word}{as_one}" if number == 1 else f"{number} were {word}{as_many}"


def _rooms(changes: Sequence[Change]) -> list[str]:
    """Return a line on the room that the plan leaves on each stream."""
    rooms = {change.stream: change.room for change in changes if change.room is not None}
    verb = "without what is refused" if not all(change.acceptable for change in changes) else "after this"
    return [
        f"room left on {stream} {verb}: epsilon {room.epsilon:g}, delta {room.delta:g} a window, of epsilon "
        f"{room.capacity_epsilon:g}, delta {room.capacity_delta:g}"
        f"{f' of context {room.context}' if room.context else ''} (accountant {room.accountant})"
        for stream, room in sorted(rooms.items())
    ]


def _returning(version: int) -> str:
    """Say how the versions of a deregistered name continue."""
    if not version:
        return "comes back: its name was deregistered before"
    return f"comes back: its versions continue after v{version}; the state continues if the estimator is the same"


def _two_digits(number: int) -> int:
    """An estimate, to as many digits as it has."""
    return round(number, 2 - len(str(number)))


def _value(value: Any) -> str:
    """A value as JSON tells it, cut where it is long."""
    text = "none" if value is None else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _tested(verdict: VerdictAsked | None) -> str:
    if verdict is None:
        return "no block is charged"
    return f"each verdict costs epsilon {verdict.epsilon:g} of a test block of {verdict.stream}"


def _reserved(change: Change, queues: frozenset[str]) -> str:
    prune = "; --prune deregisters it" if change.action == "stay" else ""
    if change.per_device is not None:
        if change.action == "deregister":
            return "devices report no more to it; what they lost stays lost"
        one = change.per_device
        return (
            f"a device loses epsilon {one['report']:g} per report ({one['one_weight']:g} per weight), "
            f"{one['one_window']:g} per window, {one['in_all']:g} in all; {_tested(change.verdict)}{prune}"
        )
    waits = change.stream in queues
    if change.action == "deregister":
        return "waits no longer" if waits else f"frees epsilon {change.epsilon_before:g} a window"
    now = f"epsilon {change.epsilon:g}, delta {change.delta:g} a {'training' if waits else 'window'}"
    if change.action == "stay":
        return f"{'may lose' if waits else 'reserves'} {now}{prune}"
    changed = change.action == "update" and change.epsilon != change.epsilon_before
    return f"{now}, epsilon was {change.epsilon_before:g}" if changed else now
