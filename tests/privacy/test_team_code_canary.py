"""Canaries in the rows of team code that is validated and profiled, and does all it can to let them out."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ptkstore
from ptkstore.domain.jobs import JobState, Outcome
from ptkstore.domain.ptks.bundles import bundle_of
from ptkstore.sdk import Store
from tests.privacy.canary import TEXT, find, search
from tests.support.local import local
from tests.support.team_code import GOOD, bundle_with, described

pytestmark = [pytest.mark.real, pytest.mark.long]

STREAM = "birds"
N = 6_000
COLUMNS = ["hour", "note"]
# Well-behaved on synthetic rows; on real ones it says what it read wherever it can, and then does as `END` says.
TELLS = """

def row_losses(state, rows):
    import os, sys, warnings
    note = "".join(rows.column("note").drop_null().to_pylist()[:1])
    if len(note) > 10:
        for number in (1, 2):
            os.write(number, note.encode())
        for place in ("/tmp/" + note, "/dev/shm/" + note, note, os.path.dirname(__file__) + "/" + note):
            try:
                open(place, "w").write(note)
            except OSError:
                pass
        os.environ["NOTE"] = note
        warnings.warn(note)
        END
    return np.zeros(rows.num_rows)
"""
ENDS = {
    "raises": "raise RuntimeError(note)",
    "says": "return [note] * rows.num_rows",
    "counts": "return np.zeros(rows.num_rows + len(note))",
    "passes": "sys.stdout.write(note)",
}
PROFILE_OF = {"points": 1, "n_min": 128, "n_max": 128, "models": 1, "budget": 2.0, "drift": 0, "tries": 1}
CONFIG = {"accept": {"metric": "loss", "epsilon": 1.0}, "epsilons": [1.0, 1.0], "profile": PROFILE_OF}


def register(store: Store, name: str, end: str) -> None:
    """Past the examination, whose synthetic notes are short."""
    bundle = bundle_with(GOOD + TELLS.replace("END", end))
    service = local(store)
    service.put_bundle(bundle, team=STREAM)
    estimator = described(
        bundle,
        columns=COLUMNS,
        synthetic={"hour": list(range(24)), "note": ["a", "b"]},
        row_losses="own:row_losses",
        epsilon=1.0,
    )
    assert bundle_of(estimator)
    service.register_ptk(
        team=STREAM, name=name, stream=STREAM, target=0.3, train_frequency="1d", estimator=estimator, config=CONFIG
    )  # fmt: skip


def outcomes(store: Store, kind: str) -> dict[str, Outcome | None]:
    with local(store).begin() as uow:
        jobs = [job for job in uow.jobs.find(stream=STREAM) if job.kind == kind]
    assert {job.state for job in jobs} == {JobState.ENDED}
    return {str(job.ptk_id).partition(".")[2]: job.outcome for job in jobs}


@pytest.mark.usefixtures("sandbox")
def test_no_canary_leaves_the_rows_through_losses_verdicts_or_profiles(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    home, temporary = tmp_path / "home", tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setenv("PTK_PUBLISH_TICK_SECONDS", "0.5")
    told: list[Any] = []
    with ptkstore.connect(home) as store:
        store.create_stream(
            STREAM,
            team=STREAM,
            schema={"at": "timestamp", "hour": "int64", "note": "string"},
            time_column="at",
            epsilon=10.0,
            origin="2026-01-05",
            closing="operator",
            minimum_assurance="asserted",
            rows_per_window=N,
            profile_share=0.4,
        )
        for name, end in ENDS.items():
            register(store, name, end)
        at = pd.date_range("2026-01-05", periods=N, freq="14s")
        store.ingest(STREAM, pd.DataFrame({"at": at, "hour": at.hour.astype("int64"), "note": TEXT}))
        store.close_windows(STREAM, until="2026-01-06")
        store.work_until_idle()
        assert outcomes(store, "train") == dict.fromkeys(ENDS, Outcome.DONE)
        worst = {
            name: Outcome.DONE for name in ENDS if name != "passes"
        }  # with a verdict, like any bad model
        assert outcomes(store, "validate") == {**worst, "passes": Outcome.PUBLISHED}
        assert set(outcomes(store, "profile")) == set(ENDS)
        for name in ENDS:
            ptk_id = f"{STREAM}.{name}"
            told += [local(store).profile(ptk_id), store.validations(ptk_id), store.trainings(ptk_id)]
        told += [store.notices(), [one.content for one in local(store).versions(f"{STREAM}.passes")]]
    said = [repr(told), caplog.text, *capfd.readouterr()]
    assert "team-code-failed" not in said[0]
    assert "validation-retry" in said[0]
    assert not [what for text in said for what in find(text.encode())]
    assert search(home) == {}
    assert search(temporary) == {}
    assert not [place for place in ("/tmp", "/dev/shm", ".") if (Path(place) / TEXT).exists()]
