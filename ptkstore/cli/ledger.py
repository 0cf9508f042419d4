"""Commands about budgets and the ledger."""

from __future__ import annotations

import typer

from ptkstore.cli.output import REFUSED, AsJson, Home, answers, console, opened, print_json, print_rows

ledger_app = typer.Typer(no_args_is_help=True, help="The ledger of privacy losses.")


@answers
def budget(stream: str, home: Home = None, as_json: AsJson = False) -> None:
    """Show capacity, reserved and spent loss of every block."""
    with opened(home) as store:
        rows = store.budget(stream)
    print_rows(rows, as_json=as_json, title=f"Blocks of {stream}", nothing="no window has closed yet")


@ledger_app.command("verify")
@answers
def verify(stream: str | None = None, home: Home = None, as_json: AsJson = False) -> None:
    """Recompute every sum, sequence and digest from the journal."""
    with opened(home) as store:
        service = store.service
        names = [stream] if stream else [s.name for s in service.streams()]
        checks = [service.verify_ledger(name) for name in names]
    if as_json:
        print_json(
            [
                {"stream": c.stream, "entries": c.entries, "blocks": c.blocks, "faults": c.faults}
                for c in checks
            ]
        )
    for check in checks if not as_json else ():
        verdict = "[green]adds up[/]" if not check.faults else "[red]is wrong[/]"
        console.print(
            f"{check.stream}: {check.entries} entries over {check.blocks} blocks; the journal {verdict}"
        )
        for fault in check.faults:
            console.print(f"  [red]{fault}[/]")
    if any(check.faults for check in checks):
        raise typer.Exit(REFUSED)
