"""What an examination of team code sees on synthetic rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ptkstore.adapters.sandbox.inside import examining
from ptkstore.adapters.sandbox.inside.examining import examined
from ptkstore.adapters.sandbox.messages.team_code import NotAsDeclared, examined_from, message
from ptkstore.adapters.sandbox.parent import Bubblewrap, BubblewrapSandbox, Limits
from ptkstore.ports.team_code import Finding
from tests.support.team_code import GOOD, HOURS, bundle_with, described

FAULTY = {
    "check_noise_is_drawn": GOOD.replace("laplace(counts, l1_sensitivity=1, epsilon=epsilon)", "counts"),
    "check_shapes_do_not_depend_on_data": GOOD.replace(
        'pa.table({"hour": np.arange(24), "trips": noisy})',
        'pa.table({"hour": np.arange(24)[counts > 0], "trips": noisy[counts > 0]})',
    ),
    "check_missing_entries_are_harmless": GOOD.replace(".drop_null()", '.cast("int64", safe=True)').replace(
        ".to_numpy()\n        counts", ".to_numpy().astype('int64', casting='safe')\n        counts"
    ),
    "check_continues_a_previous_state": GOOD.replace('["hours"].column("trips")', '["days"].column("trips")'),
    "check_trains_on_synthetic_rows": GOOD.replace('{"hours": pa', '{"days": pa'),
    "check_eval_is_a_number": GOOD.replace("float(sum", "float('nan') + float(sum"),
}
ESTIMATOR = '''
from ptklib import HistoricalStatistics

class Speeds(HistoricalStatistics):
    """One of the library's, under another name."""
