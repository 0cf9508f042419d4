"""The experiments of the budgeting paper as a script, on generated rows."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def scenarios(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(repository / "examples" / "scenarios"))


def test_the_tables_are_measured_and_ours_serves_more_than_sage_and_streaming(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        import_module("budgeting").main(["--generated", "1000", "--seeds", "2", "--out", str(tmp_path)]) == 0
    )
    told = capsys.readouterr().out
    assert all(
        f"Table {table}, generated, small costs, 2 seeds" in told for table in ("II", "III", "IV", "V")
    )
    found = json.loads((tmp_path / "budgeting.json").read_text())
    assert {one["pool"] for one in found} == {"generated", "generated drift"}
    assert all(np.isfinite(one["values"]).all() for one in found)
    served = {
        one["policy"]: np.mean(one["values"])
        for one in found
        if (one["table"], one["pool"], one["kind"], one["column"]) == ("V", "generated", "small", "6")
    }
    assert served["ours"] > served["Sage"] > served["streaming"]
    drawn = (tmp_path / "budgeting.svg").read_text()
    assert "most" in drawn
    assert len(drawn) < 150_000


@pytest.mark.parametrize("wrong", [[], ["--generated", "999"], ["--generated", "1000", "--seeds", "1"]])
def test_a_call_that_would_measure_nothing_is_refused(wrong: list[str]) -> None:
    with pytest.raises(SystemExit):
        import_module("budgeting").main(wrong)
