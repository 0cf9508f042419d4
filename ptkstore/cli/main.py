"""The command `ptk`."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from ptkstore.adapters.world import configure_logging
from ptkstore.cli import (
    catalog,
    feast,
    identity,
    lake,
    ledger,
    lookups,
    privacy,
    ptk_changes,
    ptks,
    recommendation,
    repositories,
    rows,
    sandbox,
    scaffold,
    stream_creation,
    streams,
    subscriptions,
    telling,
    versions,
)
from ptkstore.cli.api import api
from ptkstore.cli.output import (
    AsJson,
    Home,
    answers,
    console,
    counted,
    opened,
    print_json,
    print_rows,
    progress,
)
from ptkstore.cli.up import up
from ptkstore.settings import load_settings, shown

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
stream_app = typer.Typer(no_args_is_help=True, help="Streams and their policies.")
app.add_typer(stream_app, name="stream")
app.add_typer(ledger.ledger_app, name="ledger")
app.add_typer(catalog.catalog_app, name="catalog")
app.add_typer(feast.feast_app, name="feast")
app.add_typer(lake.lake_app, name="lake")
app.add_typer(identity.team_app, name="team")
app.add_typer(identity.token_app, name="token")
app.add_typer(identity.grant_app, name="grant")
stream_app.command("create")(stream_creation.create)
stream_app.command("add-column")(stream_creation.add_column)
stream_app.command("list")(streams.list_streams)
stream_app.command("show")(streams.show)
stream_app.command("recommend")(recommendation.recommend)
app.command("ingest")(rows.ingest)
app.command("close")(rows.close)
app.command("forget")(rows.forget)
app.command("init")(scaffold.init)
app.command("plan")(repositories.plan)
app.command("apply")(repositories.apply)
app.command("destroy")(repositories.destroy)
app.command("sandbox")(sandbox.sandbox)
app.command("set-config")(ptk_changes.set_config)
app.command("set-target", context_settings=ptk_changes.NEGATIVE)(ptk_changes.set_target)
app.command("list")(ptks.list_ptks)
app.command("show")(ptks.show)
app.command("versions")(ptks.versions)
app.command("diff")(versions.diff)
app.command("lineage")(lake.lineage)
app.command("rollback")(versions.rollback)
app.command("materialize")(versions.materialize)
app.command("lookup")(lookups.lookup)
app.command("featurize")(ptks.featurize)
app.command("subscribe")(subscriptions.subscribe)
app.command("subscriptions")(subscriptions.list_subscriptions)
app.command("deliveries")(subscriptions.deliveries)
app.command("redeliver")(subscriptions.redeliver)
app.command("disable")(subscriptions.disable)
app.command("enable")(subscriptions.enable)
app.command("rotate-secret")(subscriptions.rotate_secret)
app.command("notices")(telling.notices)
app.command("budget")(ledger.budget)
app.command("audit-log")(identity.audit_log)
app.command("api")(api)
app.command("up")(up)
app.command("test-privacy")(privacy.examine)


def _show_version(asked: bool) -> None:
    if asked:
        console.print(f"ptk {version('ptkstore')}", highlight=False)
        raise typer.Exit


@app.callback()
def ptk(
    _version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and end.", is_eager=True, callback=_show_version),
    ] = False,
) -> None:
    """Share what sensitive event streams know, as differentially private feature models."""


@app.command()
@answers
def demo(
    data: Annotated[
        Path | None, typer.Option(help="Parquet file of TLC trips; generated trips otherwise.")
    ] = None,
    home: Home = None,
    report: Annotated[
        Path | None, typer.Option(help="Report JSON, with a page beside it; outside the home.")
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=60, help="How many days, one window each.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Run the main job end to end on real parts: trips in, private features out, looked up through Feast."""
    from ptkstore.cli.demo.run import run_demo

    made = run_demo(data, home, report, days, quiet=as_json)
    if as_json:
        print_json(made.to_json())


@app.command()
@answers
def work(
    at_once: Annotated[int, typer.Option(help="Trainings beside each other, each in its own process.")] = 1,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Do all due work in this process, once; `ptk up` does it for good."""
    with opened(home) as store, progress("looking for due work") as tell:
        done = store.service.work_until_idle(at_once, tell)
    if as_json:
        print_json({"jobs": done})
    else:
        console.print(f"{counted(done, 'job')} done")


@app.command()
@answers
def config(home: Home = None, as_json: AsJson = False) -> None:
    """Print the settings with their sources, secrets masked."""
    rows = [
        {"name": s.name, "value": s.value, "source": s.source, "meaning": s.description}
        for s in shown(load_settings(home))
    ]
    print_rows(rows, as_json=as_json, title="Settings", nothing="")


def main() -> None:
    """Entry point of the command."""
    configure_logging()
    app()


if __name__ == "__main__":
    main()
