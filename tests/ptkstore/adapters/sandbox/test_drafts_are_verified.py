"""The parent believes nothing that staging does not bear out."""

from __future__ import annotations

import io
from dataclasses import fields, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ptklib.spec import estimator_from_spec
from ptklib.state import FORMAT_VERSION, ReleasedState
from ptkstore.adapters.sandbox.child.train import _drafted, train
from ptkstore.adapters.sandbox.messages.orders import (
    Order,
    decode_answer,
    decode_order,
    encode_answer,
    encode_order,
)
from ptkstore.adapters.sandbox.parent.draft_check import verified
from ptkstore.application.versions.servable import UndeclaredValue
from ptkstore.domain.evaluations import JudgedMass, RiskMass
from ptkstore.domain.versions.versions import Draft, StateFile
from ptkstore.ports.row_processes import (
    CollectRequest,
    EvaluateRequest,
    OpenedRows,
    RunFailed,
    StagedPartial,
    TrainRequest,
)
from tests.support.sandbox_orders import SPEC, World, nothing
from tests.support.team_code import described


@pytest.fixture
def request_(world: World) -> TrainRequest:
    return world.request(epsilon=0.5)


@pytest.fixture
def draft(world: World, request_: TrainRequest) -> Draft:
    return train(request_, world.raw, world.staging)


def test_a_true_draft_verified(world: World, request_: TrainRequest, draft: Draft) -> None:
    assert verified(draft, request_, world.staging) is not None
    assert decode_answer(Draft, encode_answer(draft)) == draft


def test_what_a_draft_says_of_the_data_is_read_off_its_state(
    world: World, request_: TrainRequest, draft: Draft
) -> None:
    honest = verified(draft, request_, world.staging)
    told = replace(draft, facts={"rows": ["Ann 271828"]})
    assert honest is not None
    assert honest.facts
    assert verified(told, request_, world.staging) == honest
    assert "Ann" not in encode_answer(told).decode()
    of_team_code = verified(told, replace(request_, bundle=b""), world.staging)
    assert of_team_code is not None
    assert of_team_code.facts is None


OWN = {"t": {"keys": ["k"], "columns": [["k", "string"], ["v", "float64"]], "rows": 2}}
KEYLESS = {"t": {"keys": [], "columns": [["v", "string"]]}}


def drafted(
    world: World,
    tables: dict[str, Any],
    columns: dict[str, Any],
    noise: dict[str, float] | None = None,
    noise_names: list[str] | None = [],  # noqa: B006 - never changed
) -> Draft | None:
    """The draft of team code that released one table `t`, if it passes."""
    estimator = described(
        b"", columns=["zone"], tables=tables, synthetic=None, epsilon=0.5, noise_names=noise_names
    )
    code = estimator_from_spec(estimator)
    schemas = code.table_schemas()
    state = ReleasedState(
        {"t": pa.table(columns, schema=schemas["t"].schema)},
        {
            "format_version": FORMAT_VERSION,
            **code.to_spec(),
            "tables": {name: form.to_json() for name, form in schemas.items()},
            "loss": code.declared_loss().to_json(),
            "n_releases": 1,
            "noise_std": {},
            "noise_variance": noise or {},
            "defaults": {},
        },
    )
    request = world.request(estimator=estimator, epsilon=0.5, bundle=b"")
    draft = _drafted(state, request, world.staging)
    assert isinstance(draft, Draft)
    return verified(draft, request, world.staging)


def test_a_state_of_team_code_that_is_as_declared_is_verified(world: World) -> None:
    assert drafted(world, OWN, {"k": ["a", "b"], "v": [1.0, 2.0]}) is not None
    assert drafted(world, OWN, {"k": ["é" * 512, ""], "v": [1.0, 2.0]}) is not None
    assert drafted(world, KEYLESS, {"v": ["x" * 1024]}) is not None
    unlimited = {"t": {name: value for name, value in OWN["t"].items() if name != "rows"}}
    assert drafted(world, unlimited, {"k": ["a", "b", "c"], "v": [1.0] * 3}) is not None
    assert drafted(world, unlimited, {"k": [], "v": []}) is not None


