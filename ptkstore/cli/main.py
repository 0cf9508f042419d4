"""The command `ptk`."""

from __future__ import annotations

from collections.abc import Callable
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
stream_app.command("create")(stream_creation.create)
stream_app.command("add-column")(stream_creation.add_column)
stream_app.command("list")(streams.list_streams)
stream_app.command("show")(streams.show)
stream_app.command("recommend")(recommendation.recommend)

EVERYBODY = "Everybody"
DEVELOPERS = "PTK developers"
CONSUMERS = "Consumers"
PRODUCERS = "Producers"
OFFICERS = "Privacy officers"
ADMINISTRATORS = "Administrators"

# `ptk --help` lists the commands under the people who use them, in this order.
_COMMANDS: dict[str, dict[str, Callable[..., None]]] = {
    EVERYBODY: {
        "list": ptks.list_ptks,
        "show": ptks.show,
        "versions": ptks.versions,
        "diff": versions.diff,
        "lineage": lake.lineage,
        "notices": telling.notices,
    },
    DEVELOPERS: {
        "init": scaffold.init,
        "plan": repositories.plan,
        "apply": repositories.apply,
        "destroy": repositories.destroy,
        "set-config": ptk_changes.set_config,
        "set-target": ptk_changes.set_target,
        "sandbox": sandbox.sandbox,
        "test-privacy": privacy.examine,
    },
    CONSUMERS: {
        "lookup": lookups.lookup,
        "featurize": ptks.featurize,
        "subscribe": subscriptions.subscribe,
        "subscriptions": subscriptions.list_subscriptions,
        "deliveries": subscriptions.deliveries,
        "redeliver": subscriptions.redeliver,
        "disable": subscriptions.disable,
        "enable": subscriptions.enable,
        "rotate-secret": subscriptions.rotate_secret,
    },
    PRODUCERS: {"ingest": rows.ingest, "close": rows.close, "forget": rows.forget},
    OFFICERS: {"budget": ledger.budget, "audit-log": identity.audit_log},
    ADMINISTRATORS: {
        "up": up,
        "api": api,
        "rollback": versions.rollback,
        "materialize": versions.materialize,
    },
}
_GROUPS: dict[str, dict[str, typer.Typer]] = {
    OFFICERS: {"ledger": ledger.ledger_app},
    ADMINISTRATORS: {
        "stream": stream_app,
        "team": identity.team_app,
        "token": identity.token_app,
        "grant": identity.grant_app,
        "catalog": catalog.catalog_app,
        "feast": feast.feast_app,
        "lake": lake.lake_app,
    },
}
for _person, _commands in _COMMANDS.items():
    for _name, _command in _commands.items():
        _settings = ptk_changes.NEGATIVE if _name == "set-target" else None
        app.command(_name, rich_help_panel=_person, context_settings=_settings)(_command)
for _person, _groups in _GROUPS.items():
    for _name, _group in _groups.items():
        app.add_typer(_group, name=_name, rich_help_panel=_person)


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


@app.command(rich_help_panel=EVERYBODY)
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


@app.command(rich_help_panel=ADMINISTRATORS)
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


@app.command(rich_help_panel=ADMINISTRATORS)
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
