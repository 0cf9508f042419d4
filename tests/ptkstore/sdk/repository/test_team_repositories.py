"""Repositories with code of their own, planned and applied on a store in its home and behind HTTP."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ptkstore import TeamFunctions, featurize
from ptkstore.adapters.sandbox.parent import Bubblewrap, BubblewrapSandbox
from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.ptks.bundles import bundle_path, unpack
from ptkstore.errors import InvalidRequest, NoSandbox, PtkRejected, TooLarge
from ptkstore.sdk import PTK, Repository, Store, load_repository
from ptkstore.sdk.repository.field_changes import FieldChange, field_changes
from tests.support.api_server import Api
from tests.support.team_code import (
    GOOD,
    REPOSITORY,
    ROOMY,
    Inspector,
    bundle_with,
    described,
    write_repository,
)
from tests.support.world import DAY, ORIGIN, World, trips

LIBRARY = """
from ptklib import HistoricalStatistics
from ptkstore import PTK

def speed(name, epsilon):
    estimator = HistoricalStatistics(
        keys=["hour"], values=["speed"], domains={"hour": [0, 1]}, bounds={"speed": (0.0, 60.0)}, epsilon=epsilon
    )
    return PTK(name=name, stream="taxi", estimator=estimator, target=0.1)

"""
OWN_CLASS = '''
from ptklib import HistoricalStatistics

class FastSpeeds(HistoricalStatistics):
    """Statistics of our own."""
'''
DECLARES_CLASS = """
from ptkstore import PTK
from own import FastSpeeds

