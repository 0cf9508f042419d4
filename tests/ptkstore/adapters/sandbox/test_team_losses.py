"""Losses that team code says of rows, in the sandbox: what is read of them, and what hostile code gets."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ptklib.mechanisms import additive
from ptklib.profiling import fingerprint_of
from ptklib.profiling.estimation import UNITS  # type: ignore[attr-defined]
from ptklib.state import ReleasedState
from ptkstore.adapters.sandbox.child.evaluate import evaluate
from ptkstore.adapters.sandbox.child.profile import has_drifted, profile
from ptkstore.adapters.sandbox.child.team_code import losses_by_team_code, train_team_code
from ptkstore.adapters.sandbox.confinement.confined import Confinement
from ptkstore.adapters.sandbox.messages.orders import encode_answer
from ptkstore.adapters.sandbox.messages.team_code import NotAsDeclared, losses_from, message
from ptkstore.adapters.sandbox.parent import Bubblewrap, Limits
from ptkstore.domain.evaluations import RiskMass
from ptkstore.domain.ptks.profiles import Point, ProfileAsk, Verdict
from ptkstore.errors import InvariantBroken
from ptkstore.ports.row_processes import DriftRequest, EvaluateRequest, ProfileRequest, RunFailed
from tests.support.sandbox_orders import World, new_world, nothing
from tests.support.team_code import GOOD, ROOMY, bundle_with, described

FAILED = RunFailed("team-code-failed")
N = 400
EIGHTS = 300
"""Rows of hour 8; the others are of hour 9."""
WORST = (N * UNITS, 0)
"""The sums of a test set each of whose rows has the largest loss."""
USUAL = Confinement(Bubblewrap(), ROOMY)


def says(body: str) -> str:
    """Good code with this `row_losses`."""
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return GOOD + "\n\ndef row_losses(state, rows):\n" + lines


ASLEEP = says("import time\nwhile True: time.sleep(1)")
BY_HOUR = says("return np.where(rows.column('hour').to_numpy() == 8, 0.5, 2.0)")


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = new_world(tmp_path)
    hashes = (np.arange(N, dtype=np.uint64) * np.uint64(2**54)).astype(np.uint64)
    hours = [8] * EIGHTS + [9] * (N - EIGHTS)
    world.write(pa.table({"hour": hours, "ptk_hash": hashes}))
    return world


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """No noise is drawn on this side of the sandbox."""
    monkeypatch.setattr(additive, "laplace", lambda units, **_: np.asarray(units))


def spec_of(bundle: bytes, **changes: Any) -> Any:
    return described(bundle, **{"row_losses": "own:row_losses", "loss_max": 2.0, **changes})


def files_of(code: str, **changes: Any) -> dict[str, bytes]:
    """A state of the code, as it is written; it is not trained for it."""
    spec = spec_of(bundle_with(code), **changes)
    hours = pa.table({"hour": np.arange(24), "trips": np.arange(24)})
    tables = {"hours": {"keys": ["hour"], "columns": [["hour", "int64"], ["trips", "int64"]]}}
    loss = {"epsilon": 0.1, "delta": 0.0, "event": {"name": "EpsilonDelta", "epsilon": 0.1, "delta": 0.0}}
    noise: dict[str, Any] = {"noise_std": {}, "noise_variance": {}, "defaults": {}}
    meta = {"format_version": 1, **spec, "tables": tables, "loss": loss, "n_releases": 1, **noise}
    return ReleasedState({"hours": hours}, meta).to_files()


def request(world: World, code: str, **changes: Any) -> EvaluateRequest:
    bundle = bundle_with(code)
    return EvaluateRequest(
        spec_of(bundle, **changes), 0.5, files_of(code, **changes), (world.rows(),), bundle=bundle
    )


def sums(world: World, code: str, confinement: Confinement = USUAL) -> tuple[int, int] | RunFailed:
    made = evaluate(request(world, code), world.raw, confinement)
    return made if isinstance(made, RunFailed) else (made.lost, made.kept)


@pytest.mark.usefixtures("sandbox", "exact")
def test_losses_are_clipped_and_summed_on_this_side(world: World) -> None:
    lost = (EIGHTS * 0.25 + (N - EIGHTS)) * UNITS  # in parts of the largest loss, 2
    assert sums(world, BY_HOUR) == (lost, N * UNITS - lost)


# What is said of rows, and what it counts as.
ODD = {
    "no number": ("return np.full(rows.num_rows, np.nan)", N),
    "an infinite number": ("return np.full(rows.num_rows, -np.inf)", N),
    "a huge number": ("return np.full(rows.num_rows, 1e308)", N),
    "a huge number below nothing": ("return np.full(rows.num_rows, -1e308)", 0),
    "what other rows say": (
        "hours = rows.column('hour').to_numpy()\nreturn np.full(rows.num_rows, 1e9 * (hours == 8).sum())",
        N,
    ),
    "nothing of any row": ("return [None] * rows.num_rows", N),
    "whole numbers": ("return [2] * rows.num_rows", N),
    "truths": ("return [True] * rows.num_rows", N / 2),
}


@pytest.mark.long
@pytest.mark.parametrize("name", ODD)
@pytest.mark.usefixtures("sandbox", "exact")
def test_whatever_is_said_a_row_loses_between_nothing_and_one(world: World, name: str) -> None:
    body, lost = ODD[name]
    assert sums(world, says(body)) == (lost * UNITS, (N - lost) * UNITS)


ENDS = {
    "a loss too few": "return np.zeros(rows.num_rows - 1)",
    "a loss too many": "return np.zeros(rows.num_rows + 1)",
    "no loss": "return []",
    "one number": "return 0.5",
    "a column": "return np.zeros((rows.num_rows, 1))",
    "texts": "return ['a'] * rows.num_rows",
    "raises what it read": "raise RuntimeError(str(rows.to_pydict()))",
    "prints what it read, and leaves in peace": """
