"""`ptk status`: the overview of a store in a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from textwrap import wrap
from typing import Annotated, TypeVar

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ptkstore.application.operations.read_overview import Listed, Overview, StreamFacts, WaitsFor
from ptkstore.application.operations.service_parts import STARTING
from ptkstore.application.operations.unfinished_work import WorkFacts
from ptkstore.cli.output import AsJson, console, counted, one_line, print_json, reads
from ptkstore.domain.codes import LETTER, NOTICE, RUN, sentence_of
from ptkstore.errors import InvalidRequest, Unavailable
from ptkstore.sdk.overview_words import part_in_words, trouble_in_words, work_in_words
from ptkstore.sdk.overviews import overview_document
from ptkstore.sdk.store import Store

LINES = 5
"""Items of one kind that are shown; the line after them says how many more there are."""
NOT_SHOWN = "not shown to you: your roles do not allow it"
_PROCESSES = ("relay", "schedule", "worker")
_WAITS_FOR = {
    WaitsFor.SCHEDULER: "waits for its next training",
    WaitsFor.ACCEPTED_VERSION: "waits for its first accepted version",
    WaitsFor.FIRST_VERSION: "has no version yet",
}
_T = TypeVar("_T")


@reads
def status(
    store: Store,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it again and again until interrupted (Ctrl-C).")
    ] = False,
    every: Annotated[
        float, typer.Option("--every", min=1.0, help="Seconds between two looks of --watch.")
    ] = 5.0,
    as_json: AsJson = False,
) -> None:
    """Show whether the store is healthy, what needs you, and what happened in the last day.

    It lists what fails: parts of the service, exposure checks, trainings of the last seven days, and subscriptions.
    It also lists dead letters, PTKs that were given up, and unfinished work. You see what your roles allow.
    """
    if watch and as_json:
        raise InvalidRequest("--watch is for people and --json for programs: give one of them")
    if as_json:
        print_json(overview_document(store.service.overview()))
    elif watch:
        _watch(store, every)
    else:
        console.print(shown(store.service.overview()))


def _watch(store: Store, every: float) -> None:
    """Show the overview until interrupted; while the store is away the last one stays, with a line that says so."""
    page: RenderableType = shown(store.service.overview())
    with suppress(KeyboardInterrupt), Live(page, console=console, auto_refresh=False) as live:
        while True:
            live.update(Group(page, Text(f"\nEvery {every:g} s. End with Ctrl-C.", "dim")), refresh=True)
            time.sleep(every)
            try:
                page = shown(store.service.overview())
            except Unavailable as error:
                line = Text(f"\n{error.code}: {one_line(error)}. Trying again.", "bold red")
                live.update(Group(page, line), refresh=True)
                time.sleep(every)


def shown(overview: Overview) -> Group:
    """Return the overview as it is printed: health, what needs somebody, budgets, the last day."""
    parts: list[RenderableType] = [_health(overview)]
    needs = list(_needs(overview))
    if needs:
        parts += [Text("\nNeeds you", "bold"), _lines(needs)]
    else:
        else_ = "" if overview.healthy else " else"
        parts.append(Text(f"Nothing{else_} needs you.", "green" if overview.healthy else ""))
    waiting = list(_some(overview.waiting, lambda one: (one.ptk_id, _waiting(one.waits_for, one.since))))
    if waiting:
        parts += [Text(f"\nWaiting: {counted(overview.waiting.count, 'PTK')}", "bold"), _lines(waiting)]
    if overview.work is not None and overview.work.count:
        heading = f"\nUnfinished: {counted(overview.work.count, 'job')}"
        parts += [Text(heading, "bold"), _lines(list(_some(overview.work, _work)))]
    if overview.streams:
        parts += [Text("\nStreams", "bold"), _streams(overview.streams)]
    else:
        parts.append(Text("\nNo stream yet. Create one by ptk stream create, or try ptk demo."))
    return Group(*parts, Text("\nLast 24 hours", "bold"), _lines(list(_day(overview))))


def _health(overview: Overview) -> Text:
    """The first line. A home whose processes do not run, or only start, is neither healthy nor broken."""
    starting = [name for name in _PROCESSES if overview.parts.get(name) == STARTING]
    away = [name for name in _PROCESSES if overview.parts.get(name) == "silent"]
    if set(overview.failing) - set(_PROCESSES):
        text = Text("Not healthy", "bold red")
    elif starting and set(overview.failing) <= set(starting):
        text = Text("Starting", "bold yellow")
    elif overview.failing:
        text = Text("Not running", "bold yellow")
    else:
        text = Text("Healthy", "bold green")
    text = Text.assemble(text, f" at {_time(overview.at)}.")
    for state in ("failing", "lost", "silent"):
        names = [name for name, one in sorted(overview.parts.items()) if one == state and name not in away]
        if names:
            text.append(f" {state.capitalize()}: {', '.join(names)}.", "red")
    if starting:
        text.append(
            f" No work is done until {_together(starting)} answer{'s' if len(starting) == 1 else ''};"
            " the logs are in the folder log of the home.",
            "yellow",
        )
    if away:
        them = _together(away)
        text.append(
            f" No work is done without {them}; ptk up starts {'it' if len(away) == 1 else 'them'}.", "yellow"
        )
    return text


def _together(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _needs(overview: Overview) -> Iterator[tuple[str, str]]:
    """Lines of what needs somebody: what it is about, what is wrong and which command tells more."""
    yield from ((name, part_in_words(name)) for name in overview.failing if name not in _PROCESSES)
    for stream in overview.streams:
        if stream.exposure is not None and not stream.exposure.holds:
            yield stream.name, f"{stream.exposure.verdict} See: ptk stream show {stream.name}"
    yield from _some(
        overview.failed_trainings,
        lambda one: (
            one.ptk_id,
            f"training on window {one.window} failed ({one.code}) at {_time(one.at)}. "
            f"{_said(one.code, NOTICE, RUN)}See: ptk show {one.ptk_id}",
        ),
    )
    yield from _some(
        overview.given_up,
        lambda one: (
            one.ptk_id,
            f"given up ({one.code}). {_said(one.code, NOTICE)}Train it again by: ptk resume {one.ptk_id}",
        ),
    )
    yield from _some(
        overview.troubled_subscriptions,
        lambda one: (
            one.ptk_id,
            f"subscription {one.id} {trouble_in_words(one.status, one.dead_letters, one.code)}. "
            f"{_said(one.code, LETTER)}See: ptk deliveries {one.id}",
        ),
    )


def _said(code: str | None, *uses: str) -> str:
    """The sentence of a code, before another one; nothing of a code that is not known."""
    sentence = sentence_of(code or "", *uses)
    return "" if sentence is None else f"{sentence} "


def _waiting(waits_for: WaitsFor, since: datetime | None) -> str:
    return _WAITS_FOR[waits_for] + ("" if since is None else f", since {_time(since)}")


def _work(one: WorkFacts) -> tuple[str, str]:
    """What it is about, what is done with it, and how that goes."""
    closed = "" if one.since is None else f"; the window closed at {_time(one.since)}"
    return one.ptk_id or one.stream, f"{work_in_words(one)}{closed}"


def _some(listed: Listed[_T] | None, line: Callable[[_T], tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The first items as lines, and how many more there are."""
    if listed is None:
        return
    for one in listed.items[:LINES]:
        yield line(one)
    if listed.count > LINES:
        yield "", f"and {listed.count - LINES} more"


