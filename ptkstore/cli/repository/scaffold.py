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

_TEAM: Final = """\
# Whose repository this is. Its PTKs are named <team>.<name>, its Feast views <team>__<name>.
team = "{team}"

# Team code travels as a bundle of all modules here, hidden folders and tests left out. More files, or fewer:
# [bundle]
# include = ["data/*.json"]
# exclude = ["notebooks/*"]
"""

_PTKS: Final = '''\
"""Declares what team {team} shares.

Everything written here is public: domains, bounds and budgets may be read by anyone, so none of them may be
read off the rows. `ptk plan` runs this file on your machine; a store never does.
"""

from ptklib import HistoricalStatistics
from ptkstore import PTK

HOURS = list(range(24))

speed_by_hour = PTK(
    name="speed_by_hour",
    stream="{stream}",
    estimator=HistoricalStatistics(
        keys=["hour"],
        values=["speed"],
        domains={{"hour": HOURS}},
        bounds={{"speed": (0.0, 60.0)}},  # speeds outside are clipped
        epsilon=0.1,
    ),
    target=0.1,  # the error it aims at, as a part of the width of the bounds
    every="1d",
    description="Rows and mean speed by hour of day",
)

# A PTK trained by code of your own, in trip_counts.py. It is `asserted`: its epsilon is your word, and only streams
# whose policy accepts that take it (ptk stream create --minimum-assurance asserted).
#
# from ptkstore import TeamFunctions
# from trip_counts import evaluate, train_dp
#
# trip_counts = PTK(
#     name="trip_counts",
#     stream="{stream}",
#     estimator=TeamFunctions(
#         train_dp=train_dp,
#         eval=evaluate,
#         columns=["hour"],
#         tables={{
#             "hours": {{
#                 "keys": ["hour"],
#                 "columns": {{"hour": "int64", "trips": "int64"}},
#                 "domains": {{"hour": HOURS}},  # all that a key or a text may be; numbers need none
#             }}
#         }},
#         synthetic={{"hour": HOURS}},
#         epsilon=0.1,
#     ),
#     target=0.1,
#     every="1d",
#     description="Rows by hour of day",
# )
'''

_OWN: Final = '''\
"""The paper's two functions, for a PTK of our own: rows by hour of day."""

import numpy as np
import pyarrow as pa

from ptklib.mechanisms import laplace

HOURS = 24


def train_dp(trainset_iter, epsilon, previous_model_state, previous_config):
    """Count the rows of each hour; the noise makes one row more or less show by a factor of e**epsilon at most."""
    counts = count(trainset_iter)
    noisy = laplace(counts, l1_sensitivity=1, epsilon=epsilon)  # never numpy's noise: its low bits tell
    if previous_model_state is not None:  # released before: adding it costs nothing
        noisy = noisy + previous_model_state["hours"].column("trips").to_numpy()
    return {{"hours": pa.table({{"hour": np.arange(HOURS), "trips": noisy}})}}


def evaluate(testset_iter, model_state):
    """Return how far the shares of the hours are from those of a test set; run on synthetic rows only."""
    true, released = count(testset_iter), model_state["hours"].column("trips").to_numpy().clip(0)
    return float(np.abs(true / max(true.sum(), 1) - released / max(released.sum(), 1)).sum() / 2)


def count(tables):
    """Count rows by hour; a missing or unknown hour changes nothing, and raises nothing."""
    counts = np.zeros(HOURS, dtype=np.int64)
    for table in tables:
        hours = table.column("hour").drop_null().to_numpy()
        counts += np.bincount(hours[(hours >= 0) & (hours < HOURS)], minlength=HOURS)
    return counts
'''

_README: Final = """\
# What team {team} shares

| file | says |
|---|---|
| `team.toml` | whose repository this is |
| `ptks.py` | the PTKs: which estimator, on which stream, with which budget and target |
| `trip_counts.py` | an example of own training code, not used until `ptks.py` says so |
| `.github/workflows/ptks.yml` | plans every change, applies what is merged |

    ptk plan .      # what would change, what it would reserve of each window, what would be refused
    ptk apply .     # register it

To try it out, with a stream that has the columns this example reads:

    ptk stream create {stream} --team {team} --time-column at --epsilon 1 --minimum-assurance asserted \\
        --origin 2026-01-05 --closing operator --schema at:timestamp,hour:int64,speed:float64
    ptk apply .
    ptk ingest {stream} trips.parquet        # rows of 2026-01-05, made by you
    ptk close {stream} --until 2026-01-06
    ptk work
    ptk lookup {team}.speed_by_hour hour=8

`--prune` also deregisters the team's PTKs that are not declared any more. `ptk apply --prune` asks before it does so.
A PTK that is declared again comes back, and its versions continue. A workflow cannot be asked: it says
`ptk apply . --prune --yes`. `PTK_URL` and `PTK_TOKEN` let both commands work on a store behind HTTP.
"""

_CI: Final = """\
name: ptks
on:
  pull_request:
  push:
    branches: [main]
jobs:
  ptks:
    runs-on: ubuntu-latest
    env:
      PTK_URL: ${{{{ vars.PTK_URL }}}}
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.11"
      - run: sudo apt-get install --yes bubblewrap  # runs team code apart, on synthetic rows
      # PTK_PACKAGE has one requirement a line; whoever runs the store knows both addresses:
      #   ptklib @ https://.../ptklib-0.1.0-py3-none-any.whl#sha256=...
      #   ptkstore[service] @ https://.../ptkstore-0.1.0-py3-none-any.whl#sha256=...
      - run: |
          echo "${{PTK_PACKAGE:?set the variable PTK_PACKAGE of this repository to what pip installs}}" > packages.txt
          pip install --requirement packages.txt
        env:
          PTK_PACKAGE: ${{{{ vars.PTK_PACKAGE }}}}
      - run: ptk plan .
        env:
          PTK_TOKEN: ${{{{ secrets.PTK_TOKEN }}}}  # of a developer of team {team}
      - if: github.ref == 'refs/heads/main'
        run: ptk apply .
        env:
          PTK_TOKEN: ${{{{ secrets.PTK_TOKEN }}}}
"""

_FILES: Final = {
    "team.toml": _TEAM,
    "ptks.py": _PTKS,
    "trip_counts.py": _OWN,
    "README.md": _README,
    ".github/workflows/ptks.yml": _CI,
}


@answers
def init(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where to begin; here by default.")] = Path(
        "."
    ),
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
        for path, text in _FILES.items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text.format(team=name, stream=stream))
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
        f"ptk stream create {stream} --team {team} --time-column at --epsilon 1 --minimum-assurance asserted "
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