DECLARED = {"t": {**OWN["t"], "domains": {"k": ["a", "b"]}}}
NUMBERED = {
    "t": {
        "keys": ["k"],
        "columns": [["k", "int64"], ["v", "int64"], ["b", "bool"]],
        "domains": {"k": {"first": -1, "last": 2}, "v": [7, -9]},
    }
}


def test_a_state_of_team_code_with_declared_values_is_verified(world: World) -> None:
    assert drafted(world, DECLARED, {"k": ["b", "a"], "v": [1.0, 2.0]}) is not None
    assert drafted(world, NUMBERED, {"k": [2, -1], "v": [7, -9], "b": [True, False]}) is not None
    assert drafted(world, NUMBERED, {"k": [], "v": [], "b": []}) is not None
    assert (
        drafted(world, KEYLESS, {"v": ["x"]}, noise={"v_sum": 1.0}, noise_names=["v_sum", "rows"]) is not None
    )
    of_before = {"noise": {"Ann_271828": 1.0}, "noise_names": None}
    assert drafted(world, KEYLESS, {"v": ["x"]}, **of_before) is not None


@pytest.mark.parametrize(
    ("tables", "columns", "noise"),
    [
        (DECLARED, {"k": ["a", "Ann 271828"], "v": [1.0, 2.0]}, {}),
        (DECLARED, {"k": ["a", "B"], "v": [1.0, 2.0]}, {}),
        (DECLARED, {"k": ["a", "b "], "v": [1.0, 2.0]}, {}),
        (NUMBERED, {"k": [3], "v": [7], "b": [True]}, {}),
        (NUMBERED, {"k": [-2], "v": [7], "b": [True]}, {}),
        (NUMBERED, {"k": [271828], "v": [7], "b": [True]}, {}),
        (NUMBERED, {"k": [0], "v": [8], "b": [True]}, {}),
        (DECLARED, {"k": ["b", "a"], "v": [1.0, 2.0]}, {"Ann_271828": 1.0}),
    ],
)
def test_a_state_of_team_code_with_a_value_that_is_not_declared_says_so_without_the_value(
    world: World, tables: dict[str, Any], columns: dict[str, Any], noise: dict[str, float]
) -> None:
    with pytest.raises(UndeclaredValue) as told:
        drafted(world, tables, columns, noise=noise)
    assert "271828" not in str(told.value)


@pytest.mark.parametrize(
    ("tables", "columns"),
    [
        (OWN, {"k": ["a", "a"], "v": [1.0, 2.0]}),
        (OWN, {"k": ["a"], "v": [1.0]}),
        (OWN, {"k": ["a", "b", "c"], "v": [1.0] * 3}),
        (OWN, {"k": [], "v": []}),
        (OWN, {"k": ["a", "b" * 1025], "v": [1.0, 2.0]}),
        (OWN, {"k": ["a", "b\0"], "v": [1.0, 2.0]}),
        (OWN, {"k": ["a", "b\x1b[2J"], "v": [1.0, 2.0]}),
        (KEYLESS, {"v": ["x", "y"]}),
        (KEYLESS, {"v": []}),
        (KEYLESS, {"v": ["x" * 1025]}),
        ({"t": {"keys": ["k"], "columns": [["k", "float64"]]}}, {"k": [0.5]}),
        ({"t": {"keys": [], "columns": [["ptk", "string"]]}}, {"ptk": ["x"]}),
    ],
)
def test_a_state_that_could_never_be_served_is_not(
    world: World, tables: dict[str, Any], columns: dict[str, Any]
) -> None:
    assert drafted(world, tables, columns) is None


def test_a_state_of_the_library_that_could_never_be_served_is_not(
    world: World, request_: TrainRequest
) -> None:
    double = {"family": SPEC["family"], "params": {**SPEC["params"], "domains": {"zone": ["a", "b"]}}}
    state = estimator_from_spec(double).fit(pa.table({"zone": ["a"], "speed": [1.0]})).to_state()
    table = state.tables["statistics"]
    twice = replace_table(state, pa.concat_tables([table, table]))
    draft = _drafted(twice, request_, world.staging)
    assert isinstance(draft, Draft)
    assert verified(draft, request_, world.staging) is None