def _streams(streams: tuple[StreamFacts, ...]) -> Table:
    table = Table(header_style="bold")
    for heading in ("stream", "PTKs", "active blocks", "nearly spent", "fullest block", "used"):
        table.add_column(heading, justify="left" if heading in ("stream", "fullest block") else "right")
    for one in streams:
        budget = one.budget
        if budget is None:
            table.add_row(one_line(one.name), str(one.ptks), "", "", "not shown", "")
        elif (block := budget.fullest) is None:
            table.add_row(one_line(one.name), str(one.ptks), "0", "0", "none", "")
        else:
            place = (
                f"window {block.window}, {block.part}"
                if block.window is not None
                else f"block {block.number}"
            )
            nearly = Text(str(budget.nearly_spent), "yellow" if budget.nearly_spent else "")
            table.add_row(
                one_line(one.name),
                str(one.ptks),
                str(budget.active_blocks),
                nearly,
                place,
                f"{block.share_used:.0%} of epsilon {block.capacity_epsilon:g}",
            )
    return table


def _day(overview: Overview) -> Iterator[tuple[str, str]]:
    closed = [(one.name, one.closed_windows) for one in overview.streams if one.closed_windows is not None]
    if closed or not overview.streams:
        busy = sorted(
            ((name, number) for name, number in closed if number), key=lambda one: (-one[1], one[0])
        )
        yield (
            "closed",
            _first(sum(number for _, number in busy), "window", [f"{n} {number}" for n, number in busy]),
        )
    else:
        yield "closed", NOT_SHOWN
    if (published := overview.published) is None:
        yield "published", NOT_SHOWN
    else:
        newest = [f"{one.ptk_id} v{one.version}" for one in published.items]
        yield "published", _first(published.count, "version", newest, published.count)
    if overview.notices is None:
        yield "notices", NOT_SHOWN
    else:
        see = "; see: ptk notices" if overview.notices.count else ""
        yield "notices", f"{overview.notices.count}{see}"


def _first(count: int, word: str, things: list[str], of: int | None = None) -> str:
    """A count with its unit, the first things of the list, and how many of its things are left out."""
    left_out = (len(things) if of is None else of) - LINES
    more = f" and {left_out} more" if left_out > 0 else ""
    return counted(count, word) + (f": {', '.join(things[:LINES])}{more}" if things else "")


def _lines(lines: list[tuple[str, str]]) -> Text:
    """Two columns, without spaces at the ends of lines."""
    text = Text()
    first = max(len(about) for about, _ in lines) + 4
    for number, (about, told) in enumerate(lines):
        wrapped = wrap(
            one_line(told), max(20, console.width - first), break_long_words=False, break_on_hyphens=False
        )
        text.append("" if not number else "\n").append(f"  {one_line(about)}".ljust(first), "cyan")
        text.append(f"\n{' ' * first}".join(wrapped))
    return text


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
