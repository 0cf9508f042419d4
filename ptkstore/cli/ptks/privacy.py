"""The command that tests a guarantee: `ptk test-privacy`."""

from __future__ import annotations

from typing import Annotated

import typer

from ptkstore.cli.output import REFUSED, AsJson, console, in_home, print_json, print_rows, progress
from ptkstore.sdk.repository.auditing import RUNS, RUNS_MAX, RUNS_MIN
from ptkstore.sdk.store import HomeStore

_AUDITS_MOST = 6
"""Audits of one PTK, two of which may look twice; the real number is known as they end."""


@in_home
def examine(
    store: HomeStore,
    ptk_id: str,
    runs: Annotated[
        int, typer.Option(min=RUNS_MIN, max=RUNS_MAX, help="Trainings per audit; more see more.")
    ] = RUNS,
    as_json: AsJson = False,
) -> None:
    """Bound the epsilon that a PTK really loses, from trainings on synthetic neighbouring datasets.

    Reads no row and spends no budget. Exit code 1 when the outputs contradict the declared loss.
    """
    first = f"looking for the rows that show the most of {ptk_id}"
    with progress(first, _AUDITS_MOST * runs) as tell:
        audits = store.test_privacy(
            ptk_id, runs, tell=lambda done, of: tell(f"training {ptk_id} on synthetic rows", done, of)
        )
    contradicted = any(each.audit.verdict == "contradicted" for each in audits)
    if as_json:
        print_json(
            {
                "ptk": ptk_id,
                "verdict": "contradicted" if contradicted else "consistent",
                "audits": [each.to_json() for each in audits],
            }
        )
    else:
        print_rows(
            [
                {
                    "epsilon": each.audit.epsilon,
                    "delta": each.audit.delta,
                    "at least": each.audit.lower_bound,
                    "verdict": each.audit.verdict,
                    "half the noise would show": "yes" if each.sees_half_the_noise else "no",
                }
                for each in audits
            ],
            as_json=False,
            title=f"Empirical epsilon of {ptk_id}, with {audits[0].audit.confidence:.1%} confidence",
            nothing="",
        )
        console.print(
            "consistent with what is declared; an audit can contradict a guarantee, never prove one"
            if not contradicted
            else "the trainer loses more than it declares: stop training this PTK"
        )
    if contradicted:
        raise typer.Exit(REFUSED)