def replace_table(state: ReleasedState, table: pa.Table) -> ReleasedState:
    return ReleasedState({"statistics": table}, dict(state.meta))


def other_content(world: World, request: TrainRequest, file: StateFile) -> StateFile:
    """The same table in other bytes, under the name of a hash that it does not have."""
    content = world.staging.read(request.draft_id, [file.name], request.draft_key)[file.name]
    table = pq.read_table(io.BytesIO(content))
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="none")
    wrong = changed(file, size=sink.tell(), sha256="1" * 64, name=f"statistics-{'1' * 64}.parquet")
    world.staging.write(request.draft_id, {wrong.name: sink.getvalue()}, request.draft_key)
    return wrong


def changed(file: StateFile, **changes: Any) -> StateFile:
    return replace(file, **changes)


@pytest.mark.parametrize("field", ["name", "size", "sha256", "content"])
def test_a_draft_that_misstates_a_file_is_not(
    world: World, request_: TrainRequest, draft: Draft, field: str
) -> None:
    (file,) = draft.files
    wrong = {
        "name": changed(file, name="../../etc/passwd"),
        "size": changed(file, size=file.size + 1),
        "sha256": changed(file, sha256="0" * 64, name=f"statistics-{'0' * 64}.parquet"),
        "content": other_content(world, request_, file),
    }[field]
    assert not verified(replace(draft, files=(wrong,)), request_, world.staging)


def test_a_draft_of_another_run_or_without_its_tables_is_not(
    world: World, request_: TrainRequest, draft: Draft
) -> None:
    other = world.request(epsilon=0.5)
    assert not verified(draft, other, world.staging)
    assert not verified(replace(draft, draft_id=other.draft_id), other, world.staging)
    assert not verified(replace(draft, files=()), request_, world.staging)
    assert not verified(replace(draft, files=draft.files * 2), request_, world.staging)


def test_a_draft_that_lost_more_than_was_granted_is_not(
    world: World, request_: TrainRequest, draft: Draft
) -> None:
    assert not verified(draft, replace(request_, epsilon=0.4), world.staging)
    more = {**draft.state, "loss": {**draft.state["loss"], "epsilon": 0.6}}
    assert not verified(replace(draft, state=more), request_, world.staging)


def test_a_draft_of_another_estimator_is_not(world: World, request_: TrainRequest, draft: Draft) -> None:
    other = {"family": SPEC["family"], "params": {**SPEC["params"], "domains": {"zone": ["a", "b", "c"]}}}
    assert not verified(draft, replace(request_, estimator=other), world.staging)
    assert not verified(replace(draft, state={**draft.state, "rows": [1]}), request_, world.staging)


def test_a_draft_whose_bytes_were_changed_is_not(world: World, request_: TrainRequest, draft: Draft) -> None:
    path = world.root / "staging" / "_staging" / draft.draft_id / draft.files[0].name
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert not verified(draft, request_, world.staging)
    path.write_bytes(data)
    assert verified(draft, request_, world.staging) is not None


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"{}\n",
        b"[]\n",
        b"7\n",
        b"null\n",
        b"\xff\n",
        b'{"code": "canary-77"}\n',
        b'{"code": "timeout"}\n',
        b'{"code": ["rows-gone"]}\n',
        b'{"code": "rows-gone"}',
        b'{"code": "rows-gone", "rows": 7}\n',
        b'{"draft_id": "d", "facts": null, "files": [{"name": "n", "size": "1", "sha256": "s"}], "state": {}}\n',
        b'{"draft_id": "d", "facts": null, "files": [{"name": "n", "size": 1}], "state": {}}\n',
        b'{"draft_id": "d", "facts": {"rows": 7}, "files": [], "state": {}}\n',
        b'{"draft_id": 7, "facts": null, "files": [], "state": {}}\n',
        b'{"draft_id": "d", "facts": null, "files": [], "state": []}\n',
        b'{"draft_id": "d", "facts": null, "files": [], "state": {}}\n{}\n',
        b"[" * 100_000 + b"\n",
    ],
)
def test_an_answer_of_another_form_is_bad_output(line: bytes) -> None:
    assert decode_answer(Draft, line) == RunFailed("bad-output")


