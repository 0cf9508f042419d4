"""Lays the demo's report out as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Final

from ptkstore.cli.demo import charts
from ptkstore.cli.demo.records import WARNING, Lookup, Report

# nothing is loaded and nothing runs: even a hostile name in the report could not send its numbers anywhere
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"

_HEAD: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>PTK demo - contains true values, do not share</title>
<style>{style}</style></head>"""

_TOP: Final = """<p class="alarm" role="alert">{warning}</p>
<h1>Private knowledge of a stream of taxi trips</h1>
<p>Input: {source}. Run of {started:%Y-%m-%d %H:%M} UTC.</p>
<p class="quiet">Each block of rows may lose at most epsilon = {epsilon:g}, delta = {delta:g}, over everything
that is ever released from it. The privacy unit is one trip.</p>"""

_LOOKUPS: Final = """Read through plain Feast, beside what the demo computed from its own input, with values
clamped to the PTK's public bounds. A PTK learns from the train part of the rows only. So released counts and
sums are compared with that part's public share of the true ones. A difference is noise together with the luck
of the split."""

_ERRORS: Final = """Measured on the demo's own input: the same statistics, released many times over at several
epsilons, against the same rows without noise. Lines: mean over the repetitions; bands: 10th to 90th
percentile. Each group weighs as much as it has trips. Both axes are logarithmic."""

_BUDGET: Final = """A block is one part of one window; it loses privacy only through runs that open its rows.
Spent is irrevocable, reserved may still be given back."""

_VERSIONS: Final = """Each dot is a state that became readable in Feast, above the newest window it learnt
from. States continue: version 3 contains what versions 1 and 2 knew."""

_PTKS: Final = "Rows granted are planned from public rates, never counted."


def render(report: Report) -> str:
    """Return the page."""
    style = files("ptkstore.cli.demo").joinpath("page.css").read_text(encoding="utf-8")
    top = _TOP.format(
        warning=escape(WARNING),
        source=escape(report.source),
        started=report.started,
        epsilon=report.epsilon_g,
        delta=report.delta_g,
    )
    hidden = len(report.blocks) - charts.MAX_BLOCKS
    newest = (
        f" Shown are the newest {charts.MAX_BLOCKS} of {len(report.blocks)} blocks." if hidden > 0 else ""
    )
    parts = (
        top,
        _facts(report),
        _card("What a consumer reads", _LOOKUPS, _figure(charts.released_and_true(report)), _lookups(report)),
        _card("Error against epsilon", _ERRORS, _figure(charts.error_against_epsilon(report.errors))),
        _card("Budget per block", _BUDGET + newest, _figure(charts.budget_per_block(report.blocks))),
        _card("Versions over time", _VERSIONS, _figure(charts.versions_over_time(report))),
        _card("PTKs", _PTKS, _ptks(report)),
    )
    return f"{_HEAD.format(policy=_POLICY, style=style)}<body><main>{''.join(parts)}</main></body></html>\n"


def _facts(report: Report) -> str:
    sent = report.deliveries
    over = report.max_block_epsilon > report.epsilon_g
    undelivered = sent.failed > 0 or sent.verified < sent.sent
    facts = (
        ("windows closed", f"{report.windows_closed}", "", False),
        ("versions published", f"{sum(ptk.versions for ptk in report.ptks)}", "", False),
        ("epsilon of the fullest block", f"{report.max_block_epsilon:g}", f"of {report.epsilon_g:g}", over),
        (
            "deliveries verified",
            f"{sent.verified}",
            f"of {sent.sent}" + (f", {sent.failed} failed" if sent.failed else ""),
            undelivered,
        ),
        ("expired raw files left", f"{report.raw_files_remaining}", "", report.raw_files_remaining > 0),
        ("run time", f"{report.seconds:.0f}", "s", False),
    )
    items = "".join(
        f'<div class="{"bad" if bad else "good"}"><dt>{name}</dt><dd>{value} <small>{note}</small></dd></div>'
        for name, value, note, bad in facts
    )
    return f'<dl class="facts">{items}</dl>'


def _lookups(report: Report) -> str:
    rows = [
        (
            _code(lookup.feature),
            escape(", ".join(f"{key} {value}" for key, value in lookup.entity.items())),
            _code(lookup.view),
            _number(lookup.value),
            _number(lookup.true_value),
            _relative(lookup),
        )
        for lookup in report.lookups
    ]
    return _table(("feature", "of", "view", "released", "true", "difference"), rows, numeric=3)


def _ptks(report: Report) -> str:
    rows = [
        (
            _code(ptk.ptk_id),
            escape(ptk.family),
            f"{ptk.versions}",
            f"{ptk.epsilon_spent:g}",
            f"{ptk.rows_granted:,}",
        )
        for ptk in report.ptks
    ]
    return _table(("PTK", "family", "versions", "epsilon spent", "rows granted"), rows, numeric=2)


def _card(title: str, text: str, *parts: str) -> str:
    """Lay out a section; empty without content."""
    body = "".join(parts)
    return (
        f'<section class="card"><h2>{title}</h2><p class="quiet">{text}</p>{body}</section>' if body else ""
    )


def _figure(svg: str | None) -> str:
    return f"<figure>{svg}</figure>" if svg else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numeric: int) -> str:
    """Lay out a table; columns from `numeric` on hold numbers. Cells are HTML already."""

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f'<{tag} class="{"n" if index >= numeric else "t"}">{cell}</{tag}>'
            for index, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    table = f"<table><thead><tr>{cells('th', head)}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll">{table}</div>' if body else ""


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"


def _relative(lookup: Lookup) -> str:
    if lookup.value is None or not lookup.true_value:
        return "-"
    return f"{(lookup.value - lookup.true_value) / abs(lookup.true_value):+.1%}"
