"""Results of a run of the demo: lookups through plain Feast, the report, the table on the screen."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from ptkstore.cli.demo import report, truth
from ptkstore.cli.demo.records import BlockBudget, Deliveries, Lookup, PtkSummary, VersionPoint
from ptkstore.cli.output import console, counted, one_line, print_rows
from ptkstore.domain.jobs import JobKind
from ptkstore.domain.streams.blocks import FIRST_TRAIN, place_of, share_of
from ptkstore.domain.streams.windows import start_of
from ptkstore.errors import Unavailable, UnknownName
from ptkstore.sdk.store import HomeStore
from ptkstore.settings import Settings

STREAM = "taxi"
NEXT_STEPS = (
    ("what there is", ("status",)),
    ("look a feature up", ("lookup", "taxi.speed_by_hour", "hour=8")),
    ("see it in a browser", ("ui",)),
)
"""What a newcomer may do next, and the words of the command that does it."""
_PTK = Path(sys.executable).parent / "ptk"  # need not be on the path


@dataclass(frozen=True)
class Input:
    """The rows of this run and what they are called."""

    table: pa.Table
    source: str
    start: datetime
    rows_a_day: int
    days: int


def example(name: str) -> Path:
    """Return the folder of an example: in a checkout, or as the wheel carries it."""
    here = Path(__file__).resolve()
    for folder in (here.parents[3] / "examples", here.parent / "examples"):
        if (folder / name).is_dir():
            return folder / name
    raise UnknownName("example", name)


def lookups(store: HomeStore, given: Input) -> tuple[Lookup, ...]:
    """Read a few features as a consumer who knows only Feast, and set their true values beside them."""
    hours, zones = [0, 4, 8, 12, 18], [79, 132, 161, 237]
    asks = [
        ("taxi__speed_by_hour", "hour", hours, ("count", "speed_mph_mean")),
        ("taxi__speed_by_zone", "pickup_zone_id", zones, ("count", "speed_mph_mean")),
        ("taxi__long_trip_counts__hour", "hour", hours, ("p_true",)),
        ("taxi__long_trip_counts__pickup_zone_id", "pickup_zone_id", zones, ("p_true",)),
    ]
    answers = _ask_feast(
        store.service.feast_repo,
        [
            {"features": [f"{view}:{name}" for name in names], "entities": [{key: value} for value in values]}
            for view, key, values, names in asks
        ],
    )
    results: list[Lookup] = []
    for (view, key, values, names), answer in zip(asks, answers, strict=True):
        ptk_id = ".".join(view.split("__")[:2])
        rows = [
            Lookup(ptk_id, view, {key: value}, name, answer[name][i])
            for name in names
            for i, value in enumerate(values)
        ]
        results += _with_truth(store, given, ptk_id, rows)
    return tuple(results)


def _ask_feast(repo: Path, asks: list[dict[str, Any]]) -> list[dict[str, list[Any]]]:
    done = subprocess.run(
        [sys.executable, str(example("feast_consumer") / "look_up.py"), str(repo)],
        input=json.dumps(asks),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise Unavailable("the Feast consumer did not answer; try again with: ptk lookup")
    answers: list[dict[str, list[Any]]] = json.loads(done.stdout)
    return answers


def _with_truth(store: HomeStore, given: Input, ptk_id: str, rows: list[Lookup]) -> list[Lookup]:
    ptk = store.ptk(ptk_id)
    oldest = datetime.fromisoformat(ptk.oldest_contributing_window["start"])
    if oldest < given.start:  # days of an earlier run count too, and their rows are gone
        return rows
    policy = store.service.stream(STREAM).policy
    return truth.true_values(
        given.table,
        rows,
        estimator=ptk.config,
        start=oldest.astimezone(UTC),
        end=datetime.fromisoformat(ptk.newest_contributing_window["end"]).astimezone(UTC),
        train_share=float(share_of(policy, FIRST_TRAIN)),
    )


def report_of(
    store: HomeStore,
    given: Input,
    ptk_ids: Sequence[str],
    deliveries: Deliveries,
    lookups: tuple[Lookup, ...],
    errors: tuple[Any, ...],
    started: datetime,
    began: float,
) -> report.Report:
    """Return all that the run reports, from the catalog, the ledger and what was measured."""
    service = store.service
    policy, spends = service.stream(STREAM).policy, service.spends_on(STREAM)
    jobs = service.work_on_stream(STREAM).jobs.values()
    blocks = service.budget(STREAM)
    summaries, points = [], []
    for spec in (s for s in service.ptks(stream=STREAM) if s.ptk_id in ptk_ids):
        versions = service.versions(spec.ptk_id)
        granted = sum(j.n_rows for j in jobs if j.ptk_id == spec.ptk_id and j.kind is JobKind.TRAIN)
        spent = spends.get(spec.ptk_id, 0) / 10**9
        summaries.append(PtkSummary(spec.ptk_id, spec.name, spec.family, len(versions), spent, granted))
        points += [
            VersionPoint(
                spec.ptk_id,
                v.number,
                datetime.fromisoformat(v.content["newest_contributing_window"]["end"]),
                datetime.fromisoformat(v.content["published_at"]),
            )
            for v in versions
        ]
    return report.Report(
        source=given.source,
        started=started,
        windows_closed=len(service.windows(STREAM)),
        ptks=tuple(summaries),
        max_block_epsilon=max((b.spent.epsilon for b in blocks), default=0.0),
        epsilon_g=policy.capacity.epsilon,
        delta_g=policy.capacity.delta,
        deliveries=deliveries,
        lookups=lookups,
        raw_files_remaining=len(service.raw.files(STREAM)),
        seconds=round(time.monotonic() - began, 1),
        blocks=tuple(_block(b, policy) for b in blocks),
        versions=tuple(points),
        errors=errors,
    )


def _block(block: Any, policy: Any) -> BlockBudget:
    place = place_of(block.number, policy)
    names = {0: "profile", 1: "test"}
    return BlockBudget(
        start_of(policy, place.window or 0),
        names.get(place.part, f"train {place.part - FIRST_TRAIN + 1}"),
        block.capacity.epsilon,
        block.spent.epsilon,
        block.reserved.epsilon,
    )


def tell(made: report.Report, paths: tuple[Path, Path], settings: Settings) -> None:
    """Print the report's main lines."""
    console.print(
        f"\n[bold]{one_line(made.source)}[/]: {counted(made.windows_closed, 'window')} closed in this home so far; "
        f"this run took {made.seconds:g} s"
    )
    rows = [
        {
            "view": row.view,
            "entity": ", ".join(f"{k}={v}" for k, v in row.entity.items()),
            "feature": row.feature,
            "value": None if row.value is None else float(row.value),
            "true value": None if row.true_value is None else float(row.true_value),
        }
        for row in made.lookups
    ]
    title = "Features that a consumer reads through Feast, beside the truth (never published)"
    print_rows(rows, as_json=False, title=title, nothing="", number=_number)
    versions = ", ".join(f"{p.ptk_id} v{p.versions} (epsilon {p.epsilon_spent:g})" for p in made.ptks)
    console.print(f"published, with losses summed over windows: {versions}")
    console.print(
        f"most spent of any block: epsilon {made.max_block_epsilon:g} of {made.epsilon_g:g}; "
        f"webhooks: {made.deliveries.verified} of {made.deliveries.sent} verified; "
        f"raw files left: {made.raw_files_remaining}"
    )
    console.print(
        f"report with true values, do not share: {paths[0]} and {paths[1]}", soft_wrap=True, markup=False
    )
    console.print("\n[bold]Next steps[/]")
    home = ["--home", str(settings.root)]
    for what, words in NEXT_STEPS:
        command = shlex.join([str(_PTK), *words, *home])
        console.print(f"  {what + ':':<24}{command}", soft_wrap=True, markup=False, highlight=False)


def _number(value: float) -> str:
    return f"{value:,.3f}" if abs(value) < 100 else f"{value:,.0f}"
