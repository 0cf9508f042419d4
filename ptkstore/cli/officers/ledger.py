"""Commands about budgets and the ledger."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from ptkstore.cli.output import (
    REFUSED,
    AsJson,
    answers,
    console,
    counted,
    in_home,
    loss_text,
    print_json,
    print_rows,
    progress,
    reads,
    said,
)
from ptkstore.domain.accounting.assurances import SHARES, budget_rests_on
from ptkstore.domain.accounting.local import ADVERSARIES, ALL_PTKS, COUNTED, LIMITED
from ptkstore.domain.ledger.reports import ALGORITHM
from ptkstore.domain.streams.persons import HOLDS, PROOF, RULE, UNTIL_NOW, PersonLoss, StreamLoss
from ptkstore.errors import InvalidRequest
from ptkstore.sdk import Store
from ptkstore.sdk.documents.ledgers import check_report, contexts_of, local_rows, odometer_rows
from ptkstore.sdk.documents.persons import person_loss_document
from ptkstore.sdk.store import HomeStore

ledger_app = typer.Typer(no_args_is_help=True, help="The ledger of privacy losses.")


class By(StrEnum):
    """Things that have an odometer."""

    BLOCK = "block"
    LINE = "line"
    STREAM = "stream"
    PTK = "ptk"
    TEAM = "team"


class Form(StrEnum):
    """Forms of a report."""

    JSON = "json"
    HTML = "html"
    PDF = "pdf"


_HEADINGS = {"releases": "releases_in_fullest_block"}
"""What people read over a column: what a PTK or team spent is told of one block, and so are its releases."""


@reads
def budget(
    store: Store,
    stream: str,
    by: Annotated[
        By, typer.Option(help="Per block, or most on any block per line, stream, PTK, team.")
    ] = By.BLOCK,
    room: Annotated[
        bool, typer.Option("--room", help="Say, too, how many more PTKs like the last one fit.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show capacity, reserved and spent loss of every block, or what a line, stream, PTK or team spent.

    `spent` holds whatever was asked in the light of what; `tight` is closer, for the releases as they stand, and no
    admission rests on it.
    """
    if store.service.stream(stream).policy.on_devices:
        _print_local(store, stream, as_json=as_json)
        return
    rows: list[dict[str, Any]]
    if by is By.BLOCK:
        rows, nothing = store.budget(stream, tight=True), "no window has closed yet"
    else:
        rows = odometer_rows(store.odometers(stream), by.value)
        nothing = "nothing has been spent or reserved yet"
        if not as_json:
            rows = [{_HEADINGS.get(name, name): value for name, value in row.items()} for row in rows]
    contexts = contexts_of(store.service, stream)
    rests_on = budget_rests_on(*store.service.assurance_on(stream))
    print_rows(rows, as_json=as_json, title=f"{stream} by {by.value}", nothing=nothing, number=loss_text)
    if rows and not as_json and any(name.startswith("tight") for name in rows[0]):
        console.print(
            "tight: a closer figure of what the releases made so far lost; admissions go by spent, never by it",
            soft_wrap=True,
        )
    if rows and not as_json and "asserted_epsilon" in rows[0]:
        console.print(SHARES, highlight=False, soft_wrap=True)
    if not as_json:
        console.print(escape(rests_on), highlight=False, soft_wrap=True)
    if room and (fits := store.service.room_for_more(stream)) is not None:
        (said if as_json else console).print(escape(fits.sentence), highlight=False, soft_wrap=True)
    if contexts:
        (said if as_json else console).print(escape(contexts), highlight=False, soft_wrap=True)


def _print_local(store: Store, stream: str, *, as_json: bool) -> None:
    """Print the loss of devices; there are no blocks to show, whatever `by` asks for."""
    rows = local_rows(store.odometers(stream))
    if not as_json:
        rows = [{**row, "ptk": row["ptk"] or ALL_PTKS} for row in rows]
    print_rows(rows, as_json=as_json, title=f"{stream}, per device", nothing="", number=loss_text)
    if not as_json:
        text = (
            f"Rows stay on devices, so there are no blocks. A loss is local: it holds {ADVERSARIES}. Each row is of a "
            f"device whose reports are all for that PTK: {COUNTED}. {LIMITED}. "
            "None of them adds up with losses of blocks."
        )
        console.print(text, highlight=False, soft_wrap=True)


