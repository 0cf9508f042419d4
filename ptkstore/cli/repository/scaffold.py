"""The command that begins a team's repository: `ptk init`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.markup import escape

from ptkstore.cli.output import AsJson, answers, console, print_json
from ptkstore.domain.names import checked_name
from ptkstore.errors import InvalidRequest, NameTaken

_FILES: Final = ("team.toml", "ptks.py", "trip_counts.py", "README.md", ".github/workflows/ptks.yml")
"""Each is written from the file of its name in `template/`, with the names of team and stream put in."""


@answers
def init(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="The directory of the new repository; here by default.")
    ] = Path("."),
    team: Annotated[
        str | None, typer.Option(help="The name of the team; that of the directory by default.")
    ] = None,
    stream: Annotated[str, typer.Option(help="The stream that the example learns from.")] = "events",
    as_json: AsJson = False,
) -> None:
    """Begin the repository of a team: declarations, an example of team code, a README and a CI workflow.

    Nothing that is there is overwritten.
    """
    name = checked_name("team", team or _name_of(folder))
    checked_name("stream", stream)
    taken = [path for path in _FILES if (folder / path).exists()]
    if taken:
        raise NameTaken(f"{folder} has a {taken[0]} already; nothing was written")
    try:
        for path in _FILES:
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            text = (Path(__file__).parent / "template" / f"{place.name}.txt").read_text()
            place.write_text(text.replace("{team}", name).replace("{stream}", stream))
    except OSError as error:
        raise InvalidRequest(
            f"{folder} cannot be written: {error.strerror or type(error).__name__}"
        ) from None
    if as_json:
        document = {"folder": str(folder), "team": name, "stream": stream, "files": sorted(_FILES)}
        print_json({**document, "next": _next(folder, name, stream)})
    else:
        console.print(escape(f"{folder}: {', '.join(_FILES)}"), highlight=False)
        begin, *rest = _next(folder, name, stream)
        console.print(f"Next, unless there is a stream {stream} with these columns:", highlight=False)
        console.print(f"  {escape(begin)}", highlight=False, soft_wrap=True)
        console.print(
            "Then, here or with PTK_URL and PTK_TOKEN set for a store behind HTTP:", highlight=False
        )
        for command in rest:
            console.print(f"  {escape(command)}", highlight=False, soft_wrap=True)


def _next(folder: Path, team: str, stream: str) -> list[str]:
    """The commands that come next, the first of them only where the stream is not there."""
    place = shlex.quote(str(folder))
    return [
        f"ptk stream create {stream} --team {team} --time-column at --epsilon 1 "
        "--origin 2026-01-05 --closing operator --schema at:timestamp,hour:int64,speed:float64",
        f"ptk plan {place}",
        f"ptk apply {place}",
    ]


def _name_of(folder: Path) -> str:
    name = folder.resolve().name.lower().replace("-", "_")
    try:
        return checked_name("team", name)
    except InvalidRequest:
        raise InvalidRequest("the directory's name cannot be a team's; give one by --team") from None
