"""Commands for consumers of the feature store: `ptk feast`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ptkstore.cli.output import AsJson, Done, Home, answers, check_home, console, print_json, said

feast_app = typer.Typer(
    no_args_is_help=True, help="Files that consumers need to read features by plain Feast."
)

_NOTE = (
    "every role that may connect to a PostgreSQL server can hold up its writes: readers whom you do not trust that "
    "far need a server of their own (docs/guide/feast.md#what-a-consumer-can-hold-up)"
)


@feast_app.command("grant")
@answers
def grant(
    role: Annotated[str, typer.Argument(help="A role of PostgreSQL that only this consumer uses.")],
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Print the SQL that lets a role read the registry of Feast and nothing else of the schema of the catalog.

    Pipe it into psql as the service's role. It also takes back what the role was granted on other tables of the schema.
    """
    from ptkstore.wiring.consumers import registry_grants_of

    statements, left_open = registry_grants_of(check_home(home), role)
    if as_json:
        print_json(
            {"role": role, "statements": list(statements), "left_open": list(left_open), "note": _NOTE}
        )
        return
    for statement in statements:
        console.print(f"{statement};", markup=False, highlight=False, soft_wrap=True)
    if left_open:
        said.print(
            "warning: the role can fill the server's lock table in seconds, and every write fails while it does. These "
            "take the quickest ways from everybody; as a superuser of that database, run:",
            highlight=False,
            soft_wrap=True,
        )
        for statement in left_open:
            said.print(f"  {statement};", markup=False, highlight=False, soft_wrap=True)
    said.print(f"note: {_NOTE}", highlight=False, soft_wrap=True)


@feast_app.command("export")
@answers
def export(
    folder: Annotated[Path, typer.Argument(help="The directory for the feature_store.yaml of the consumer.")],
    registry_url: Annotated[
        str | None,
        typer.Option(
            envvar="PTK_CONSUMER_REGISTRY_URL",
            help="The registry by the role of the consumer: postgresql://…",
        ),
    ] = None,
    redis_url: Annotated[
        str | None,
        typer.Option(
            envvar="PTK_CONSUMER_REDIS_URL", help="The online rows by the user of the consumer: redis://…"
        ),
    ] = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Write the one file that a consumer needs, without any credentials of the service.

    A password on the command line is seen by others on this machine: set the variables instead.
    """
    from ptkstore.wiring.consumers import export_consumer_repo

    written = export_consumer_repo(check_home(home), folder, registry_url, redis_url)
    text = f"wrote {escape(str(written))}"
    Done({"file": str(written)}, text, highlight=False, soft_wrap=True).show(as_json=as_json)
