"""Commands on streams that exist: list, show, prepare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ptkstore.cli.output import (
    AsJson,
    Done,
    Rows,
    console,
    in_home,
    one_line,
    print_json,
    print_meanings,
    print_rows,
    reads,
    seen,
)
from ptkstore.cli.ptks.shown import print_fields, print_hidden
from ptkstore.cli.streams.creation import add_column, create
from ptkstore.cli.streams.recommendation import recommend
from ptkstore.domain.codes import NOTICE, RUN
from ptkstore.domain.durations import duration_text
from ptkstore.domain.scheduling.choices import Scheduler
from ptkstore.domain.streams.guarantees import CONTEXTS, all_lines, protections
from ptkstore.domain.streams.policies import POLICY_FIELDS, Policy
from ptkstore.domain.streams.streams import Stream
from ptkstore.sdk import Store
from ptkstore.sdk.notices import notice_document
from ptkstore.sdk.store import HomeStore

if TYPE_CHECKING:
    from ptkstore.application.streams.exposure import Exposure

stream_app = typer.Typer(no_args_is_help=True, help="Streams and their policies.")
stream_app.command("create")(create)
stream_app.command("add-column")(add_column)


@stream_app.command("list")
@reads
def list_streams(store: Store) -> Rows:
    """List streams."""
    rows = [_summary(stream) for stream in store.service.streams()]
    return Rows(rows, "Streams", "no streams yet; see: ptk stream create --help")


@stream_app.command("prepare")
@in_home
def prepare(
    store: HomeStore,
    name: str,
    window: Annotated[int, typer.Argument(help="The number of the window.")],
    without_lost: Annotated[
        bool, typer.Option("--without-lost", help="Go on without the rows of batches whose files are gone.")
    ] = False,
) -> Done:
    """Try to prepare a window again that was given up (`not-prepared`). Nothing is charged twice."""
    store.service.prepare_again(name, window, without_lost=without_lost)
    return Done({"stream": name, "window": window}, f"Workers try window {window} of {name} again.")


@stream_app.command("show")
@reads
def show(store: Store, name: str, as_json: AsJson = False) -> None:
    """Show the schema and policy of a stream, and what is kept of it: since when, until when, and nothing older."""
    stream = store.service.stream(name)
    exposure = seen(lambda: store.service.exposure(name))
    windows = [] if exposure is None else store.windows(name)
    notices = seen(lambda: store.service.notices(stream.team))
    until = {} if exposure is None else {k.window.id.index: k.until.isoformat() for k in exposure.kept}
    for row in windows:
        row["rows_until"] = until.get(int(row["window"]), "gone")
    detail: dict[str, Any] = {
        **_summary(stream),
        **_rest(stream.policy),
        "columns": {column: kind.value for column, kind in stream.schema.columns},
        "time_column": stream.schema.time_column,
        "schema_version": stream.schema.version,
        "added_columns": {
            one.column: {"default": one.default, "since_window": one.since} for one in stream.schema.added
        },
        **(_NOT_SEEN if exposure is None else _exposed(exposure)),
        "windows": None if exposure is None else windows,
        "notices": None
        if notices is None
        else [
            {key: value for key, value in notice_document(one).items() if key != "team"}
            for one in notices
            if one.stream == name
        ],
    }
    if as_json:
        print_json(detail)
        return
    lists = ("windows", "exposure", "notices")
    fields = {name: one for name, one in detail.items() if name not in lists and one is not None}
    if console.is_terminal:
        print_fields("", {name: one for name, one in fields.items() if one != {}})
    else:
        for name, value in fields.items():
            console.print(f"{name}: {one_line(value)}", highlight=False)
    if exposure is not None:
        print_rows(windows, as_json=False, title="Windows", nothing="no window has closed yet")
    if detail["notices"]:
        print_rows(detail["notices"], as_json=False, title="Notices", nothing="")
        print_meanings(detail["notices"], NOTICE, RUN)
    if exposure is not None:
        console.print(_exposure_text(exposure), highlight=False, soft_wrap=True)
    print_hidden([part for part in ("exposure", "windows", "notices") if detail[part] is None])


stream_app.command("recommend")(recommend)

_NOT_SEEN = {"event_time_reached": None, "exposure": None}


def _exposed(exposure: Exposure) -> dict[str, Any]:
    return {
        "event_time_reached": exposure.reached.isoformat(),
        "exposure": {
            "rows_since": exposure.since.isoformat(),
            "retention_allows_since": exposure.allowed_since.isoformat(),
            "open_since": exposure.open_since.isoformat(),
            "overdue_windows": list(exposure.overdue),
            "remains_of_expired_windows": list(exposure.remains),
            "holds": exposure.holds,
            "closing": exposure.closing.value,
            "would_have_expired_by_the_clock": list(exposure.past_by_clock),
            "most_windows": exposure.most_windows,
            "readable_seconds": int(exposure.readable.total_seconds()),
        },
    }


def _rest(policy: Policy) -> dict[str, Any]:
    """Return the fields of a policy beside the summary; those of rows or blocks if there are any."""
    if policy.on_devices:
        return {}
    return {**_later(policy), **_of_scheduler(policy), **_shared(policy)}


def _exposure_text(exposure: Exposure) -> str:
    """What an officer can read."""
    from ptkstore.application.streams.exposure import sentences_on

    verdict, *rest = sentences_on(exposure)
    colour = "red" if not exposure.holds else "yellow" if exposure.past_by_clock else "green"
    return "\n".join((f"[{colour}]{verdict}[/]", *rest))


def _shared(policy: Policy) -> dict[str, Any]:
    """Return the lines of a block's budget, and the parts of a window's rows."""
    sharing = policy.sharing
    lines = policy.lines
    document: dict[str, Any] = {
        "train_partitions": policy.train_partitions,
        "profile_share": float(policy.profile_share),
        "test_share": float(policy.test_share),
        "retire_below": policy.retire_below.epsilon,
    }
    if sharing.contexts:
        document |= {
            "contexts": {name: list(teams) for name, teams in sharing.contexts},
            "no_collusion": sharing.no_collusion,
            "contexts_rest_on": CONTEXTS,
            "all_contexts_together": {"epsilon": all_lines(policy).epsilon, "delta": all_lines(policy).delta},
        }
    if sharing.reserved:
        document["reserved_shares"] = {ptk_id: float(share) for ptk_id, share in sharing.reserved}
    if len(lines) > 1:
        document["lines"] = {line: {"epsilon": c.epsilon, "delta": c.delta} for line, c in lines.items()}
    return document


def _later(policy: Policy) -> dict[str, Any]:
    """The fields that came after the first release, as reports have them."""
    return {
        one.reported: one.to_report(getattr(policy, one.name))
        for one in POLICY_FIELDS
        if one.later and one.reported
    }


def _of_scheduler(policy: Policy) -> dict[str, Any]:
    """Return the fields of the policy's scheduler."""
    match policy.scheduler:
        case Scheduler.ADAPTIVE:
            return {"scheduler_mode": policy.scheduler_mode.value}
        case Scheduler.BUDGETING:
            return {
                "significance": policy.significance.value,
                "served_first": policy.served_first.value,
                "least_significance": policy.least_significance,
                "most_significance": policy.most_significance,
                "comparison_epsilon": policy.comparison_epsilon,
            }
    return {}