import os, sys
for number in (1, 2):
    os.write(number, str(rows.to_pydict()).encode())
sys.exit(0)
""",
    "takes more memory than there is": "return bytearray(64 << 30)",
    "answers for itself": """
import os, sys
with os.fdopen(int(sys.argv[-1]), "wb") as pipe:
    pipe.write(b'{"parts": [["losses", 8]]}\\n' + bytes(8))
os._exit(0)
""",
}


@pytest.mark.long
@pytest.mark.parametrize("name", ENDS)
@pytest.mark.usefixtures("sandbox", "exact")
def test_however_it_fails_each_row_has_the_largest_loss(
    world: World, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert sums(world, says(ENDS[name])) == WORST
    assert capfd.readouterr() == ("", "")


@pytest.mark.long
@pytest.mark.usefixtures("sandbox")
def test_code_that_fails_on_some_rows_is_told_by_noisy_sums_alone(world: World) -> None:
    code = says("assert 9 not in rows.column('hour').to_pylist()\nreturn np.zeros(rows.num_rows)")
    made = world.runs().evaluate(request(world, code), nothing)
    assert isinstance(made, RiskMass)
    assert abs(made.lost / UNITS - N) <= 64  # 32 scales of the noise
    assert abs(made.kept / UNITS) <= 64


@pytest.mark.long
@pytest.mark.usefixtures("sandbox", "exact")
def test_code_that_sleeps_is_ended_and_counts_like_any_other_failure(world: World) -> None:
    began = time.monotonic()
    short = Confinement(Bubblewrap(), Limits(timeout_seconds=8.0, memory_bytes=4 << 30))
    assert sums(world, ASLEEP, short) == WORST
    assert time.monotonic() - began < 120
    made = world.runs(timeout_seconds=40.0).evaluate(request(world, ASLEEP), nothing)
    assert isinstance(made, RiskMass)  # the process around it had time left to draw the noise
    assert abs(made.lost / UNITS - N) <= 64


REMEMBERS = """
import os, tempfile

def places():
    yield from ("/tmp/seen", "seen", "/dev/shm/seen", "/var/tmp/seen", os.path.expanduser("~/seen"))
    yield os.path.join(os.path.dirname(__file__), "seen")

