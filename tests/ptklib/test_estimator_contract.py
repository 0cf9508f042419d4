"""What every family of the library promises beside what `ptklib.checks` asks of any estimator."""

import json
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone

from ptklib import DPEstimator, PartialStatistics, ReleasedState, estimator_from_spec
from ptklib.exceptions import (
    CorruptStateError,
    InvalidParameterError,
    PtklibError,
    SchemaError,
    StateMismatchError,
)
from ptklib.families import FAMILIES
from ptklib.moments import MomentSums
from ptklib.partials import merge_all
from ptklib.sums import NoisySums
from tests.support.families import EXAMPLES, LOCAL_EXAMPLES, Example, label_of, rows

every_family = pytest.mark.parametrize(
    "example", [*EXAMPLES, *LOCAL_EXAMPLES], ids=lambda example: example.name
)
every_central_family = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
SUMS = [
    example
    for example in EXAMPLES
    if isinstance(example.estimator, NoisySums) and not example.estimator.released_keys()
]
every_family_of_sums = pytest.mark.parametrize("example", SUMS, ids=lambda example: example.name)


def fitted(example: Example, data: pd.DataFrame | None = None, **keywords: Any) -> Any:
    data = rows() if data is None else data
    return clone(example.estimator).fit(data, label_of(example, data), **keywords)


def test_every_family_in_the_allowlist_has_an_example() -> None:
    names = {type(example.estimator).__name__ for example in (*EXAMPLES, *LOCAL_EXAMPLES)}
    assert names == set(FAMILIES)


