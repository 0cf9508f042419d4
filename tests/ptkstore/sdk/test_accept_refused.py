"""A PTK whose test cannot be run is refused with a reason, in a home and over HTTP, and nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ptklib import AdaSSPRegressor, Clustering, CountFeaturizer, CovarianceMatrix, HistoricalStatistics
from ptkstore import PTK, connect
from ptkstore import errors as e
from ptkstore.domain.identity import Role
from ptkstore.domain.scheduling.choices import Scheduler
from ptkstore.sdk import Repository, Store
from tests.support.api_server import Api
from tests.support.cases import case

SPEEDS = HistoricalStatistics(
    ["hour"], ["speed"], domains={"hour": list(range(24))}, bounds={"speed": (0, 60)}, epsilon=0.1
)
SPREAD = CovarianceMatrix(["speed"], bounds={"speed": (0, 60)}, epsilon=0.1, delta=1e-6)
LINE = AdaSSPRegressor(
    ["hour"],
    label="speed",
    bounds={"hour": (0, 23)},
    label_bounds=(0, 60),
    max_norm=1.0,
    epsilon=0.1,
    delta=1e-6,
)
GROUPS = Clustering(n_clusters=2, bounds={"speed": (0, 60)}, epsilon=0.1)
LONG = CountFeaturizer(["hour"], label="long", classes=[False, True], domains={"hour": [1]}, epsilon=0.1)
MANY = HistoricalStatistics(
    ["hour"], ["speed"], domains={"hour": list(range(1_001))}, bounds={"speed": (0, 60)}, epsilon=0.1
)
OTHERS = {"other": "taxi", "waits": "patient"}
"""A PTK of a stream that plans each window, and one of a stream whose PTKs wait."""
TEST = {"metric": "loss", "epsilon": 0.5}
REJECT = {**TEST, "reject_epsilon": 0.4}
REFUSED: list[tuple[Any, dict[str, Any], float, type[e.PtkStoreError], str]] = [
    (SPEEDS, {**TEST, "metric": "beauty"}, 0.1, e.InvalidRequest, "the metric of accept is one of"),
    (SPEEDS, {**TEST, "confidence": 0}, 0.1, e.InvalidRequest, r"confidence must be in \(0, 1\)"),
    (SPEEDS, {**TEST, "confidence": 1}, 0.1, e.InvalidRequest, r"confidence must be in \(0, 1\)"),
    (SPEEDS, {**TEST, "confidence": -0.5}, 0.1, e.InvalidRequest, r"confidence must be in \(0, 1\)"),
    (SPEEDS, {**TEST, "timeout": "30d"}, 0.1, e.InvalidRequest, "the stream keeps rows for 2d"),
    (SPEEDS, {**TEST, "timeout": "1h"}, 0.1, e.InvalidRequest, "shorter than the time between two trainings"),
    (SPEEDS, {**TEST, "timeout": "later"}, 0.1, e.InvalidRequest, "is no duration"),
    (SPEEDS, {**TEST, "epsilon": 1.5}, 0.1, e.PtkRejected, r"epsilon 1\.5; .* does not fit a test block"),
    (SPEEDS, {**TEST, "epsilon": 1.2}, 0.9, e.PtkRejected, r"epsilon 1\.2; .* does not fit a test block"),
    (SPEEDS, {**TEST, "epsilon": 0}, 0.1, e.InvalidRequest, "epsilon of accept"),
    (SPREAD, TEST, 0.1, e.InvalidRequest, "no loss of single rows"),
    (SPEEDS, {**TEST, "metric": "accuracy"}, 0.9, e.InvalidRequest, "predicts no class"),
    (LONG, {**TEST, "metric": "error"}, 0.1, e.InvalidRequest, "means of one value: use the metric 'loss'"),
    (SPREAD, {**TEST, "metric": "error"}, 0.1, e.InvalidRequest, "means of one value: use the metric 'loss'"),
    (
        MANY,
        {**TEST, "metric": "error"},
        0.1,
        e.InvalidRequest,
        "in 1,000 groups at most, and there are 1,001",
    ),
    (SPEEDS, {**TEST, "metric": "error"}, 0.0, e.InvalidRequest, "target"),
    (SPEEDS, {**REJECT, "metric": "error"}, 0.1, e.InvalidRequest, "an error has no exact bound"),
    (SPEEDS, {**TEST, "metric": "error", "epsilon": 1.5}, 0.1, e.PtkRejected, "does not fit a test block"),
    (
        SPEEDS,
        {**REJECT, "reject_epsilon": 0.6},
        0.1,
        e.PtkRejected,
        r"epsilon 1\.1; .* does not fit a test block",
    ),
    (SPEEDS, {**REJECT, "reject_epsilon": 0}, 0.1, e.InvalidRequest, "reject_epsilon of accept must be"),
    (
        SPEEDS,
        {**REJECT, "reject_epsilon": True},
        0.1,
        e.InvalidRequest,
        "reject_epsilon of accept must be a number",
    ),
    (
        SPEEDS,
        {**REJECT, "reject_epsilon": None},
        0.1,
        e.InvalidRequest,
        "reject_epsilon of accept must be a number",
    ),
    (LONG, {**REJECT, "metric": "accuracy"}, 0.9, e.InvalidRequest, "an accuracy has no exact bound"),
    (LINE, REJECT, 0.1, e.InvalidRequest, "a released model may lose less: leave reject_epsilon out"),
    (GROUPS, REJECT, 0.1, e.InvalidRequest, "no exact minimum of its loss, so nothing can be rejected"),
    (SPEEDS, TEST, 1.0, e.InvalidRequest, "target must be between 0 and 1"),
    (SPEEDS, {**TEST, "patience": "1d"}, 0.1, e.InvalidRequest, "accept names what is validated"),
]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with Api(tmp_path_factory.mktemp("accept") / "home") as api:
        api.world.stream()
        api.world.stream("patient", scheduler=Scheduler.ADAPTIVE)
        for name, stream in OTHERS.items():
            api.world.register(name, stream=stream, config={"accept": {"metric": "loss", "epsilon": 0.3}})
        yield api


@pytest.fixture(params=["home", "remote"])
def store(request: pytest.FixtureRequest, api: Api) -> Iterator[Store]:
    if request.param == "home":
        yield Store(api.world.service)
        return
    with connect(api.url, token=api.token(*Role)) as store:
        yield store


@pytest.mark.parametrize("stream", OTHERS.values())
def test_what_no_validation_can_do_is_refused_with_a_reason(store: Store, api: Api, stream: str) -> None:
    before = api.world.service.ptks()
    journal = api.world.service.verify_ledger(stream).entries
    for estimator, accept, target, error, why in REFUSED:
        ptk = PTK("speed", stream, estimator, target=target, accept=accept)
        with case(f"{accept} {target}"), pytest.raises(error, match=why):
            store.apply(Repository("taxi", (ptk,)))
        assert api.world.service.ptks() == before
    assert api.world.service.verify_ledger(stream).entries == journal


@pytest.mark.parametrize("name", OTHERS)
def test_a_change_that_no_validation_can_do_leaves_the_ptk_as_it_was(
    store: Store, api: Api, name: str
) -> None:
    before = api.world.service.ptk(f"taxi.{name}")
    for estimator, accept, target, error, why in REFUSED:
        if target != 0.1 or estimator is not SPEEDS:
            continue
        with case(str(accept)), pytest.raises(error, match=why):
            store.update_ptk_config(f"taxi.{name}", {"accept": accept})
        assert api.world.service.ptk(f"taxi.{name}") == before
