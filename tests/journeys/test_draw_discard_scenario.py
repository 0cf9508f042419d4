"""The experiments of models that devices train as a script, on generated rows."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.long

TABLES = {
    "variance of instances",
    "known weights",
    "known weights, losses of reports",
    "poisoned reports",
    "devices that vanish",
    "reports that are needed",
    "generated digits, instances",
    "generated digits, batches on the server",
    "generated digits, ε of a weight, k = 10",
    "generated digits, losses of reports",
    "generated clicks, central and local",
}


@pytest.fixture(autouse=True)
def scenarios(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(repository / "examples" / "scenarios"))


def test_all_is_measured_and_a_second_run_goes_on_from_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script, call = (
        import_module("draw_discard"),
        ["--generated", "1000", "--seeds", "2", "--out", str(tmp_path)],
    )
    assert script.main(call) == 0
    told = capsys.readouterr().out
    saved = [table for path in tmp_path.glob("*.json") for table in json.loads(path.read_text())]
    assert {table["table"] for table in saved} > TABLES
    assert all(table["said"] in told for table in saved)
    drawn = {"generated_digits", "instances", "known", "known_weights", "needed", "sides", "spam"}
    drawn |= {f"digits_{name}" for name in ("instances", "batches", "epsilons", "schemes")}
    drawn |= {f"digits_schemes_slow_{k}" for k in (5, 20, 100)}
    assert {path.stem for path in tmp_path.glob("*.svg")} == {f"draw_discard_{name}" for name in drawn}

    (poisoned,) = (table["rows"] for table in saved if table["table"] == "poisoned reports")
    ((untested, _, tested, _, refused, *_),) = (row[2:] for row in poisoned if row[:2] == ["crude", "30%"])
    assert float(tested.split()[0]) < 1 < float(untested.split()[0])
    some, of = refused.split(" of ")
    assert some == of

    trials = [json.loads(line) for line in (tmp_path / "draw_discard_trials.jsonl").read_text().splitlines()]
    assert np.isfinite([one["found"][-1] for one in trials]).all()
    learnt = [
        (one["found"][0][0], one["found"][-1][0])
        for one in trials
        if one["of"]["task"] == "generated digits" and (one["of"]["k"], one["of"]["epsilon"]) == (1, None)
    ]
    assert all(last < first for first, last in learnt)
    assert len(learnt) == 2

    assert script.main([*call, "--parts", "digits"]) == 0
    assert len((tmp_path / "draw_discard_trials.jsonl").read_text().splitlines()) == len(trials)


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        ["--generated", "999"],
        ["--generated", "1000", "--seeds", "1"],
        ["--parts", "digits"],
        ["--parts", "large"],
    ],
)
def test_a_call_that_would_measure_nothing_is_refused(wrong: list[str]) -> None:
    with pytest.raises(SystemExit):
        import_module("draw_discard").main(wrong)