@ledger_app.command("person")
@reads
def person(
    store: Store,
    streams: Annotated[list[str], typer.Argument(help="The streams that the person is in.")],
    as_json: AsJson = False,
) -> None:
    """Add up what one person who is in all of these streams loses to them together, until now and at most.

    Over HTTP you are an officer on each. Streams whose privacy unit is the record, and those of devices, are refused:
    no sum is a bound for one person.
    """
    found = store.service.person_loss(streams)
    if as_json:
        print_json(person_loss_document(found))
        return
    rows = [_person_row(one.stream, one.privacy_unit.value, one) for one in found.streams]
    rows.append(_person_row("all together", "", found))
    print_rows(rows, as_json=False, title="Loss of one person", nothing="", number=loss_text)
    for one in found.streams:
        word = (
            f" Its loss rests on the word of teams for {', '.join(one.asserted_ptks)}."
            if one.asserted_ptks
            else ""
        )
        text = f"{one.stream}: {one.rule}, {counted(one.windows, 'window')} closed.{word}"
        console.print(escape(text), highlight=False, soft_wrap=True)
    console.print(f"The sum: {RULE}. Proof: {PROOF}.", highlight=False, soft_wrap=True)
    console.print(f"It holds if {HOLDS}. {UNTIL_NOW}.", highlight=False, soft_wrap=True)


def _person_row(stream: str, unit: str, loss: StreamLoss | PersonLoss) -> dict[str, Any]:
    return {
        "stream": stream,
        "privacy_unit": unit,
        "spent_epsilon": loss.spent.epsilon,
        "spent_delta": loss.spent.delta,
        "at_most_epsilon": loss.at_most.epsilon,
        "at_most_delta": loss.at_most.delta,
    }


@ledger_app.command("verify")
@reads
def verify(store: Store, stream: str | None = None, as_json: AsJson = False) -> None:
    """Recompute every sum, capacity and digest from the journal, and compare it with the key store."""
    names = [stream] if stream else [s.name for s in store.service.streams()]
    checks = []
    with progress("recomputing journals", len(names)) as tell:
        for done, name in enumerate(names):
            tell(f"recomputing the journal of {name}", done)
            checks.append(store.service.verify_ledger(name))
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
            f"{check.stream}: {counted(check.entries, 'entry', 'entries')} over {counted(check.blocks, 'block')}; "
            f"the journal {verdict}"
        )
        for fault in check.faults:
            console.print(f"  [red]{escape(fault)}[/]")
    if any(check.faults for check in checks):
        raise typer.Exit(REFUSED)


@ledger_app.command("recover")
@in_home
def recover(store: HomeStore, as_json: AsJson = False) -> None:
    """Make a restored catalog usable: retire every block whose spends it may have forgotten.

    Stop all workers first: while a job is being worked on, this is refused. Rows that were ingested after the copy
    was taken have to be sent again.
    """
    with progress("comparing the catalog with keys and lake"):
        outcomes = store.service.recover_ledger()
    if as_json:
        print_json([asdict(outcome) for outcome in outcomes])
    for one in outcomes if not as_json else ():
        if one.stopped:
            console.print(
                f"{one.stream}: [red]stopped[/]; its journal has another policy than the key store, so nothing of it "
                f"is opened. `ptk ledger verify {one.stream}` says what to put back; then recover again"
            )
        elif one.in_step:
            console.print(f"{one.stream}: in step with the key store; nothing to recover")
        else:
            console.print(
                f"{one.stream}: {counted(one.windows_in_doubt, 'window')} in doubt; "
                f"{counted(one.blocks_retired, 'block')} retired, {counted(one.runs_ended, 'run')} ended, "
                f"{counted(one.versions_adopted, 'version')} taken over from the lake"
            )
        for ptk_id in one.ptks_to_register:
            console.print(f"  {ptk_id} was registered after the copy was taken: apply its repository again")
    if any(one.stopped for one in outcomes):
        raise typer.Exit(REFUSED)