def _units(policy: Policy) -> dict[str, Any]:
    """Return the privacy unit, if it is not the record, and what blocks are by."""
    document: dict[str, Any] = {}
    if policy.unit_column is not None:
        document |= {"unit_column": policy.unit_column, "max_rows_per_unit": policy.max_rows_per_unit}
    if policy.user_shards > 1:
        document["user_shards"] = policy.user_shards
    if policy.attribute is not None:
        document["block_by"] = {policy.attribute: list(policy.attribute_values)}
    return document


def _on_devices(stream: Stream) -> dict[str, Any]:
    """A stream whose rows stay on devices: what each of them loses, and nothing of blocks."""
    policy = stream.policy
    of = {protected.who: protected.loss for protected in protections(policy, policy.report_limit, 0)}
    return {
        "stream": stream.name,
        "team": stream.team,
        "rows": policy.rows.value,
        "guarantee": "local",
        "report_epsilon": policy.report_epsilon,
        "report_delta": policy.report_delta or 0.0,
        "reports_per_window": policy.reports_per_window,
        "reports_in_all": policy.reports_in_all,
        "at_most": {who: {"epsilon": one.epsilon, "delta": one.delta} for who, one in of.items()},
        "window": duration_text(policy.window),
        "origin": policy.origin.isoformat(),
        "privacy_unit": policy.privacy_unit.value,
        "closing": policy.closing.value,
    }


def _summary(stream: Stream) -> dict[str, Any]:
    policy = stream.policy
    if policy.on_devices:
        return _on_devices(stream)
    return {
        "stream": stream.name,
        "team": stream.team,
        "epsilon": policy.capacity.epsilon,
        "delta": policy.capacity.delta,
        "window": duration_text(policy.window),
        "origin": policy.origin.isoformat(),
        "lateness": duration_text(policy.lateness),
        "retention_windows": policy.retention_windows,
        "rows_per_window": policy.rows_per_window,
        "n_max": policy.n_max,
        "privacy_unit": policy.privacy_unit.value,
        **_units(policy),
        "accountant": policy.accountant,
        "minimum_assurance": policy.minimum_assurance.value,
        "asserted_text": policy.asserted_text,
        "closing": policy.closing.value,
    }
