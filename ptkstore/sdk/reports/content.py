"""The content of a signed report's page, worst block and loss of a person first; the layout is decided elsewhere."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from ptkstore.domain.accounting.assurances import assured_of
from ptkstore.domain.accounting.local import ALL_PTKS, LIMITED
from ptkstore.domain.streams.guarantees import contexts_sentence
from ptkstore.errors import InvalidRequest
from ptkstore.sdk.counting import counted, spoken
from ptkstore.sdk.reports.words import in_words, limits, shown_loss

BLOCKS_SHOWN = 100

_FIGURES = (
    "spent: what the accountant counts, by which budget is given out. basic: the plain sums of the losses. tight: a "
    "closer figure for the releases made so far; no budget is given out by it."
)


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph; `alarm` is for what has to be seen."""

    text: str
    alarm: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of texts below a header."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what is below it."""

    heading: str
    parts: tuple[Text | Table, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """A report for people."""

    title: str
    lead: str
    sections: tuple[Section, ...]


def page_of(content: bytes) -> Page:
    """Make the page of a report file; raise `InvalidRequest` if the bytes are none."""
    try:
        document = json.loads(content)
        report, signature = document["report"], document["signature"]
        sections = _sections(report, signature, hashlib.sha256(content).hexdigest())
        name, team = report["stream"]["name"], report["stream"]["team"]
        lead = f"Stream {name} of team {team}, {_period(report)}. Made {_time(report['made_at'])}."
        return Page(f"Privacy report: {name}", lead, tuple(sections))
    except (ValueError, TypeError, KeyError, IndexError, ArithmeticError):
        raise InvalidRequest("the file is no report of a ledger; make one with: ptk ledger export") from None


def _sections(report: Mapping[str, Any], signature: Mapping[str, str], digest: str) -> Iterator[Section]:
    if report["verification"]["adds_up"]:
        yield _local(report) if "local" in report else _worst(report)
    else:
        wrong = [Text(one, alarm=True) for one in report["verification"]["faults"]]
        yield Section("The journal is wrong, so this report has no figures", tuple(wrong))
    yield _exposure(report)
    if "local" in report:
        yield _local_ptks(report)
        yield _journal(report)
        yield _check(report, signature, digest)
        return
    yield _promise(report)
    if report["verification"]["adds_up"]:
        yield _parties(report)
        yield _blocks(report)
    yield Section("What these figures do not cover", tuple(map(Text, limits(report["policy"]))))
    yield _journal(report)
    yield _check(report, signature, digest)


def _worst(report: Mapping[str, Any]) -> Section:
    """The figures that the reader came for."""
    spent, promised = report["spent"]["stream"], report["guarantee"]["per_block"]
    worst = _worst_block(report)
    where = "no block has lost anything yet" if worst is None else f"block {worst['block']}, {_place(worst)}"
    several = len(report["guarantee"]["lines"]) > 1
    of = report["guarantee"]["all_lines_together"] if several else promised
    one = " of one context" if report["guarantee"].get("contexts") else ""
    parts: list[Text | Table] = [
        Text(f"Worst block: {shown_loss(spent['guarantee'])} lost, of {shown_loss(of)} promised ({where})."),
        Table(
            ("who", "has lost at most", f"loses at most, once all budget{one} is spent", "how this follows"),
            tuple(
                (now["who"], shown_loss(now), shown_loss(most), now["rule"]) for now, most in _means(report)
            ),
        ),
    ]
    if (contexts := report["guarantee"].get("contexts")) is None:
        parts.append(Text(in_words(*_person(report))))
    else:
        explanation = contexts_sentence(
            contexts["names"],
            shown_loss(contexts["summed_capacity"]),
            shown_loss(spent["guarantee"]),
            contexts["no_collusion"],
            rests_on=contexts["assumes"],
        )
        parts.append(Text(explanation))
    return Section("Worst block and loss of a person", tuple(parts))


def _local(report: Mapping[str, Any]) -> Section:
    """Of a stream whose rows stay on devices: what the reader came for."""
    local = report["local"]
    return Section(
        "What a device loses",
        (
            Text(
                "Rows stay on devices. The guarantee is local: no block is charged, and there is no worst block."
            ),
            Table(
                ("who", "loses at most", "how this follows"),
                tuple((one["who"], shown_loss(one), one["rule"]) for one in local["promised"]),
            ),
            Text(f"Neighbours: {local['neighbours']}. It holds {local['holds']}."),
            Text(f"Losses compose by {local['composition']}. Proof: {local['proof']}."),
            Text(f"Limits: {local['counted']}."),
        ),
    )


def _local_ptks(report: Mapping[str, Any]) -> Section:
    local = report["local"]
    header = (
        "PTK",
        "one report",
        "one weight of it",
        "by now",
        "in all",
        "clipped",
        "noise",
        "specification",
    )
    rows = tuple(
        (
            one["ptk"],
            *(shown_loss(one[name]) for name in ("report", "one_weight", "so_far", "in_all")),
            one["clip"],
            one["noise"],
            one["specification"][:12],
        )
        for one in local["ptks"]
    )
    together = (
        ALL_PTKS,
        "at most " + shown_loss(local["report_limit"]),
        "",
        shown_loss(local["so_far"]),
        shown_loss(local["in_all"]),
    )
    return Section(
        "PTKs, each per device",
        (Table(header, (*rows, (*together, "", "", ""))), Text(f"{LIMITED}.")),
    )


def _means(report: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The losses and promises, by who loses; a period of one window says the same of a user twice."""
    sentences = list(zip(report["spent"]["means"], report["guarantee"]["promised"], strict=True))
    return sentences if len(report["period"]["windows"]) > 1 else sentences[:2]


def _person(report: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """What a whole privacy unit has lost and loses at most; under `record` that is one record, whoever sent it."""
    return _means(report)[0 if report["policy"]["privacy_unit"] == "record" else -1]


def _exposure(report: Mapping[str, Any]) -> Section:
    exposure = report.get("exposure")
    if exposure is None:  # a report from before they had it
        return Section("What is exposed", (Text("This report does not say; look at: ptk stream show"),))
    verdict = Text(exposure["verdict"], alarm=not exposure["holds"])
    return Section("What is exposed", (verdict, *map(Text, exposure["means"])))


def _promise(report: Mapping[str, Any]) -> Section:
    guarantee, policy = report["guarantee"], report["policy"]
    facts = [
        *_capacities(guarantee),
        ("privacy unit", policy["privacy_unit"]),
        ("window", spoken(policy["window_seconds"])),
        *_kept(policy),
        ("least assurance of a PTK", policy["minimum_assurance"]),
        ("accountant", policy["accountant"]),
    ]
    sentences = (
        Text(f"Neighbours: {guarantee['neighbours']}."),
        Text(f"Losses compose by {guarantee['composition']}."),
    )
    return Section("What is promised", (*sentences, Table(("policy", "value"), tuple(facts))))


def _capacities(guarantee: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a block may lose. Each context has all of it, so contexts add up; reserved shares are a part of it."""
    block = shown_loss(guarantee["per_block"])
    lines = [
        (line, shown_loss(loss)) for line, loss in guarantee["lines"].items() if len(guarantee["lines"]) > 1
    ]
    if contexts := guarantee.get("contexts"):
        summed = shown_loss(contexts["summed_capacity"])
        return [
            ("each block may lose in each context", block),
            ("each block may lose in all contexts together", summed),
            *lines,
        ]
    return [("each block may lose", block), *((f"of that, {line}", loss) for line, loss in lines)]


def _kept(policy: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A section on who closes windows, and how long rows stay; older reports say the second alone."""
    if policy.get("closing") == "operator":
        return [
            ("windows are closed by", "an operator"),
            ("rows are kept until", "the operator closes further"),
        ]
    who = [("windows are closed by", "the clock")] if "closing" in policy else []
    return [*who, ("rows are kept for", counted(policy["retention_windows"], "more window"))]


def _assured(party: Mapping[str, Any]) -> str:
    """Empty in reports of before it was told."""
    return assured_of(party).words() if "asserted_by" in party else party.get("assurance") or ""


def _parties(report: Mapping[str, Any]) -> Section:
    header = ("who", "assurance", "releases", "spent", "basic", "tight")
    rows = [
        (name, _assured(one), str(one["spent"]["releases"]), *_figures(one["spent"]))
        for kind in ("ptk", "team")
        for one in report[f"{kind}s"]
        if (name := f"{kind} {one[kind]}")
    ]
    return Section(
        "Who spent it, each on its own worst block",
        (Table(header, tuple(rows)), Text(_FIGURES)) if rows else (Text("Nobody has spent anything."),),
    )


def _blocks(report: Mapping[str, Any]) -> Section:
    blocks = sorted(report["blocks"], key=_by_loss, reverse=True)
    shares_text = report["guarantee"].get("shares")  # a report of before tells none
    shares = shares_text is not None and report["policy"]["minimum_assurance"] != "library"
    rows = tuple(
        (
            str(row["block"]),
            _place(row),
            row["line"],
            row["state"] + (", in doubt" if row["in_doubt"] else ""),
            shown_loss(row["spent"]["guarantee"]),
            *([shown_loss(row["library"]), shown_loss(row["asserted"])] if shares else []),
            shown_loss(row["reserved"]),
            shown_loss(row["capacity"]),
        )
        for row in blocks[:BLOCKS_SHOWN]
    )
    rest = len(blocks) - len(rows)
    left = (
        (Text(f"{rest} more have lost no more than the last of these; the signed file has all."),)
        if rest
        else ()
    )
    split = ("library", "asserted") if shares else ()
    table = Table(("block", "holds", "line", "state", "spent", *split, "reserved", "may lose"), rows)
    meaning = (Text(f"{shares_text}."),) if shares else ()
    return Section(
        "Blocks, the worst first", (table, *left, *meaning) if rows else (Text("No window has closed yet."),)
    )


def _journal(report: Mapping[str, Any]) -> Section:
    journal = report["journal"]
    ends = [
        (name, f"{one['sequence']}: {one['digest']}") for name in ("first", "last") if (one := journal[name])
    ]
    verdict = "the journal adds up" if report["verification"]["adds_up"] else "the journal is wrong"
    facts = (
        ("verified", verdict),
        ("lines", str(journal["entries"])),
        ("ledger", report["ledger_id"]),
        *ends,
    )
    advice = Text("The last digest of one report must be in the journal of the next.")
    return Section("The journal", (Table(("chain", "value"), facts), advice))


def _check(report: Mapping[str, Any], signature: Mapping[str, str], digest: str) -> Section:
    return Section(
        "How to check this page",
        (
            Text(
                "This page is not signed. It was made of a signed JSON file, which has the digest below and the "
                "numbers above. Check that file with your own copy of the key: ptk ledger check FILE --public-key KEY"
            ),
            Table(
                ("signed file", report["format"]),
                (
                    ("SHA-256 of the file", digest),
                    (f"signature ({signature['algorithm']})", signature["value"]),
                    ("public key", signature["public_key"]),
                ),
            ),
        ),
    )


def _worst_block(report: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """A line of the block that lost most, all of its lines together."""
    sums: dict[int, tuple[Decimal, Decimal]] = {}
    for row in report["blocks"]:
        epsilon, delta = sums.get(row["block"], (Decimal(0), Decimal(0)))
        sums[row["block"]] = (epsilon + _by_loss(row)[0], delta + _by_loss(row)[1])
    worst = max(report["blocks"], key=lambda row: sums[row["block"]], default=None)
    return None if worst is None or not any(sums[worst["block"]]) else worst


def _by_loss(row: Mapping[str, Any]) -> tuple[Decimal, Decimal]:
    spent = row["spent"]["guarantee"]
    return Decimal(spent["epsilon"]), Decimal(spent["delta"])


def _figures(spent: Mapping[str, Any]) -> Sequence[str]:
    return [shown_loss(spent[name]) for name in ("guarantee", "basic", "tight")]


def _place(row: Mapping[str, Any]) -> str:
    """The place of a block: its window or shard, its part, and its value of the attribute."""
    where = f"shard {row['shard']}" if row["window"] is None else f"window {row['window']}"
    value = row.get("attribute_value")
    return ", ".join((where, row["part"], *([value] if value is not None else [])))


def _period(report: Mapping[str, Any]) -> str:
    windows = report["period"]["windows"]
    if not windows:
        return "no window has closed"
    return (
        f"{counted(len(windows), 'window')} from {_time(windows[0]['start'])} to {_time(windows[-1]['end'])}"
    )


def _time(text: str) -> str:
    """A time of a report as people read it; the signed file has it to the microsecond."""
    return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