def leave():
    for place in places():
        try:
            open(place, "w").write("hour 8")
        except OSError:
            pass

def was_here():
    return any(os.path.exists(place) for place in places())
"""


@pytest.mark.long
@pytest.mark.usefixtures("sandbox", "exact")
def test_nothing_of_a_run_is_left_for_a_later_run_of_the_same_code(world: World) -> None:
    code = says("""
import seen
before = seen.was_here()
seen.leave()
assert seen.was_here()
return np.full(rows.num_rows, 2.0 * before)
""")
    code = code.replace(
        "    counts = np.zeros(24, dtype=np.int64)\n",
        "    import seen\n    counts = np.full(24, 10**9 * seen.was_here())\n    seen.leave()\n",
    )
    bundle = bundle_with(code, seen=REMEMBERS)
    asked = replace(request(world, code), bundle=bundle, estimator=spec_of(bundle))
    for _ in range(2):  # the first tells that it can leave something at all: else it fails
        assert evaluate(asked, world.raw, USUAL) == RiskMass(0, N * UNITS)
    made = train_team_code(spec_of(bundle), bundle, pa.table({"hour": [8] * 100}), None, USUAL)
    assert isinstance(made, ReleasedState)
    assert max(made.tables["hours"]["trips"].to_pylist()) < 10**6


@pytest.mark.long
@pytest.mark.usefixtures("sandbox")
def test_what_leaves_a_process_is_two_noisy_sums(world: World, tmp_path: Path) -> None:
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    told = world.runs().evaluate(request(world, BY_HOUR), nothing)
    assert isinstance(told, RiskMass)
    assert (told.lost + told.kept) % UNITS  # a whole number of losses would be the number of rows
    assert abs((told.lost + told.kept) / UNITS - N) <= 64  # 16 scales for each sum: once in e**16
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.long
@pytest.mark.usefixtures("sandbox")
def test_losses_of_very_many_rows_are_read() -> None:
    bundle = bundle_with(says("return np.ones(rows.num_rows)"))
    rows = pa.table({"hour": np.full(2**23 + 5, 8)})
    state = ReleasedState.from_files(files_of(BY_HOUR))
    made = losses_by_team_code(spec_of(bundle), bundle, rows, state, USUAL)
    assert isinstance(made, np.ndarray)
    assert (len(made), made.sum()) == (2**23 + 5, 2**23 + 5)


CLASS = '''
import numpy as np
from ptklib import DPEstimator, HistoricalStatistics

class Hours(HistoricalStatistics):
    """Rows by hour, and what a row loses."""

    loss_max = 2.0

    def row_losses(self, state, rows):
        fitted = DPEstimator.from_state(state)
        assert fitted.tables_["statistics"].num_rows == 24
        return np.where(rows.column("hour").to_numpy() == 8, 0.5, 2.0)
'''


@pytest.mark.long
@pytest.mark.usefixtures("sandbox", "exact")
def test_a_class_says_losses_of_a_state_of_its_own(world: World) -> None:
    bundle = bundle_with(CLASS)
    keys = {"keys": ["hour"], "statistics": ["count"], "domains": {"hour": list(range(24))}}
    columns = [["hour", "int64"], ["count", "float64"]]
    spec = spec_of(
        bundle,
        code="own:Hours",
        row_losses="own:Hours",
        arguments=keys,
        tables={
            "statistics": {
                "keys": ["hour"],
                "columns": columns,
                "domains": {"hour": {"first": 0, "last": 23}},
            }
        },
        noise_names=["count"],
    )
    made = train_team_code(spec, bundle, pa.table({"hour": [8] * 500}), None, USUAL)
    assert isinstance(made, ReleasedState), made
    asked = EvaluateRequest(spec, 0.5, made.to_files(), (world.rows(),), bundle=bundle)
    lost = int((EIGHTS * 0.25 + (N - EIGHTS)) * UNITS)
    assert evaluate(asked, world.raw, USUAL) == RiskMass(lost, N * UNITS - lost)


# profiles

ROWS = 3_000
SURE = "return np.where(state['hours'].column('trips').to_numpy()[8] > 0, 0.0, 2.0) * np.ones(rows.num_rows)"
NEVER = "return np.full(rows.num_rows, 2.0)"


@pytest.fixture
def profiled(tmp_path: Path) -> World:
    """A profile set of rides at eight: whoever counts them with little noise has no loss."""
    world = new_world(tmp_path / "profiled")
    hashes = np.sort(np.random.default_rng(5).integers(0, 2**64, ROWS, dtype=np.uint64))
    world.write(pa.table({"hour": [8] * ROWS, "ptk_hash": pa.array(hashes)}))
    return world


def ask_of(spec: Any, **changes: Any) -> ProfileAsk:
    ask = ProfileAsk(
        "taxi", "common", fingerprint_of(spec), 0.3, (0.5, 1.0), 5.0, 128, 128, 2.0, 1, (0.0, 1.0), "rows", 100,
        0.95, 1, ROWS, (0, 1), 30, 1.0,
    )  # fmt: skip
    return replace(ask, **changes)


def to_profile(world: World, code: str) -> ProfileRequest:
    bundle = bundle_with(code)
    spec = spec_of(bundle)
    return ProfileRequest(spec, ask_of(spec), (0.5, 1.0), 128, 0.95, (world.rows(),), bundle=bundle)


def to_test(world: World, code: str, **changes: Any) -> DriftRequest:
    bundle = bundle_with(code)
    spec = spec_of(bundle)
    return DriftRequest(spec, ask_of(spec, **changes), 1.0, files_of(code), (world.rows(),), bundle)


def verdicts(made: tuple[Point, ...] | RunFailed) -> list[Verdict]:
    assert not isinstance(made, RunFailed)
    return [point.verdict for point in made]


@pytest.mark.long
@pytest.mark.usefixtures("sandbox")
def test_team_code_is_trained_at_each_epsilon_of_its_profile(profiled: World) -> None:
    made = profiled.runs().profile(to_profile(profiled, says(SURE)), nothing)
    assert made == (Point(0.5, Verdict.FOUND, 128), Point(1.0, Verdict.FOUND, 128))


@pytest.mark.long
@pytest.mark.usefixtures("sandbox")
def test_each_training_of_a_profile_gets_the_epsilon_that_is_paid_for(profiled: World) -> None:
    code = says(SURE).replace("    counts =", "    assert epsilon == 1.0\n    counts =")
    made = profile(to_profile(profiled, code), profiled.raw, USUAL)
    assert verdicts(made) == [Verdict.NEEDS_MORE, Verdict.FOUND]


BAD = {
    "a model without use": says(NEVER),
    "a training that fails": says(SURE).replace("    counts =", "    raise RuntimeError('hour 8')\n    counts ="),
    "losses that fail": says("raise RuntimeError(str(rows.to_pydict()))"),
    "a loss too few": says("return np.zeros(rows.num_rows - 1)"),
    "no numbers": says("return np.full(rows.num_rows, np.nan)"),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", BAD)
@pytest.mark.usefixtures("sandbox")
def test_a_model_that_fails_is_told_like_one_without_use(
    profiled: World, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    made = profile(to_profile(profiled, BAD[name]), profiled.raw, USUAL)
    assert verdicts(made) == [Verdict.NEEDS_MORE] * 2
    assert capfd.readouterr() == ("", "")


@pytest.mark.long
@pytest.mark.parametrize(("body", "drifted"), [("return np.zeros(rows.num_rows)", False), (NEVER, True)])
@pytest.mark.usefixtures("sandbox")
def test_a_drift_test_tells_one_bit_of_a_state_of_team_code(
    profiled: World, body: str, drifted: bool
) -> None:
    asked = to_test(profiled, says(body), target=0.05)
    assert has_drifted(asked, profiled.raw, USUAL) is drifted


@pytest.mark.long
@pytest.mark.usefixtures("sandbox")
def test_losses_that_sleep_end_neither_a_profile_nor_a_drift_test(profiled: World) -> None:
    """Half of the time is for all sets of losses together: with half for each, two of them ended the process."""
    runs = profiled.runs(timeout_seconds=40.0)
    assert verdicts(runs.profile(to_profile(profiled, ASLEEP), nothing)) == [Verdict.NEEDS_MORE] * 2
    assert runs.has_drifted(to_test(profiled, ASLEEP, target=0.05), nothing) is True


# what is told of runs


def runs_of(world: World) -> dict[str, Callable[[bytes | None], object]]:
    """Runs of team code, and of a bundle that is left out, in a program that answers as it is told."""
    code = says(NEVER)
    return {
        "evaluate": lambda line: world.runs_that_answer(line or b"").evaluate(request(world, code), nothing),
        "profile": lambda line: world.runs_that_answer(line or b"").profile(to_profile(world, code), nothing),
        "drift": lambda line: world.runs_that_answer(line or b"").has_drifted(to_test(world, code), nothing),
    }


@pytest.mark.parametrize("kind", ["evaluate", "profile", "drift"])
@pytest.mark.parametrize("code", ["memory-limit", "bad-output", "trainer-error", "killed", "staging-failed"])
def test_how_a_run_of_team_code_ended_is_told_to_nobody(world: World, kind: str, code: str) -> None:
    assert runs_of(world)[kind](encode_answer(RunFailed(code))) == FAILED
    assert runs_of(world)[kind](b"8 rows of 400\n") == FAILED
    assert runs_of(world)[kind](encode_answer(RunFailed("no-sandbox"))) == RunFailed("no-sandbox")
    assert runs_of(world)[kind](encode_answer(RunFailed("rows-gone"))) == RunFailed("rows-gone")


def test_an_estimate_beyond_all_numbers_is_told_like_any_other_failure(world: World) -> None:
    assert runs_of(world)["evaluate"](encode_answer(RiskMass(2**63, 0))) == FAILED
    assert runs_of(world)["evaluate"](encode_answer(RiskMass(1, 2))) == RiskMass(1, 2)


def test_without_a_sandbox_nothing_is_told_of_the_code(world: World, profiled: World, tmp_path: Path) -> None:
    nowhere = Confinement(Bubblewrap(str(tmp_path / "bwrap")), ROOMY)
    code = says(SURE)
    assert evaluate(request(world, code), world.raw, nowhere) == RunFailed("no-sandbox")
    assert profile(to_profile(profiled, code), profiled.raw, nowhere) == RunFailed("no-sandbox")
    assert has_drifted(to_test(profiled, code), profiled.raw, nowhere) == RunFailed("no-sandbox")


def test_team_code_without_its_code_is_never_called_the_worst_model(world: World) -> None:
    asked = request(world, BY_HOUR)
    with pytest.raises(InvariantBroken, match="with its bundle"):
        evaluate(replace(asked, bundle=None), world.raw, USUAL)
    with pytest.raises(InvariantBroken, match="with its bundle"):
        profile(replace(to_profile(world, BY_HOUR), bundle=None), world.raw, USUAL)


# what comes out


def answer(
    losses: bytes = struct.pack("<2d", 0.5, float("nan")), name: str = "losses", **header: Any
) -> bytes:
    return message(header, [(name, losses)])


def test_losses_are_read_as_they_were_said() -> None:
    first, second = losses_from(answer(), 2)
    assert (first, str(second)) == (0.5, "nan")
    assert losses_from(answer(b""), 0).shape == (0,)


WRONG = {
    "nothing": b"",
    "no header": bytes(100),
    "half a number": answer(bytes(15)),
    "a loss too few": answer(bytes(8)),
    "a loss too many": answer(bytes(24)),
    "another name": answer(name="hours/trips"),
    "a word more": answer(told=1),
    "a part more": message({}, [("losses", bytes(16)), ("more", b"")]),
    "no part": message({}),
    "something behind the end": answer() + b"x",
}


@pytest.mark.parametrize("name", WRONG)
def test_any_other_answer_is_no_answer(name: str) -> None:
    with pytest.raises(NotAsDeclared):
        losses_from(WRONG[name], 2)
