"""The loss of a device of this machine, so far and at most: `ptk device`."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Any

import typer

from ptkstore.cli.devices.common import Folder, told
from ptkstore.cli.devices.sending import contribute, simulate
from ptkstore.cli.output import (
    AsJson,
    Done,
    answers,
    console,
    counted,
    loss_text,
    one_line,
    print_json,
    print_rows,
)
from ptkstore.errors import InvalidRequest

device_app = typer.Typer(no_args_is_help=True, help="Devices that contribute to models and send no row.")
device_app.command("contribute")(contribute)
device_app.command("simulate")(simulate)


class By(StrEnum):
    """Things by which the reports of a device are added up."""

    PTK = "ptk"
    STREAM = "stream"
    WINDOW = "window"
    REPORT = "report"


_FIELDS = {
    By.PTK: ("server", "stream", "ptk"),
    By.STREAM: ("server", "stream"),
    By.WINDOW: ("server", "stream", "window"),
    By.REPORT: ("at", "server", "stream", "ptk", "window", "specification"),
}


@device_app.command("odometer")
@answers
def odometer(
    folder: Folder,
    by: Annotated[By, typer.Option(help="The key by which reports are added up.")] = By.PTK,
    as_json: AsJson = False,
) -> None:
    """Show what a device has lost so far, and what it may still lose.

    Epsilons and deltas add up (basic composition). A file that is damaged or older than it was is refused.
    """
    from ptklib.draw_discard import Odometer

    if not folder.is_dir():
        raise InvalidRequest(f"there is no folder {folder}")
    with told():
        record = Odometer(folder).read()
    names = _FIELDS[by]
    rows = [
        {name: _shown(part) for name, part in zip(names, key, strict=True)} | asdict(loss)
        for key, loss in record.by(*names).items()
    ]
    limits, lost = record.limits, record.in_all()
    if as_json:
        allowed = None if limits is None else limits.to_json()
        print_json({"limits": allowed, "lost": asdict(lost), "by": by.value, "rows": rows})
        return
    print_rows(rows, as_json=False, title=f"Lost, by {by.value}", nothing="no reports yet", number=loss_text)
    in_all = f"in all: {counted(lost.reports, 'report')}, epsilon {loss_text(lost.epsilon)}"
    console.print(in_all + (f", delta {loss_text(lost.delta)}" if lost.delta else ""), highlight=False)
    if limits is None:
        console.print("nothing is allowed yet: see ptk device allow --help")
        return
    console.print(
        f"allowed: {counted(limits.reports_in_all, 'report')}, {limits.reports_per_window} in a window, each of "
        f"epsilon {loss_text(limits.report_epsilon)} and delta {loss_text(limits.report_delta)} at most, on "
        + one_line(", ".join(limits.columns) or "no column"),
        highlight=False,
        soft_wrap=True,
    )


@device_app.command("allow")
@answers
def allow(
    folder: Folder,
    report_epsilon: Annotated[
        float, typer.Option(help="Most that one report may lose, for the whole model.")
    ],
    reports_per_window: Annotated[
        int, typer.Option(help="Reports to a stream in one of its windows, and to all in an hour.")
    ],
    reports_in_all: Annotated[int, typer.Option(help="Reports to all streams, ever.")],
    column: Annotated[
        list[str], typer.Option(help="A column that models may read, the label too; may be repeated.")
    ],
    report_delta: Annotated[float, typer.Option(help="Most delta of one report.")] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Say what a device may lose from now on, in place of what was said before."""
    from ptklib.draw_discard import Limits, Odometer

    with told():
        limits = Limits(
            report_epsilon=report_epsilon,
            reports_per_window=reports_per_window,
            reports_in_all=reports_in_all,
            columns=column,
            report_delta=report_delta,
        )
        Odometer(folder).allow(limits)
    Done(limits.to_json(), one_line(f"{folder}: kept what is allowed from now on")).show(as_json=as_json)


def _shown(part: Any) -> Any:
    return part if isinstance(part, str | int) else part.isoformat()