'''
CHANGES_ITSELF = """
    def set_params(self, **params):
        raise ValueError("as I was made")
"""
KEEPS_ROWS = (
    ESTIMATOR
    + """
    def fit(self, X, y=None, *, previous_state=None):
        super().fit(X, y, previous_state=previous_state)
        self.last_rows_ = X
        return self
"""
)


@pytest.fixture
def examine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., dict[str, Any]]]:
    """What runs inside the sandbox, without one: starting it takes seconds."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def run(text: str, runs: int = 0, **changes: object) -> dict[str, Any]:
        (tmp_path / "own.py").write_text(text)
        bundle = bundle_with(text)
        return examined(described(bundle, **{"eval": "own:evaluate", **changes}), runs)

    yield run
    sys.modules.pop("own", None)


Examine = Callable[..., dict[str, Any]]


def failed(found: dict[str, Any]) -> list[str]:
    return [check for check, status, _ in found["findings"] if status == "failed"]


@pytest.mark.long
def test_good_functions_pass_every_check_and_the_audit(sandbox: BubblewrapSandbox) -> None:
    code = "print('hello, owner')\n" + GOOD
    bundle = bundle_with(code)
    found = sandbox.examine(described(bundle, eval="own:evaluate"), bundle, 200)
    assert found.failures == ()
    *others, of_twin = found.findings
    assert (others[-1].check, of_twin.check) == (
        "check_audit_stays_below_epsilon",
        "check_audit_sees_half_the_noise",
    )
    assert {one.status for one in others} == {"passed"}
    assert of_twin.status in ("passed", "skipped")  # so few runs may see half the noise, or not
    assert found.described is not None
    assert (found.described["columns"], found.described["epsilon"]) == (["hour"], 0.1)
    assert found.printed == "hello, owner\n"  # from synthetic rows: its owner may see it


def test_too_little_noise_is_contradicted(examine: Examine) -> None:
    code = GOOD.replace("epsilon=epsilon)", "epsilon=10 * min(epsilon, 1))")
    assert failed(examine(code, runs=400)) == ["check_audit_stays_below_epsilon"]


@pytest.mark.parametrize("check", FAULTY)
def test_a_fault_is_found_and_named(examine: Examine, check: str) -> None:
    assert FAULTY[check] != GOOD
    assert check in failed(examine(FAULTY[check]))


def speeds(code: str = "own:Speeds") -> dict[str, object]:
    columns = [
        [n, "int64" if n == "hour" else "float64"] for n in ("hour", "count", "speed_sum", "speed_mean")
    ]
    return {
        "code": code,
        "eval": None,
        "arguments": {
            "keys": ["hour"],
            "values": ["speed"],
            "domains": {"hour": [0, 1]},
            "bounds": {"speed": [0.0, 60.0]},
        },
        "columns": ["hour", "speed"],
        "tables": {"statistics": {"keys": ["hour"], "columns": columns, "domains": {"hour": [0, 1]}}},
        "noise_names": ["count", "speed_sum"],
        "synthetic": None,
    }


@pytest.mark.parametrize(
    ("code", "tables", "reason"),
    [
        (GOOD.replace("np.arange(24),", "np.arange(24) // 2,"), HOURS, "several rows for one value of hour"),
        (GOOD, {"hours": {**HOURS["hours"], "rows": 23}}, "must have 23 rows, as declared"),
        (GOOD, {"hours": {**HOURS["hours"], "keys": []}}, "must have exactly one row"),
        (GOOD, {"hours": {**HOURS["hours"], "rows": 24}}, ""),
        (GOOD, {"hours": {**HOURS["hours"], "domains": {"hour": [0, 1]}}}, "a value that is not declared"),
    ],
)
def test_a_release_that_could_never_be_served_is_found_out(
    examine: Examine, code: str, tables: dict[str, Any], reason: str
) -> None:
    (found,) = [
        one for one in examine(code, tables=tables)["findings"] if one[0] == "check_release_can_be_served"
    ]
    assert found[1] == ("failed" if reason else "passed")
    assert reason in found[2]


def test_an_estimator_class_is_held_against_the_contract_of_the_library(examine: Examine) -> None:
    found = examine(ESTIMATOR.replace("Speeds", "HonestSpeeds"), **speeds("own:HonestSpeeds"))
    assert failed(found) == []
    status = {check: status for check, status, _ in found["findings"]}
    ran = {"check_event_is_what_was_drawn", "check_state_round_trip", "sklearn_check_estimators_pickle"}
    assert {status[check] for check in ran} == {"passed"}
    assert status["sklearn_check_fit_idempotent"] == "skipped"  # as it has to fail
    assert len([name for name in status if name.startswith("sklearn_check_")]) > 30


def test_an_estimator_class_that_is_none_of_scikit_learns_is_found_out(examine: Examine) -> None:
    code = ESTIMATOR.replace("Speeds", "ChangedSpeeds") + CHANGES_ITSELF
    found = examine(code, **speeds("own:ChangedSpeeds"))
    assert "sklearn_check_set_params" in failed(found)


def test_a_check_of_scikit_learn_may_be_excused_and_no_other(examine: Examine) -> None:
    excused = dict.fromkeys(
        ("sklearn_check_set_params", "check_unusable_epsilon_is_refused_before_data"), "we know"
    )
    code = (
        ESTIMATOR.replace("Speeds", "ExcusedSpeeds")
        + f"    expected_failed_checks = {excused}\n"
        + CHANGES_ITSELF
    )
    found = examine(code, **speeds("own:ExcusedSpeeds"))
    status = {check: (status, reason) for check, status, reason in found["findings"]}
    assert status["sklearn_check_set_params"] == (
        "skipped",
        "fails as expected: we know",
    )
    assert status["check_unusable_epsilon_is_refused_before_data"][0] == "failed"


def test_a_class_with_columns_of_its_own_is_spared_arrays_without_names(
    examine: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examining, "array_form", lambda estimator: estimator)  # there is no other form
    found = examine(ESTIMATOR.replace("Speeds", "FixedSpeeds"), **speeds("own:FixedSpeeds"))
    assert failed(found) == []
    (told,) = [finding for finding in found["findings"] if finding[0].startswith("sklearn_")]
    assert told[:2] == ("sklearn_checks", "skipped")


@pytest.mark.long
def test_half_the_noise_shows_in_a_long_audit_and_a_slow_one_has_no_twin(
    examine: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_twin(found: dict[str, Any]) -> tuple[str, str]:
        _, status, reason = found["findings"][-1]
        return status, reason

    assert of_twin(examine(GOOD, runs=2_000)) == ("passed", "")
    monkeypatch.setattr(examining, "_LONG_SECONDS", 0.0)
    status, reason = of_twin(examine(GOOD, runs=200))
    assert (status, "takes long" in reason) == ("skipped", True)


def test_an_estimator_class_that_keeps_rows_is_found_out(examine: Examine) -> None:
    found = examine(KEEPS_ROWS.replace("Speeds", "SpeedsWithRows"), **speeds("own:SpeedsWithRows"))
    assert "check_holds_nothing_beyond_declared" in failed(found)


@pytest.mark.parametrize(
    ("code", "entry"),
    [
        ("1 / 0", "own:train_dp"),
        ("import sys; sys.exit(0)", "own:train_dp"),
        (GOOD, "own:nothing"),
        (GOOD, "elsewhere:train_dp"),
        ("train_dp = 5", "own:train_dp"),
        ("class Own: pass", "own:Own"),
    ],
)
def test_code_that_does_not_load_says_why_to_its_owner(examine: Examine, code: str, entry: str) -> None:
    found = examine(code, **{"code": entry})
    assert found["described"] is None
    assert [finding[:2] for finding in found["findings"]] == [("loads", "failed")]
    assert found["findings"][0][2]


@pytest.mark.long
def test_code_that_never_ends_fails_its_examination(sandbox: BubblewrapSandbox) -> None:
    short = BubblewrapSandbox(Bubblewrap(), Limits(timeout_seconds=6.0, memory_bytes=4 << 30))
    bundle = bundle_with("while True: pass")
    found = short.examine(described(bundle), bundle, 0)
    assert [(one.check, one.status) for one in found.findings] == [("ends", "failed")]


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"described": None, "findings": [], "printed": ""},
        {"described": 5, "findings": [["a", "passed", ""]], "printed": ""},
        {"described": None, "findings": [["a", "fine", ""]], "printed": ""},
        {"described": None, "findings": [["a", "passed"]], "printed": ""},
        {"described": None, "findings": [["\x1b[2J", "passed", ""]], "printed": ""},
        {"described": None, "findings": [["a", "passed", ""]] * 1000, "printed": ""},
        {"described": None, "findings": [["a", "passed", ""]], "printed": 5},
    ],
)
def test_what_an_examination_says_is_looked_at(header: dict[str, object]) -> None:
    with pytest.raises(NotAsDeclared):
        examined_from(message(header))


def test_texts_of_team_code_steer_no_terminal_and_are_short() -> None:
    said = {
        "described": None,
        "findings": [["a", "failed", "x\x1b[2J" * 1000]],
        "printed": "\x07" + "y" * 9000,
    }
    found = examined_from(message(said))
    assert found.findings == (Finding("a", "failed", ("x?[2J" * 1000)[-1000:]),)
    assert found.printed == "y" * 4000


# losses of rows

LOSSES = """

def row_losses(state, rows):
    shares = state["hours"].column("trips").to_numpy().clip(0)
    hours = rows.column("hour").fill_null(0).to_numpy()
    losses = 1 - shares[hours] / max(shares.sum(), 1)
    return losses
"""
SAYS = {"row_losses": "own:row_losses"}
ODD_LOSSES = {
    "check_row_losses_are_numbers": [
        ("return losses", "return losses + np.nan"),
        ("return losses", "return losses[:-1]"),
        ("return losses", "return float(losses.mean())"),
        ("return losses", "return losses if rows.num_rows else [0.5]"),
    ],
    "check_row_losses_are_of_single_rows": [
        ("return losses", "return losses - losses.mean()"),
        ("return losses", "return losses / rows.num_rows"),
        ("return losses", "return losses + 1e-12 * rows.num_rows"),
        ("return losses", "return losses + np.arange(rows.num_rows)"),
        ("return losses", "return np.full(rows.num_rows, (hours == 8).sum())"),
    ],
    "check_row_losses_of_missing_entries": [(".fill_null(0)", '.cast("int64")'), (".fill_null(0)", "")],
}


def test_losses_of_single_rows_pass_their_checks(examine: Examine) -> None:
    found = examine(GOOD + LOSSES, **SAYS)
    assert failed(found) == []
    status = {check: status for check, status, _ in found["findings"]}
    assert [status[check] for check in ODD_LOSSES] == ["passed"] * 3
    assert not set(ODD_LOSSES) & {check for check, *_ in examine(GOOD + LOSSES)["findings"]}


@pytest.mark.parametrize(
    ("check", "change"), [(c, change) for c, some in ODD_LOSSES.items() for change in some]
)
def test_losses_that_are_not_of_single_rows_are_found_out(
    examine: Examine, check: str, change: tuple[str, str]
) -> None:
    code = LOSSES.replace(*change)
    assert code != LOSSES
    if check == "check_row_losses_of_missing_entries":  # numpy's NaN is no index
        code = code.replace("shares[hours]", "shares[hours.astype('int64', casting='safe')]")
    assert check in failed(examine(GOOD + code, **SAYS))


def test_losses_that_are_not_there_are_told_to_their_owner(examine: Examine) -> None:
    found = examine(GOOD, **SAYS)
    assert [finding[:2] for finding in found["findings"]] == [("loads", "failed")]


@pytest.mark.parametrize(
    ("name", "parts", "faults"),
    [("LossySpeeds", "60", []), ("OddSpeeds", "rows.num_rows", ["check_row_losses_are_of_single_rows"])],
)
def test_a_class_is_examined_with_the_losses_that_it_says(
    examine: Examine, name: str, parts: str, faults: list[str]
) -> None:
    code = f"""
    def row_losses(self, state, rows):
        from ptklib import DPEstimator
        means = DPEstimator.from_state(state).tables_["statistics"].column("speed_mean").to_numpy()
        return abs(rows.column("speed").fill_null(0).to_numpy().clip(0, 60) - means[0]) / {parts}
"""
    described_as = {**speeds(f"own:{name}"), "row_losses": f"own:{name}"}
    assert failed(examine(ESTIMATOR.replace("Speeds", name) + code, **described_as)) == faults