@ledger_app.command("export")
@reads
def export(
    store: Store,
    stream: Annotated[str | None, typer.Argument(help="The stream to report on.")] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="Report on windows from this UTC time on.")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="Report on windows before this UTC time.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="The file to write.")] = None,
    form: Annotated[
        Form | None,
        typer.Option(
            "--format", help="For programs or for people; by default what the ending of the file says."
        ),
    ] = None,
    public_key: Annotated[
        bool, typer.Option("--public-key", help="Print the key that reports are signed with, as PEM.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a signed report of the ledger of a stream for the privacy officer; exit code 1 if the journal is wrong.

    HTML and PDF are for people and begin with the worst block and the loss of a person. The signed JSON that such a
    page is made of is written beside it, as FILE.json.
    """
    form = _form_of(form, output)
    if public_key:
        _print_key(store.report_key(), as_json=as_json)
        return
    if stream is None:
        raise InvalidRequest("name the stream to report on, or ask for --public-key")
    with progress(f"reading the journal of {stream}"):
        made = store.export_ledger(stream, since, until)
    signed = output if output is None or form is Form.JSON else output.with_name(f"{output.name}.json")
    if output is None or signed is None:
        sys.stdout.buffer.write(made.content)
    else:
        if form is not Form.JSON:
            from ptkstore.sdk.reports.pages import report_page

            _write(output, report_page(made.content, form.value))
        _write(signed, made.content)
        if as_json:
            print_json(
                {"stream": stream, "file": str(output), "signed_file": str(signed), "faults": made.faults}
            )
        else:
            page = "" if signed == output else f", its page to {escape(str(output))}"
            console.print(f"signed report on {stream} written to {escape(str(signed))}{page}")
    for fault in made.faults:
        said.print(f"[red]{escape(fault)}[/]")
    if made.faults:
        raise typer.Exit(REFUSED)


@ledger_app.command("check")
@answers
def check(
    file: Annotated[Path | None, typer.Argument(help="A report that was exported.")] = None,
    public_key: Annotated[
        str | None,
        typer.Option(help="The copy of the key that the officer has: a PEM file, or 64 hexadecimal digits."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the signature of a report, without any store; exit code 1 if it fails, or tells of a wrong journal."""
    if file is None:
        raise InvalidRequest(
            "name the file of a report; the journal of a store is checked by: ptk ledger verify"
        )
    result = check_report(_read(file), None if public_key is None else _key_text(public_key))
    if as_json:
        print_json({"fault": result.fault or None, "public_key": result.public_key or None, **result.summary})
    elif result.fault:
        console.print(f"[red]{escape(result.fault)}[/]")
    else:
        console.print(f"[green]the signature is valid[/], by the key {escape(result.public_key)}")
        if public_key is None:
            console.print("that key came with the file: compare it with your own copy, or give --public-key")
        for name, value in result.summary.items():
            console.print(escape(f"  {name}: {json.dumps(value)}"), highlight=False)
    if result.fault or not result.summary["adds_up"]:
        raise typer.Exit(REFUSED)


def _form_of(chosen: Form | None, output: Path | None) -> Form:
    """The form that was asked for, or that the file's ending says; JSON where no file is named."""
    endings = {f".{one}": one for one in Form}
    ending = None if output is None else endings.get(output.suffix.lower())
    if chosen is None and ending is None and output is not None:
        raise InvalidRequest(
            f"end the name of {output} in .json, .html or .pdf, or say which it is by --format"
        )
    form = chosen or ending or Form.JSON
    if form is not Form.JSON and output is None:
        raise InvalidRequest(
            f"name a file for the {form.value.upper()}: -o report.{form.value}; the signed JSON comes beside it"
        )
    if form is not Form.JSON and ending is Form.JSON:
        raise InvalidRequest(f"{output} is for the signed JSON; end the name of the page in .{form.value}")
    return form


def _print_key(key: str, *, as_json: bool) -> None:
    from ptkstore.adapters.keys import public_pem

    pem = public_pem(bytes.fromhex(key))
    if as_json:
        print_json({"algorithm": ALGORITHM, "public_key": key, "pem": pem})
    else:
        sys.stdout.write(pem)


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be written: {error.strerror}") from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}") from None


def _key_text(given: str) -> str:
    path = Path(given)
    return _read(path).decode(errors="replace") if path.suffix or path.exists() else given