@pytest.mark.parametrize("code", ["memory-limit", "rows-gone", "rows-corrupt"])
def test_the_codes_of_a_child_come_through(code: str) -> None:
    assert decode_answer(Draft, encode_answer(RunFailed(code))) == RunFailed(code)


def test_an_order_arrives_as_it_was_sent(world: World) -> None:
    order = Order(world.request(previous_state={"a.parquet": b"\0\xff", "state.json": b"{}"}), "/raw", "/st")
    assert decode_order(encode_order(order)) == order
    order = replace(order, request=world.request())
    assert decode_order(encode_order(order)) == order
    merging = world.request(rows=(), partials=(StagedPartial("d-1", b"\0\xff"),))
    order = replace(order, request=merging)
    assert decode_order(encode_order(order)) == order
    asked = {field.name: getattr(world.request(), field.name) for field in fields(CollectRequest)}
    order = replace(order, request=CollectRequest(**asked))
    assert decode_order(encode_order(order)) == order
    assert all(name not in repr(order.request) for name in ("window_key", "draft_key"))
    state = {"a.parquet": b"\0\xff", "state.json": b"{}"}
    request = EvaluateRequest(SPEC, 0.1, state, (OpenedRows(("/raw/1",), 0, 2**64, b"key" * 8),))
    order = replace(order, request=request)
    assert decode_order(encode_order(order)) == order
    assert "keykey" not in repr(order)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"lost": -7, "kept": 9}\n', RiskMass(-7, 9)),
        (b'{"code": "rows-gone"}\n', RunFailed("rows-gone")),
        (b'{"code": "canary-77"}\n', RunFailed("bad-output")),
        (b'{"lost": 1, "kept": 2.0}\n', RunFailed("bad-output")),
        (b'{"lost": true, "kept": 2}\n', RunFailed("bad-output")),
        (b'{"lost": 1, "kept": 9223372036854775808}\n', RunFailed("bad-output")),
        (b'{"lost": 1, "kept": 2, "rows": 3}\n', RunFailed("bad-output")),
        (b'{"lost": 1, "kept": 2}', RunFailed("bad-output")),
        (b"[1, 2]\n", RunFailed("bad-output")),
        (b"", RunFailed("bad-output")),
    ],
)
def test_an_estimate_is_two_whole_numbers_or_a_fixed_code(
    world: World, line: bytes, told: RiskMass | RunFailed
) -> None:
    request = EvaluateRequest(SPEC, 0.1, {}, ())
    assert world.runs_that_answer(line).evaluate(request, nothing) == told
    if isinstance(told, RiskMass):
        assert decode_answer(RiskMass, encode_answer(told)) == told


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"lost": -7, "kept": 9, "minimum": {"lost": 1, "kept": 2}}\n', JudgedMass(-7, 9, RiskMass(1, 2))),
        (b'{"code": "rows-gone"}\n', RunFailed("rows-gone")),
        (b'{"lost": -7, "kept": 9}\n', RunFailed("bad-output")),
        (b'{"lost": -7, "kept": 9, "minimum": null}\n', RunFailed("bad-output")),
        (
            b'{"lost": 1, "kept": 2, "minimum": {"lost": 1, "kept": -9223372036854775808}}\n',
            RunFailed("bad-output"),
        ),
    ],
)
def test_a_test_that_may_reject_is_answered_with_the_least_losses_too(
    world: World, line: bytes, told: JudgedMass | RunFailed
) -> None:
    request = EvaluateRequest(SPEC, 0.1, {}, (), reject_epsilon=0.2)
    assert world.runs_that_answer(line).evaluate(request, nothing) == told
    if isinstance(told, JudgedMass):
        assert decode_answer(JudgedMass, encode_answer(told)) == told
        assert world.runs_that_answer(line).evaluate(
            EvaluateRequest(SPEC, 0.1, {}, ()), nothing
        ) == RunFailed("bad-output")