@every_family_of_sums
def test_nothing_in_a_fitted_estimator_depends_on_the_data_but_released_values(
    example: Example, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the noisy values fixed, fits of different data leave equal objects."""

    def constant(self: Any, units: Any) -> Any:
        return {c.name: np.arange(c.size, dtype=np.int64) * 1000 for c in self.components}

    monkeypatch.setattr("ptklib.release.ReleasePlan.draw", constant)
    one, other = fitted(example, rows(10, seed=1)), fitted(example, rows(300, seed=2))
    for name in (*type(one).released, *type(one).public):
        first, second = getattr(one, name), getattr(other, name)
        assert np.array_equal(first, second) if isinstance(first, np.ndarray) else first == second, name


@every_family
def test_parameters_are_stored_as_given_and_cloned(example: Example) -> None:
    before = example.estimator.get_params()
    estimator = fitted(example)
    assert all(
        estimator.get_params()[n] is v or repr(estimator.get_params()[n]) == repr(v)
        for n, v in before.items()
    )
    assert "epsilon" in repr(clone(estimator))


@every_central_family
def test_the_loss_is_known_before_data_and_is_what_fit_spends(example: Example) -> None:
    declared = clone(example.estimator).declared_loss()
    assert declared.epsilon == example.estimator.epsilon
    assert fitted(example).privacy_spent_ == declared


@every_family_of_sums
def test_fit_draws_noise_once_over_merged_shards(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    draws: list[dict[str, Any]] = []

    def recorded(self: Any, units: Any) -> Any:
        draws.append({name: array.copy() for name, array in units.items()})
        return units

    monkeypatch.setattr("ptklib.release.ReleasePlan.draw", recorded)
    data = rows()
    whole = fitted(example, data)
    estimator = clone(example.estimator)
    shards = [data[:100], data[100:101], data[101:101], data[101:]]
    parts = [estimator.partial_statistics(shard, label_of(example, shard)) for shard in shards]
    estimator.finalize([estimator.merge(parts[:2]), *parts[2:]])
    assert len(draws) == 2
    assert all(np.array_equal(draws[0][name], draws[1][name]) for name in draws[0])
    assert estimator.to_state().to_files() == whole.to_state().to_files()


@every_family
def test_partial_statistics_survive_a_table_and_keep_their_numbers_out_of_their_repr(
    example: Example,
) -> None:
    data = rows()
    part = clone(example.estimator).partial_statistics(data, label_of(example, data))
    again = PartialStatistics.from_table(part.to_table())
    assert again.arrays.keys() == part.arrays.keys()
    assert all(np.array_equal(again.arrays[n], part.arrays[n]) for n in part.arrays)
    assert all(array.dtype == np.int64 for array in again.arrays.values())
    assert repr(part) == f"PartialStatistics(family={type(example.estimator).__name__!r})"


@every_family
@pytest.mark.parametrize("wrong", [[pd.DataFrame()], [None]])
def test_what_is_no_part_is_not_merged(example: Example, wrong: Any) -> None:
    with pytest.raises(InvalidParameterError, match="partial_statistics"):
        clone(example.estimator).finalize(wrong)


@every_family
def test_parts_of_another_configuration_are_not_merged(example: Example) -> None:
    data = rows()
    part = clone(example.estimator).partial_statistics(data, label_of(example, data))
    other = PartialStatistics(part.family, "0" * 64, part.arrays)
    with pytest.raises(StateMismatchError):
        clone(example.estimator).merge([part, other])


def test_rows_of_shards_are_joined_where_a_family_keeps_rows_and_sums_are_added() -> None:
    def part(total: int, rows: list[int]) -> PartialStatistics:
        arrays = {"total": np.array([total]), "rows": np.array(rows, dtype=np.int64)}
        return PartialStatistics("Family", "0" * 64, arrays)

    start = part(0, [])
    merged = merge_all(start, [part(1, [4, 5]), part(2, []), part(3, [6])], joined=("rows",))
    assert {name: array.tolist() for name, array in merged.arrays.items()} == {
        "total": [6],
        "rows": [4, 5, 6],
    }
    assert start.arrays["total"].tolist() == [0]
    with pytest.raises(StateMismatchError, match="shape"):
        merge_all(start, [part(1, [4])])


@every_family
def test_an_empty_block_releases_like_any_other(example: Example) -> None:
    estimator = clone(example.estimator).finalize([])
    empty = rows()[:0]
    again = fitted(example, empty)
    for state in (estimator.to_state(), again.to_state()):
        assert {n: len(t) for n, t in state.tables.items()} == {
            n: 0 if n in estimator.released_keys() else len(t)
            for n, t in fitted(example).to_state().tables.items()
        }
    objects = pd.DataFrame({column: pd.Series([], dtype=object) for column in empty.columns})
    assert fitted(example, objects).n_releases_ == 1


@every_family
def test_table_schemas_are_known_without_data(example: Example) -> None:
    schemas = clone(example.estimator).table_schemas()
    state = fitted(example).to_state()
    assert {n: t.schema for n, t in state.tables.items()} == {n: s.schema for n, s in schemas.items()}
    for name, schema in schemas.items():
        assert set(schema.keys) <= set(state.tables[name].column_names)


@every_family
def test_spec_and_state_survive_json_and_files(example: Example) -> None:
    estimator = fitted(example)
    spec = json.loads(json.dumps(estimator.to_spec(), sort_keys=True))
    assert estimator_from_spec(spec).to_spec() == estimator.to_spec()
    assert estimator_from_spec(spec).declared_loss() == estimator.declared_loss()
    state = ReleasedState.from_files(estimator.to_state().to_files())
    again = DPEstimator.from_state(state)
    assert type(again) is type(estimator)
    assert again.to_state().to_files() == estimator.to_state().to_files()
    assert np.array_equal(again.transform(rows()), estimator.transform(rows()))


@every_family
def test_equal_states_have_equal_bytes_however_their_tables_are_chunked(example: Example) -> None:
    state = fitted(example).to_state()
    chunked = {
        n: pa.concat_tables([t[:1], t[1:]]).replace_schema_metadata({"pandas": "x"})
        for n, t in state.tables.items()
    }
    assert ReleasedState(chunked, state.meta).to_files() == state.to_files()


@every_family_of_sums
def test_a_continued_state_adds_up_and_its_noise_grows(
    example: Example, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fitted(example)
    more = rows(50, seed=3)
    monkeypatch.setattr("ptklib.release.ReleasePlan.draw", lambda self, units: dict(units))
    exact = fitted(example, more)
    both = fitted(example, more, previous_state=ReleasedState.from_files(first.to_state().to_files()))
    assert both.n_releases_ == 2
    for name, columns in both.noise_std_.items():
        for column, std in columns.items():
            assert std == pytest.approx(first.noise_std_[name][column] * 2**0.5)
            added = first.tables_[name][column].to_numpy() + exact.tables_[name][column].to_numpy()
            assert both.tables_[name][column].to_numpy() == pytest.approx(added, rel=1e-9, abs=1e-6)


@every_family
def test_a_state_of_another_configuration_is_not_continued(example: Example) -> None:
    state = fitted(example).to_state()
    other = clone(example.estimator).set_params(**example.other)
    with pytest.raises(StateMismatchError):
        other.fit(rows(), label_of(example, rows()), previous_state=state)
    cheaper = clone(example.estimator).set_params(epsilon=0.25)
    assert cheaper.finalize([], previous_state=state).n_releases_ == 2


@every_family
def test_a_state_from_before_a_parameter_existed_is_continued_with_its_default(example: Example) -> None:
    state = fitted(example).to_state()
    younger = ("max_rows_per_unit", "unit")
    params = {name: value for name, value in state.meta["params"].items() if name not in younger}
    older = ReleasedState(state.tables, {**state.meta, "params": params})
    clone(example.estimator).check_previous_state(older)


@every_family
def test_tables_and_frames_of_the_same_rows_count_the_same(example: Example) -> None:
    data = rows()
    label = label_of(example, data)
    estimator = clone(example.estimator)
    expected = estimator.partial_statistics(data, label).arrays
    table = pa.Table.from_pandas(data)
    shapes: list[Any] = [
        table,
        pa.concat_tables([table[:7], table[7:]]),
        table.set_column(0, "zone", table["zone"].dictionary_encode()),
        table.to_batches()[0],
        data.astype({"zone": "category", "hour": "Int64", "long": "boolean"}),
        data.astype({"zone": "string", "hour": "float64"}),
        data.astype(object),
    ]
    for shape in shapes:
        found = estimator.partial_statistics(shape, label).arrays
        assert all(np.array_equal(found[n], expected[n]) for n in expected), type(shape)


@every_family_of_sums
def test_one_row_moves_no_vector_by_more_than_its_declared_sensitivity(example: Example) -> None:
    estimator = clone(example.estimator)
    odd = rows(6).astype(object)
    odd.loc[0, "speed"], odd.loc[1, "speed"], odd.loc[2, "fare"] = float("nan"), float("inf"), -1e300
    odd.loc[3, "hour"], odd.loc[4, "zone"], odd.loc[5, "long"] = None, b"a", "text"
    base = rows(100).astype(object)
    sensitivity = {c.name: c.sensitivity for c in estimator._components()}
    before = estimator.partial_statistics(base, label_of(example, base)).arrays
    for i in range(len(odd)):
        more = pd.concat([base, odd[i : i + 1]], ignore_index=True)
        label = None if example.label is None else np.append(label_of(example, base), "no").astype(object)
        after = estimator.partial_statistics(more, label).arrays
        for name, units in after.items():
            moved = (units - before[name]).astype(np.float64)
            assert np.linalg.norm(moved) <= sensitivity[name]
            assert np.count_nonzero(moved) <= 1 or isinstance(estimator, MomentSums)


@every_family
def test_a_missing_column_is_named_and_no_value_is(example: Example) -> None:
    data = rows().rename(columns=lambda name: f"other_{name}")
    with pytest.raises(SchemaError, match=r"column '[a-z]+' is missing") as caught:
        clone(example.estimator).fit(data, label_of(example, rows()))
    assert not any(char.isdigit() for char in str(caught.value))


@every_family
def test_unknown_families_and_parameters_are_refused(example: Example) -> None:
    spec = example.estimator.to_spec()
    for broken in (
        {**spec, "family": "os.system"},
        {**spec, "family": "DPEstimator"},
        {**spec, "params": {**spec["params"], "random_state": 1}},
        {**spec, "params": {n: v for n, v in spec["params"].items() if n != "epsilon"}},
        {**spec, "more": 1},
        [spec],
    ):
        with pytest.raises(InvalidParameterError):
            estimator_from_spec(broken)  # type: ignore[arg-type]


@every_family
def test_states_whose_tables_do_not_follow_from_their_parameters_are_refused(example: Example) -> None:
    state = fitted(example).to_state()
    name, table = next(iter(state.tables.items()))
    if len(table) > 1:
        reversed_keys = table.take(list(range(len(table)))[::-1])
        with pytest.raises(CorruptStateError, match="keys"):
            DPEstimator.from_state(ReleasedState({**state.tables, name: reversed_keys}, state.meta))
    described = dict(state.meta["tables"][name])
    described["columns"] = [*described["columns"], ["extra", "float64"]]
    wider = table.append_column(pa.field("extra", pa.float64(), nullable=False), pa.array([0.0] * len(table)))
    meta = {**state.meta, "tables": {**state.meta["tables"], name: described}}
    with pytest.raises(CorruptStateError):
        DPEstimator.from_state(ReleasedState({**state.tables, name: wider}, meta))


@every_family_of_sums
def test_states_whose_noise_does_not_follow_from_their_parameters_are_refused(example: Example) -> None:
    state = fitted(example).to_state()
    for field in ("noise_variance", "defaults"):
        with pytest.raises(CorruptStateError):
            DPEstimator.from_state(ReleasedState(dict(state.tables), {**state.meta, field: {"x": {}}}))


def test_a_state_is_not_read_as_another_family() -> None:
    state = fitted(EXAMPLES[0]).to_state()
    with pytest.raises(StateMismatchError):
        type(EXAMPLES[3].estimator).from_state(state)


@every_family
def test_without_a_row_the_error_from_the_true_value_is_not_defined(example: Example) -> None:
    estimator = fitted(example)
    assert (
        0
        <= estimator.error_from_true_value(estimator.partial_statistics(rows(), label_of(example, rows())))
        <= 1
    )
    assert math.isnan(estimator.error_from_true_value(estimator.merge([])))


def test_every_error_has_one_parent() -> None:
    assert issubclass(SchemaError, PtklibError)
    assert issubclass(SchemaError, ValueError)


def test_importing_the_library_loads_no_vendor() -> None:
    heavy = ["sklearn", "opendp", "dp_accounting", "pandas", "pyarrow", "numpy", "scipy", "fsspec"]
    code = f"import sys, ptklib; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


@pytest.mark.long
def test_declaring_a_laplace_loss_loads_neither_opendp_nor_dp_accounting() -> None:
    code = (
        "import sys; from ptklib import HistoricalStatistics as H\n"
        "H(domains={'h': range(3)}, bounds={'v': (0, 1)}, epsilon=1).declared_loss()\n"
        "print([m for m in ('opendp', 'dp_accounting', 'ptkstore') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
