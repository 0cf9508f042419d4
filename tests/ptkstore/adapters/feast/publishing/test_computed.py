"""Columns computed from what a request sends along: as the estimators do, as a consumer with Feast alone reads them."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ptklib import Clustering, CovarianceMatrix, DrawDiscardModel, HistoricalStatistics, TreeFeaturizer
from ptkstore.adapters.feast.publishing.computed import source_text
from ptkstore.application.versions.computed_columns import check_computed, computed_columns
from ptkstore.errors import InvalidRequest, UnknownName
from ptkstore.ports.features import Computed

PTK = "taxi.speed_by_hour"
VIEW = "taxi__speed_by_hour"
COMPUTED = f"{VIEW}__computed"
BOUNDS = {"lon": (-74.1, -73.7), "lat": (40.6, 40.9), "mph": (0.0, 60.0)}


def rows(n: int, seed: int = 3) -> pd.DataFrame:
    """Trips, a few of them beyond the bounds."""
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            **{name: random.uniform(low - 0.02, high + 0.02, n) for name, (low, high) in BOUNDS.items()},
            "hour": random.integers(0, 24, n),
            "zone": random.choice(["a", "b", 'c"\\'], n),
            "long": random.random(n) < 0.5,
        }
    )


def with_gaps(frame: pd.DataFrame) -> pd.DataFrame:
    """What a request may lack, or send wrongly."""
    frame = frame.copy()
    frame["hour"] = frame["hour"].astype("Int64")
    random = np.random.default_rng(5)
    for name, odd in (("lon", np.nan), ("lat", np.inf), ("mph", -np.inf), ("hour", pd.NA), ("zone", None)):
        frame.loc[random.random(len(frame)) < 0.1, name] = odd
    frame.loc[random.random(len(frame)) < 0.1, "zone"] = "unheard"
    return frame


def clustering(**more) -> Clustering:
    return Clustering(bounds=BOUNDS, n_clusters=9, epsilon=5.0, **more)


def trees(**more) -> TreeFeaturizer:
    return TreeFeaturizer(
        label="long",
        classes=[False, True],
        bounds={"mph": BOUNDS["mph"], "lat": BOUNDS["lat"]},
        domains={"hour": range(24), "zone": ["a", "b", 'c"\\']},
        **{"n_estimators": 5, "max_depth": 4, "epsilon": 2.0, "output": "leaf_index", **more},
    )


def scored(label="long", **more) -> DrawDiscardModel:
    given = {
        "features": {
            "mph": BOUNDS["mph"],
            "lat": BOUNDS["lat"],
            "hour": {"values": [*range(20)]},
            "zone": ["a", 'c"\\'],
        },
        "crosses": [["mph", "zone"], ["zone", "hour"], ["mph", "lat"]],
        "learning_rate": 0.05,
        "grid_bits": 20,
        "k": 3,
        "epsilon": 8.0,
    }
    return DrawDiscardModel(**{**given, **more}, label=label)


ESTIMATORS = {
    "nearest": clustering(scale=True),
    "nearest by lloyd": clustering(method="lloyd"),
    "project": CovarianceMatrix(bounds=BOUNDS, epsilon=2.0, delta=1e-6),
    "project some": CovarianceMatrix(
        ["mph", "lat"], bounds=BOUNDS["mph"], max_norm=1.2, n_components=1, epsilon=2.0, delta=1e-6
    ),
    "project unbounded": CovarianceMatrix(["mph", "lat"], max_norm=50.0, epsilon=2.0, delta=1e-6),
    "leaves": trees(),
    "leaves of a forest": trees(method="random", max_depth=6),
    "score": scored(),
    "score of predictions": scored(average="predictions"),
    "score of classes": scored(classes=[False, True], average="predictions"),
    "score of a number": scored("lon", model="linear", label_bounds=BOUNDS["lon"]),
    "score of buckets": scored(
        features={"zone": {"hash_buckets": 5}, "hour": {"hash_buckets": 7}, "lat": {"hash_buckets": 3}},
        crosses=[["hour", "zone"]],
    ),
    "score of booleans": scored(
        "mph", model="linear", label_bounds=BOUNDS["mph"], features={"long": [True]}, crosses=[]
    ),
}


FORMS = {
    "Clustering": "nearest",
    "CovarianceMatrix": "project",
    "TreeFeaturizer": "leaves",
    "DrawDiscardModel": "score",
}


def declared(estimator, name: str = "x") -> dict:
    return {"serve": {"computed": {name: FORMS[type(estimator).__name__]}}}


def computed_by(fitted, name: str = "x") -> tuple[Computed, ...]:
    state = fitted.to_state()
    return computed_columns(dict(state.meta), dict(state.tables), declared(fitted, name))


def run(state, inputs: pd.DataFrame) -> pd.DataFrame:
    space: dict = {}
    exec(source_text(state), space)  # noqa: S102
    return space["computed"](inputs)


def sent(part: Computed, frame: pd.DataFrame) -> pd.DataFrame:
    """What Feast hands on: objects where something is missing."""
    return pd.DataFrame({name: frame[name].astype(object) for name, _ in part.columns})


def expected(fitted, frame: pd.DataFrame) -> np.ndarray:
    frame = frame[[*fitted._transform_columns()]]
    found = fitted.predict(frame) if isinstance(fitted, Clustering) else fitted.transform(frame)
    return np.asarray(found, dtype=np.float64).reshape(len(frame), -1)


@pytest.mark.parametrize("which", ESTIMATORS)
@pytest.mark.parametrize("gaps", [False, True], ids=["whole", "with gaps"])
def test_the_text_computes_as_the_estimator_does(make, which, gaps):
    fitted = ESTIMATORS[which].fit(rows(4_000))
    (part,) = computed_by(fitted)
    frame = rows(20_000, seed=4)
    frame = with_gaps(frame) if gaps else frame
    found = run(replace(make.state(3), computed=(part,)), sent(part, frame))
    assert list(found.columns) == [*part.outputs, "computed_version"]
    assert set(found["computed_version"]) == {3}
    values = found[list(part.outputs)].to_numpy(dtype=np.float64)
    np.testing.assert_allclose(values, expected(fitted, frame), rtol=0, atol=1e-12)
    assert len(np.unique(values)) > 1  # not one answer for all


def nearest_of(*centres: tuple[float, ...]) -> Computed:
    parameters = {
        "low": [-10.0] * 2,
        "high": [10.0] * 2,
        "factor": [1.0] * 2,
        "usual": [2.0, 0.0],
        "centres": [list(centre) for centre in centres],
    }
    return Computed("nearest", (("a", "double"), ("b", "double")), ("cluster",), parameters)


def test_of_equally_near_centres_the_first_is_told_and_a_missing_value_is_the_usual_one(make):
    part = nearest_of((0.0, 4.0), (4.0, 0.0), (-4.0, 0.0), (4.0, 0.0))
    state = replace(make.state(1), computed=(part,))
    inputs = pd.DataFrame(
        {"a": [4.0, 2.0, 0.0, None, -99.0, float("nan")], "b": [0.0, 2.0, -1.0, 0.0, None, 3.0]}, dtype=object
    )
    assert run(state, inputs)["cluster"].tolist() == [1, 0, 1, 1, 2, 0]
    assert run(state, inputs.iloc[:0])["cluster"].tolist() == []


def test_before_its_version_was_released_nothing_is_known(make):
    part = nearest_of((0.0, 0.0), (3.0, 3.0))
    axis = Computed(
        "project",
        part.columns,
        ("p_0",),
        {
            "centre": [0.0] * 2,
            "half_width": [1.0] * 2,
            "reach": 9.0,
            "mean": [0.0] * 2,
            "components": [[1.0, 0.0]],
        },
    )
    state = replace(make.state(2), computed=(part, axis))
    moments = [make.day(1.9), make.day(2), make.day(3)]
    found = run(state, pd.DataFrame({"a": [3.0] * 3, "b": [3.0] * 3, "event_timestamp": moments}))
    assert found["cluster"].tolist() == [-1, 1, 1]
    assert found["p_0"].isna().tolist() == [True, False, False]
    assert found["computed_version"].tolist() == [0, 2, 2]


@pytest.mark.parametrize("word", ["'", '"', "\\", "'''", "{0}", "' + str(1/0) + '", "\N{SNOWMAN}", "a\nb"])
def test_a_value_of_a_domain_is_never_read_as_code(make, word):
    given = {"features": [{"values": ["u", word]}], "trees": [{"levels": [0], "thresholds": [1.0]}]}
    part = Computed("leaves", (("zone", "string"),), ("leaf_0",), given)
    found = run(replace(make.state(1), computed=(part,)), pd.DataFrame({"zone": [word, "u", None]}))
    assert found["leaf_0"].tolist() == [1, 0, 0]


# What may be registered


@pytest.mark.parametrize(
    ("estimator", "given", "complaint"),
    [
        (clustering(), [], "no mapping"),
        (
            clustering(),
            {"zone": "farthest"},
            "computes 'zone' by none of the forms leaves, nearest, project, score",
        ),
        (clustering(), {"zone": ["nearest"]}, "computes 'zone' by none"),
        (clustering(), {"a b": "nearest"}, "computes 'a b', which is no name"),
        (clustering(), {"a__b": "nearest"}, "computes 'a__b', which is no name"),
        (clustering(), {"a": "nearest", "b": "nearest"}, "one form twice"),
        (clustering(), {"lon": "nearest"}, "one name"),
        (clustering(), {"computed_version": "nearest"}, "one name"),
        (
            clustering(),
            {"zone": "project"},
            "cannot compute 'zone': Clustering has no form 'project': it has nearest",
        ),
        (
            HistoricalStatistics(domains={"hour": range(2)}, bounds={"mph": (0, 1)}, epsilon=1.0),
            {"zone": "nearest"},
            "HistoricalStatistics has no form 'nearest': it has none",
        ),
        (
            Clustering(bounds=BOUNDS, n_clusters=1024, epsilon=1.0),
            {"zone": "nearest"},
            None,
        ),
        (
            Clustering(bounds={f"c{i}": (0, 1) for i in range(20)}, n_clusters=256, epsilon=1.0),
            {"zone": "nearest"},
            "cannot compute 'zone': 'nearest' would need 5200 numbers, more than 5000",
        ),
        (trees(n_estimators=2, max_depth=12), {"leaf": "leaves"}, "more than 5000"),
        (trees(n_estimators=65, max_depth=2), {"leaf": "leaves"}, "more than 64 columns"),
        (trees(n_estimators=64, max_depth=2), {"leaf": "leaves"}, None),
        (
            TreeFeaturizer(label="y", classes=[0, 1], domains={"flag": [True, False]}, epsilon=1.0),
            {"leaf": "leaves"},
            "domains of integers or strings",
        ),
        (
            Clustering(bounds={"pickup__lon": (0, 1)}, epsilon=1.0),
            {"zone": "nearest"},
            "computes 'zone' from 'pickup__lon', which is no name",
        ),
    ],
)
def test_what_cannot_be_computed_is_refused_with_the_key_at_fault(estimator, given, complaint):
    def check() -> None:
        check_computed(PTK, estimator, {"serve": {"computed": given}})

    if complaint is None:
        check()
        return
    with pytest.raises(InvalidRequest, match="serve of ") as refused:
        check()
    assert complaint in str(refused.value)


def test_a_version_of_another_family_computes_nothing():
    fitted = ESTIMATORS["project some"].fit(rows(400))
    state = fitted.to_state()
    other = {"serve": {"computed": {"zone": "nearest"}}}
    assert computed_columns(dict(state.meta), dict(state.tables), other) == ()
    assert computed_columns(dict(state.meta), dict(state.tables), {}) == ()


# On Feast

ROW = {"lon": -73.9, "lat": 40.7, "mph": 20.0}


@pytest.fixture(scope="module")
def fitted() -> dict:
    """One fitted estimator for each version."""
    return {version: clustering().fit(rows(2_000, seed=version)) for version in (1, 2, 3)}


@pytest.fixture
def state(make, fitted):
    def of(version: int, *, by=None, **more):
        parts = computed_by(fitted[version] if by is None else by, "zone")
        return replace(make.state(version, **more), computed=parts)

    return of


def asked(*names: str) -> list[str]:
    return [f"{COMPUTED}:{name}" for name in names]


@pytest.mark.long
@pytest.mark.real
def test_plain_feast_computes_with_the_served_version(repo, store, make, state, fitted, consumer):
    frame = rows(40, seed=9)
    sent_along = [*frame[["lon", "lat", "mph"]].to_dict("records"), {**ROW, "lat": None}]
    for version in (1, 2, 3):
        make.publish(store, state(version))
        answer = consumer(
            "online", repo=str(repo), features=asked("zone", "computed_version"), rows=sent_along
        )
        want = fitted[version].predict(pd.DataFrame(sent_along)).tolist()
        assert answer["zone"] == want
        assert answer["computed_version"] == [version] * len(sent_along)
        assert store.look_up(asked("zone"), sent_along) == [{"zone": zone} for zone in want]
    both = [*asked("zone", "computed_version"), f"{VIEW}:value"]
    answer = consumer("online", repo=str(repo), features=both, rows=[{**ROW, "hour": 8}, {**ROW, "hour": 99}])
    assert (answer["value"], answer["computed_version"]) == ([3.0, None], [3, 3])
    assert answer["zone"] == [int(fitted[3].predict(pd.DataFrame([ROW]))[0])] * 2


@pytest.mark.real
def test_a_projection_and_leaves_are_as_many_features(light_repo, light_store, make, plain_consumer):
    axes = CovarianceMatrix(bounds=BOUNDS, epsilon=2.0, delta=1e-6).fit(rows(2_000))
    forest = trees().fit(rows(2_000))
    make.publish(light_store, replace(make.state(1), computed=computed_by(axes, "axis")))
    make.publish(
        light_store, replace(make.state(1, ptk_id="taxi.trees"), computed=computed_by(forest, "leaf"))
    )
    row = {**ROW, "hour": 7, "zone": 'c"\\'}
    names = [*asked("axis_0", "axis_2"), *(f"taxi__trees__computed:leaf_{i}" for i in range(5))]
    answer = plain_consumer("online", repo=str(light_repo), features=names, rows=[row, {**row, "zone": None}])
    frame = pd.DataFrame([row, {**row, "zone": None}])
    projected = expected(axes, frame)
    np.testing.assert_allclose(answer["axis_0"], projected[:, 0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(answer["axis_2"], projected[:, 2], rtol=0, atol=1e-12)
    found = np.array([answer[f"leaf_{i}"] for i in range(5)]).T
    assert found.tolist() == expected(forest, frame).tolist()


@pytest.mark.parametrize("which", [name for name in ESTIMATORS if name.startswith("score")])
def test_values_of_every_kind_score_as_the_model_does(make, which):
    fitted = ESTIMATORS[which].fit(rows(400))
    (part,) = computed_by(fitted)
    odd = [None, True, False, 0, 1, 1.0, 0.5, -(2**63), 2**53 + 1, math.nan, math.inf, 1e300, np.int64(3)]
    texts = ["a", 'c"\\', "", "\ud800", "x" * 1024, "x" * 1025, "\N{SNOWMAN}", "3"]
    kinds = dict(part.columns)
    entries = {name: [*odd, *(texts if kinds[name] in ("string", "bool") else [])] for name in kinds}
    n = max(map(len, entries.values()))
    columns = {name: [*given, *([None] * (n - len(given)))] for name, given in entries.items()}
    frame = pd.DataFrame({name: pd.Series(given, dtype=object) for name, given in columns.items()})
    found = run(replace(make.state(1), computed=(part,)), frame)
    values = found[list(part.outputs)].to_numpy(dtype=np.float64)
    np.testing.assert_allclose(values, expected(fitted, frame), rtol=0, atol=1e-12)


@pytest.mark.real
def test_plain_feast_scores_what_a_request_sends(light_repo, light_store, make, plain_consumer):
    names = ("score", "score of classes", "score of buckets", "score of booleans")
    models = {name: ESTIMATORS[name].fit(rows(2_000)) for name in names}
    features, views = [], {}
    for number, (name, fitted) in enumerate(models.items()):
        (part,) = parts = computed_by(fitted, f"s{number}")
        view = make.state(1, ptk_id=f"taxi.m{number}")
        make.publish(light_store, replace(view, computed=parts))
        views[name] = part.outputs
        features += [f"taxi__m{number}__computed:{output}" for output in part.outputs]
    row = {**ROW, "hour": 7, "zone": 'c"\\', "long": True}
    sent_along = [
        row,
        {**row, "zone": None, "mph": 99.0},
        {**row, "zone": "unheard", "long": False, "hour": 21},
    ]
    answer = plain_consumer("online", repo=str(light_repo), features=features, rows=sent_along)
    told = light_store.look_up(features, sent_along)
    frame = pd.DataFrame(sent_along)
    for name, fitted in models.items():
        want = expected(fitted, frame)
        assert len(np.unique(want)) > 1
        for place, output in enumerate(views[name]):
            np.testing.assert_allclose(answer[output], want[:, place], rtol=0, atol=1e-12)
            np.testing.assert_allclose([one[output] for one in told], want[:, place], rtol=0, atol=1e-12)


@pytest.mark.real
def test_joins_in_time_compute_from_the_served_versions_time_on(
    light_repo, light_store, make, state, fitted, plain_consumer
):
    make.publish(light_store, state(1), state(2))
    days = (0.5, 1.5, 2.5)
    entities = [{**ROW, "hour": 7, "event_timestamp": make.day(day).isoformat()} for day in days]
    names = [*asked("zone", "computed_version"), f"{VIEW}:value"]
    history = plain_consumer("historical", repo=str(light_repo), features=names, rows=entities)
    zone = int(fitted[2].predict(pd.DataFrame([ROW]))[0])
    assert [row["zone"] for row in history] == [-1, -1, zone]
    assert [row["computed_version"] for row in history] == [0, 0, 2]
    assert [row["value"] for row in history] == [None, 1.0, 2.0]


@pytest.mark.long
@pytest.mark.real
def test_a_flip_that_died_before_it_came_to_the_computed_view_is_completed(
    light_store, make, state, fitted, monkeypatch
):
    make.publish(light_store, state(1))
    light_store.stage(state(2))

    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("ptkstore.adapters.feast.publishing.computed.serve", die)
        with pytest.raises(Killed):
            light_store.flip(state(2))
    for version in (1, 2):  # whole, if older
        zone = int(fitted[version].predict(pd.DataFrame([ROW]))[0])
        want = [{"zone": zone, "computed_version": version}]
        assert light_store.look_up(asked("zone", "computed_version"), [ROW]) == want
        make.publish(light_store, state(2))


@pytest.mark.real
def test_nothing_of_it_is_a_pickle_and_all_of_it_goes_with_the_declaration_and_the_ptk(
    light_store, make, state
):
    from feast.infra.registry.sql import feature_view_version_history, on_demand_feature_views
    from feast.protos.feast.core.OnDemandFeatureView_pb2 import OnDemandFeatureView
    from sqlalchemy import select

    def stored() -> list[bytes]:
        with light_store._sessions.use() as session, session.database.engine.connect() as connection:
            kept = select(feature_view_version_history.c.feature_view_type)
            assert "on_demand_feature_view" not in connection.execute(kept).scalars().all()
            return list(connection.execute(select(on_demand_feature_views.c.feature_view_proto)).scalars())

    make.publish(light_store, state(1), state(2))
    (one,) = stored()
    function = OnDemandFeatureView.FromString(one).spec.feature_transformation.user_defined_function
    assert function.body == b""
    assert "def computed(inputs):" in function.body_text
    assert "ptk" not in function.body_text
    make.publish(light_store, replace(make.state(3)))
    assert stored() == []
    with pytest.raises(UnknownName):
        light_store.look_up(asked("zone"), [ROW])
    make.publish(light_store, replace(make.state(4), computed=state(3).computed))
    assert len(stored()) == 1
    light_store.withdraw(PTK)
    light_store.withdraw(PTK)
    assert stored() == []


@pytest.mark.real
def test_what_is_not_sent_along_is_asked_for_without_telling_values(light_store, make, state):
    make.publish(light_store, state(1))
    for row in ({"lon": -73.424242}, {**ROW, "lat": "a424242"}):
        with pytest.raises(InvalidRequest) as refused:
            light_store.look_up(asked("zone"), [row])
        assert "424242" not in str(refused.value)


def test_a_number_of_a_state_is_written_exactly(make):
    odd = [0.1 + 0.2, 1e-308, -0.0, math.pi, 1e22]
    axis = {"centre": [0.0], "half_width": [1.0], "reach": 9.0, "mean": [0.0]}
    names = tuple(f"p_{i}" for i in range(len(odd)))
    part = Computed(
        "project", (("a", "double"),), names, {**axis, "components": [[number] for number in odd]}
    )
    found = run(replace(make.state(1), computed=(part,)), pd.DataFrame({"a": [1.0]}))
    assert found[list(names)].to_numpy().tolist() == [odd]


def test_a_table_of_that_name_is_served_on_and_gives_it_up_and_takes_it_back(
    light_store, make, state, fitted
):
    """PTKs may have it that were registered when any name would do."""

    def with_table(version):
        rows = pa.table({"hour": pa.array([8], pa.int64()), "value": [float(version)]})
        both = {"computed": rows, "other": rows}
        return make.state(version, tables=both, keys=dict.fromkeys(both, ("hour",)))

    def value(of):
        return light_store.look_up([f"{of}:value"], [{"hour": 8}])

    make.publish(light_store, with_table(1), with_table(2))
    assert value(COMPUTED) == value(f"{VIEW}__other") == [{"value": 2.0}]
    make.publish(light_store, state(3))
    zone = int(fitted[3].predict(pd.DataFrame([ROW]))[0])
    assert light_store.look_up(asked("zone"), [ROW]) == [{"zone": zone}]
    # a rollback, of a PTK that declares it now
    make.publish(light_store, replace(with_table(4), computed=state(3).computed))
    assert value(COMPUTED) == value(f"{VIEW}__other") == [{"value": 4.0}]
    light_store.withdraw(PTK)
    with pytest.raises(UnknownName):
        value(COMPUTED)