fast = PTK(
    name="fast",
    stream="taxi",
    target=0.1,
    estimator=FastSpeeds(
        keys=["hour"], values=["speed"], domains={"hour": [0, 1]}, bounds={"speed": (0.0, 60.0)}, epsilon=0.2
    ),
)
"""


@pytest.fixture
def api(api: Api) -> Api:
    api.world.stream(minimum_assurance=Assurance.ASSERTED)
    return api


def actions(changes: tuple[object, ...]) -> list[tuple[str, str]]:
    return [(change.action, change.ptk_id) for change in changes]  # type: ignore[attr-defined]


def bundle_of(repository: Repository) -> bytes:
    (ptk,) = repository.ptks
    _, bundle = repository.described(ptk)
    assert bundle is not None
    return bundle


@pytest.mark.long
@pytest.mark.usefixtures("sandbox")
def test_team_code_is_applied_once_and_then_there_is_nothing_to_do(
    store: Store, world: World, tmp_path: Path
) -> None:
    folder = write_repository(tmp_path / "team")
    (applied,) = store.apply(load_repository(folder))
    assert (applied.action, applied.checks, applied.epsilon) == ("register", "passed", 0.1)
    (spec,) = world.service.ptks()
    assert (spec.assurance, spec.estimator["params"]["bundle"]) == (Assurance.ASSERTED, applied.bundle)
    (again,) = store.plan(load_repository(folder))
    assert (again.action, again.checks) == ("keep", None)  # known code is not looked at again
    assert actions(store.apply(load_repository(folder))) == [("keep", "taxi.trips")]


def test_code_that_the_store_has_lost_comes_back_by_applying_it_again(
    store: Store, world: World, tmp_path: Path
) -> None:
    world.service.__dict__["sandbox"] = Inspector()
    repository = load_repository(write_repository(tmp_path / "team"))
    (applied,) = store.apply(repository)
    world.service.lake.remove(bundle_path(str(applied.bundle)))
    assert actions(store.apply(repository)) == [("keep", "taxi.trips")]
    assert world.service.bundles.get(str(applied.bundle)) == bundle_of(repository)


@pytest.mark.long
@pytest.mark.usefixtures("sandbox")
def test_a_plan_shows_what_is_wrong_with_team_code_and_apply_refuses_it(world: World, tmp_path: Path) -> None:
    store = Store(world.service)
    faulty = GOOD.replace("laplace(counts, l1_sensitivity=1, epsilon=epsilon)", "counts")
    repository = load_repository(write_repository(tmp_path / "team", faulty))
    (planned,) = store.plan(repository, audit=False)
    assert (planned.action, planned.checks, planned.assurance) == ("register", "failed", "asserted")
    assert "no noise is drawn" in planned.reason
    assert not planned.acceptable
    with pytest.raises(PtkRejected, match="no noise is drawn"):
        store.apply(repository)
    assert world.service.ptks() == ()


def test_a_plan_without_a_sandbox_says_that_nothing_was_checked(world: World, tmp_path: Path) -> None:
    store = Store(world.service)
    world.service.__dict__["sandbox"] = BubblewrapSandbox(Bubblewrap(str(tmp_path / "nowhere")), ROOMY)
    repository = load_repository(write_repository(tmp_path / "team"))
    (planned,) = store.plan(repository)
    assert (planned.checks, planned.acceptable) == ("not-run", True)
    assert "bubblewrap" in planned.reason
    with pytest.raises(NoSandbox, match="bubblewrap"):
        store.apply(repository)


@pytest.mark.long
@pytest.mark.usefixtures("sandbox")
def test_a_class_of_a_teams_own_is_trained_and_looked_up_and_featurizes_for_who_trusts_it(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(world.service)
    folder = write_repository(tmp_path / "team", OWN_CLASS, ptks=DECLARES_CLASS)
    (applied,) = store.apply(load_repository(folder))
    assert (applied.epsilon, applied.assurance) == (0.2, "asserted")
    world.service.ingest("taxi", trips(tuple(np.linspace(0.1, 0.9, 50))))
    world.service.close_windows("taxi", ORIGIN + DAY)
    world.work()
    (version,) = world.service.versions("taxi.fast")
    manifest = version.content
    assert manifest["config"]["params"]["bundle"] == manifest["state"]["params"]["bundle"] == applied.bundle
    assert (manifest["guarantee"]["epsilon"], manifest["guarantee"]["assurance"]) == (0.2, "asserted")
    assert world.train_block(0) == (0, 200_000_000)
    assert world.service.verify_ledger("taxi").faults == ()
    ptk = store.ptk("taxi.fast")
    assert ptk.model_state.tables["statistics"].num_rows == 2
    rows = pd.DataFrame({"hour": [0, 1, 7], "speed": [1.0, 2.0, 3.0]})
    with pytest.raises(InvalidRequest, match="the team's code"):
        list(featurize([rows], [ptk]))
    assert "own" not in sys.modules  # nothing of the store's was imported
    monkeypatch.syspath_prepend(str(folder))
    own = import_module("own")
    del sys.modules["own"]
    (table,) = featurize([rows], [ptk.trusting(own.FastSpeeds)])
    released = ptk.model_state.tables["statistics"]
    means = dict(zip(released["hour"].to_pylist(), released["speed_mean"].to_pylist(), strict=True))
    assert table["taxi__fast__speed_mean"].to_pylist()[:2] == [means[0], means[1]]

    class SlowSpeeds(own.FastSpeeds):  # type: ignore[name-defined]
        pass

    with pytest.raises(InvalidRequest, match="SlowSpeeds"):
        list(featurize([rows], [ptk.trusting(SlowSpeeds)]))


def test_what_is_not_declared_any_more_goes_only_when_that_is_said(
    store: Store, world: World, tmp_path: Path
) -> None:
    folder = write_repository(tmp_path / "team", ptks=LIBRARY + "a = speed('a', 0.4)\nb = speed('b', 0.4)\n")
    store.apply(load_repository(folder))
    write_repository(folder, ptks=LIBRARY + "a = speed('a', 0.4)\nc = speed('c', 0.5)\n")
    repository = load_repository(folder)
    assert actions(store.plan(repository)) == [("keep", "taxi.a"), ("register", "taxi.c")]
    pruned = store.plan(repository, prune=True)
    assert actions(pruned) == [("keep", "taxi.a"), ("register", "taxi.c"), ("deregister", "taxi.b")]
    assert pruned[-1].epsilon_before == 0.4
    with pytest.raises(PtkRejected):  # 0.4 + 0.4 + 0.5 is more than there is
        store.apply(repository)
    assert {spec.ptk_id for spec in world.service.ptks()} == {"taxi.a", "taxi.b"}
    assert actions(store.apply(repository, prune=True)) == actions(pruned)  # what goes makes room first
    assert {spec.ptk_id for spec in world.service.ptks()} == {"taxi.a", "taxi.c"}
    assert actions(store.apply(repository, prune=True)) == [("keep", "taxi.a"), ("keep", "taxi.c")]


def test_only_named_ptks_are_pruned_where_names_are_given(store: Store, tmp_path: Path) -> None:
    folder = write_repository(tmp_path / "team", ptks=LIBRARY + "a = speed('a', 0.1)\nb = speed('b', 0.2)\n")
    store.apply(load_repository(folder))
    empty = Repository("taxi", ())
    assert [(one.action, one.ptk_id, one.epsilon) for one in store.undeclared(empty)] == [
        ("stay", "taxi.a", 0.1),
        ("stay", "taxi.b", 0.2),
    ]
    assert store.apply(empty, prune=[]) == ()
    assert actions(store.apply(empty, prune=["taxi.a"])) == [("deregister", "taxi.a")]
    assert [one.ptk_id for one in store.undeclared(empty)] == ["taxi.b"]


def test_pruning_leaves_ptks_of_other_teams_alone(world: World) -> None:
    store = Store(world.service)
    world.register("speed")
    assert store.apply(Repository("bikes", ()), prune=True) == ()
    assert [spec.ptk_id for spec in world.service.ptks()] == ["taxi.speed"]
    (gone,) = store.apply(Repository("taxi", ()), prune=True)
    assert (gone.action, gone.ptk_id) == ("deregister", "taxi.speed")


def test_a_plan_says_what_an_update_reserves_and_what_was_reserved(world: World, tmp_path: Path) -> None:
    store = Store(world.service)
    folder = write_repository(tmp_path, ptks=LIBRARY + "a = speed('a', 0.2)")
    store.apply(load_repository(folder))
    write_repository(folder, ptks=LIBRARY + "a = speed('a', 0.3)")
    (change,) = store.plan(load_repository(folder))
    assert (change.action, change.epsilon_before, change.epsilon) == ("update", 0.2, 0.3)
    assert change.changes == (FieldChange("epsilon", 0.2, 0.3),)


def test_a_field_that_one_side_lacks_is_told_and_a_parameter_is_told_from_the_ptks_own_fields() -> None:
    before = {
        "estimator": {"family": "f", "params": {"target": "y", "domains": {"hour": [0, 1]}}},
        "target": 0.1,
    }
    after = {
        "estimator": {"family": "f", "params": {"target": "z", "domains": {"hour": [0, 1, 2]}}},
        "target": 0.1,
        "epsilons": [0.1, 0.2],
        "serve": None,
    }
    assert field_changes(before, before) == ()
    assert field_changes(before, after) == (
        FieldChange("estimator.target", "y", "z"),
        FieldChange("domains.hour", [0, 1], [0, 1, 2]),
        FieldChange("epsilons", None, [0.1, 0.2]),
        FieldChange("serve", None, None),
    )


# bundles


def test_a_bundle_holds_the_modules_and_what_is_included_and_nothing_else(tmp_path: Path) -> None:
    write_repository(tmp_path)
    for path in (
        "lib/__init__.py",
        "lib/deep.py",
        "data/zones.json",
        "data/large.csv",
        "notes.md",
        ".git/hooks.py",
        ".env.py",
        "tests/test_own.py",
        "venv/pyvenv.cfg",
        "venv/site.py",
        "__pycache__/own.py",
        "scratch.py",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    (tmp_path / "team.toml").write_text(
        'team = "taxi"\n[bundle]\ninclude = ["data/*.json"]\nexclude = ["scratch.py"]\n'
    )
    files = unpack(bundle_of(load_repository(tmp_path)))
    assert sorted(files) == ["data/zones.json", "lib/__init__.py", "lib/deep.py", "own.py"]


def test_equal_code_is_an_equal_bundle_and_declarations_are_no_code(tmp_path: Path) -> None:
    here, there = write_repository(tmp_path / "a"), write_repository(tmp_path / "b", target=0.5)
    bundle = bundle_of(load_repository(here))
    assert bundle == bundle_of(load_repository(there))
    (here / "own.py").touch()
    assert bundle == bundle_of(load_repository(here))
    write_repository(here, GOOD + "\n")
    assert bundle != bundle_of(load_repository(here))


def test_functions_in_the_declarations_take_those_along(tmp_path: Path) -> None:
    write_repository(tmp_path, ptks=REPOSITORY.replace("from own import evaluate, train_dp", GOOD))
    repository = load_repository(tmp_path)
    assert sorted(unpack(bundle_of(repository))) == ["own.py", "ptks.py"]
    assert repository.spec(repository.ptks[0])["params"]["code"] == "ptks:train_dp"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("train_dp=train_dp", "train_dp=lambda *a: None"),
        ("train_dp=train_dp", "train_dp=print"),
        ("train_dp=train_dp", "train_dp=5"),
        ('columns=["hour"]', 'columns=["no such column!"]'),
        ('"trips": "int64"', '"trips": "date"'),
        ('"keys": ["hour"]', '"keys": ["zone"]'),
        ("epsilon=0.1", "epsilon=0"),
        ("epsilon=0.1", "epsilon=11"),
        ("epsilon=0.1", "epsilon=float('nan')"),
    ],
)
def test_team_code_that_cannot_travel_or_be_described_is_refused(tmp_path: Path, old: str, new: str) -> None:
    assert old in REPOSITORY
    write_repository(tmp_path, ptks=REPOSITORY.replace(old, new))
    repository = load_repository(tmp_path)
    with pytest.raises(InvalidRequest):
        repository.spec(repository.ptks[0])


def test_a_link_is_not_followed_into_a_bundle(tmp_path: Path) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text("SECRET = 1")
    folder = write_repository(tmp_path / "team")
    (folder / "linked.py").symlink_to(secret)
    with pytest.raises(InvalidRequest, match=r"linked\.py is a link"):
        load_repository(folder)
    (folder / "linked.py").unlink()
    (folder / "elsewhere").symlink_to(tmp_path)
    assert sorted(unpack(bundle_of(load_repository(folder)))) == ["own.py"]


def test_a_large_repository_makes_no_bundle(tmp_path: Path) -> None:
    write_repository(tmp_path)
    (tmp_path / "large.py").write_text("#" * (1 << 20))
    with pytest.raises(TooLarge, match="exclude"):
        load_repository(tmp_path)


@pytest.mark.parametrize(
    "bundle", ["5", '"x"', '{ include = "x" }', "{ includes = [] }", "{ exclude = [5] }"]
)
def test_a_bundle_section_that_cannot_be_read_is_refused(tmp_path: Path, bundle: str) -> None:
    write_repository(tmp_path)
    (tmp_path / "team.toml").write_text(f'team = "taxi"\nbundle = {bundle}\n')
    with pytest.raises(InvalidRequest, match="bundle"):
        load_repository(tmp_path)


def test_a_repository_that_was_not_loaded_has_no_code_to_send(world: World) -> None:
    def train_dp(*_: object) -> None: ...

    functions = TeamFunctions(
        train_dp=train_dp,
        columns=["hour"],
        tables={"t": {"keys": ["hour"], "columns": {"hour": "int64"}}},
        epsilon=0.1,
    )
    store = Store(world.service)
    with pytest.raises(InvalidRequest, match="ptk apply"):
        store.plan(Repository("taxi", (PTK(name="x", stream="taxi", estimator=functions, target=0.1),)))


def test_a_test_of_privacy_points_to_where_team_code_is_audited(world: World) -> None:
    store = Store(world.service)
    world.service.__dict__["sandbox"] = Inspector()
    bundle = bundle_with(GOOD)
    world.service.put_bundle(bundle, team="taxi")
    world.register("trips", estimator=described(bundle))
    with pytest.raises(InvalidRequest, match="ptk plan"):
        store.test_privacy("taxi.trips")
