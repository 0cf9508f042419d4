"""`register_ptk` with a team's own functions, as the PTK paper's Figure 1 has it, in a home and behind HTTP."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import Any

import pytest

from ptkstore import TeamFunctions, connect
from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.identity import Role
from ptkstore.domain.ptks.bundles import bundle_of, unpack
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.errors import InvalidRequest, NotAllowed, PtkRejected, UnknownName
from ptkstore.sdk import Store
from ptkstore.sdk.repository.imported_code import source_of_imported
from tests.support.api_server import Api
from tests.support.cases import case
from tests.support.team_code import GOOD, Inspector
from tests.support.world import World

FACTS: dict[str, Any] = {
    "columns": ["hour"],
    "tables": {
        "hours": {
            "keys": ["hour"],
            "columns": {"hour": "int64", "trips": "int64"},
            "domains": {"hour": range(24)},
        }
    },
    "synthetic": {"hour": range(24)},
    "epsilon": 0.1,
}
PLACE = {"name": "trips", "stream": "taxi", "target": 0.1}


@pytest.fixture
def api(api: Api) -> Api:
    api.world.stream(minimum_assurance=Assurance.ASSERTED)
    return api


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that Python imports from; what was imported of it is forgotten afterwards."""
    folder = tmp_path / "team"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file is None or tmp_path in Path(file).parents:
            del sys.modules[name]


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    invalidate_caches()


def code_of(world: World, spec: PtkSpec) -> dict[str, bytes]:
    sha256 = bundle_of(spec.estimator)
    assert sha256 is not None
    return unpack(world.service.bundles.get(sha256))


@pytest.mark.long
@pytest.mark.usefixtures("sandbox")
def test_two_functions_become_a_ptk_that_was_examined_by_the_store(
    store: Store, world: World, folder: Path
) -> None:
    write(folder, {"own.py": GOOD})
    own = import_module("own")
    assert store.register_ptk(own.train_dp, own.evaluate, "1d", **PLACE, **FACTS) == "taxi.trips"
    (spec,) = world.service.ptks()
    params = spec.estimator["params"]
    assert (params["code"], params["eval"], spec.every) == ("own:train_dp", "own:evaluate", 1)
    assert (spec.assurance, spec.loss.epsilon) == (Assurance.ASSERTED, 0.1)
    assert code_of(world, spec) == {"own.py": GOOD.encode()}


@pytest.mark.long
@pytest.mark.usefixtures("sandbox")
def test_functions_that_fail_a_check_are_refused_with_the_check(world: World, folder: Path) -> None:
    write(folder, {"own.py": GOOD.replace("laplace(counts, l1_sensitivity=1, epsilon=epsilon)", "counts")})
    own = import_module("own")
    with pytest.raises(PtkRejected, match="no noise is drawn"):
        Store(world.service).register_ptk(own.train_dp, own.evaluate, **PLACE, **FACTS)
    assert world.service.ptks() == ()


def test_a_stream_of_the_library_alone_refuses_functions_and_gets_no_code(
    store: Store, world: World, folder: Path
) -> None:
    world.service.__dict__["sandbox"] = Inspector()
    world.stream("strict")
    write(folder, {"own.py": GOOD})
    own = import_module("own")
    with pytest.raises(PtkRejected, match=r"'asserted' is below .* 'library': team code needs a stream"):
        store.register_ptk(own.train_dp, own.evaluate, **{**PLACE, "stream": "strict"}, **FACTS)
    assert not list(world.service.bundles.claimed("taxi"))
    with pytest.raises(UnknownName, match="nowhere"):
        store.register_ptk(own.train_dp, own.evaluate, **{**PLACE, "stream": "nowhere"}, **FACTS)


def test_what_is_said_of_functions_reaches_them(store: Store, world: World, folder: Path) -> None:
    world.service.__dict__["sandbox"] = Inspector()
    write(folder, {"own.py": GOOD})
    own = import_module("own")
    declared = TeamFunctions(train_dp=own.train_dp, config={"bins": 3}, **FACTS)
    store.register_ptk(declared, **{**PLACE, "name": "declared"})
    for _ in range(2):  # repeating it changes nothing
        store.register_ptk(own.train_dp, arguments={"bins": 3}, **PLACE, **FACTS)
    one, other = (spec.estimator["params"] for spec in world.service.ptks())
    assert one == other
    assert (one["arguments"], one["eval"], one["columns"]) == ({"bins": 3}, None, ["hour"])


def test_an_estimator_of_a_teams_own_travels_too(store: Store, world: World, folder: Path) -> None:
    world.service.__dict__["sandbox"] = Inspector()
    write(
        folder,
        {"fast.py": "from ptklib import HistoricalStatistics\n\nclass Fast(HistoricalStatistics): ...\n"},
    )
    fast = import_module("fast").Fast(
        keys=["hour"], values=["speed"], domains={"hour": [0, 1]}, bounds={"speed": (0.0, 60.0)}, epsilon=0.2
    )
    store.register_ptk(fast, **PLACE)
    (spec,) = world.service.ptks()
    assert (spec.estimator["params"]["code"], set(code_of(world, spec))) == ("fast:Fast", {"fast.py"})


# which modules travel


def test_the_modules_that_are_imported_of_the_same_folder_travel_and_nothing_else(folder: Path) -> None:
    write(
        folder,
        {
            "features/__init__.py": "from features import constants\n",
            "features/constants.py": "HOURS = 24\n",
            "features/train.py": (
                "import json\nimport os.path\nfrom typing import TYPE_CHECKING\n\nimport numpy as np\n\n"
                "import beside\nfrom ptklib.mechanisms import laplace\nfrom . import steps\n"
                "from .deep.er import deepest\n\n"
                "if TYPE_CHECKING:\n    from features import only_types\nelse:\n    only_types = None\n\n"
                "def train_dp(rows, epsilon, state, config):\n    import late\n    return {}\n"
            ),
            "features/steps.py": "from features.circle import back\n",
            "features/circle.py": "from . import steps as back\n",
            "features/deep/er/__init__.py": "from ...constants import HOURS\nfrom .est import deepest\n",
            "features/deep/er/est.py": "deepest = 1\n",
            "features/only_types.py": "",
            "features/unused.py": "raise SystemExit('nobody runs this')\n",
            "features/.env": "PASSWORD=hunter2\n",
            "features/rows.csv": "1\n",
            "beside.py": "",
            "late.py": "raise SystemExit('reading is no running')\n",
            "secrets.py": "hidden by the standard library\n",
            "unused.py": "",
            "team.toml": 'team = "taxi"\n',
            "tests/__init__.py": "",
        },
    )
    source = source_of_imported([import_module("features.train").train_dp])
    assert set(source.files) == {
        "features/__init__.py",
        "features/constants.py",
        "features/train.py",
        "features/steps.py",
        "features/circle.py",
        "features/deep/er/__init__.py",
        "features/deep/er/est.py",
        "beside.py",
        "late.py",
    }
    assert source.folder == folder
    assert set(unpack(source.bundle(["features.train:train_dp"]))) == set(source.files)


def test_what_is_installed_stays_also_where_a_copy_lies_beside_the_code(folder: Path, tmp_path: Path) -> None:
    write(
        folder,
        {
            "own.py": "import json, numpy, ptklib, ptkstore\n\ndef train_dp(): ...\n",
            "ptklib/__init__.py": "",
            "ptkstore/__init__.py": "",
            "numpy/__init__.py": "",
            "json.py": "",
        },
    )
    source = source_of_imported([import_module("own").train_dp])
    assert set(source.files) == {"own.py"}


def test_a_module_named_as_a_repositorys_declarations_travels_where_it_is_imported(folder: Path) -> None:
    write(folder, {"own.py": "import ptks\n\ndef train_dp(): ...\n", "ptks.py": ""})
    source = source_of_imported([import_module("own").train_dp])
    assert set(unpack(source.bundle(["own:train_dp"]))) == {"own.py", "ptks.py"}


# what cannot travel


def _outer() -> Any:
    def inner() -> None: ...

    return inner


class _Holder:
    def method(self) -> None: ...


@pytest.mark.long
@pytest.mark.parametrize(
    ("thing", "told"),
    [
        (
            lambda: None,
            "is a lambda, which cannot travel: define it by def on the outermost level of a module",
        ),
        (_outer(), "inner is defined inside a function, which cannot travel: define it by def"),
        (_Holder.method, "_Holder.method is part of a class"),
        (_Holder().method, "a method is no function that can be imported by name: define it by def"),
        (functools.partial(print), "a partial is no function that can be imported by name: define it by def"),
        (len, "a builtin_function_or_method is no function that can be imported"),
        (functools.wraps, "functools is an installed distribution; only team code is sent along"),
        (pytest.importorskip, "is an installed distribution; only team code is sent along"),
    ],
    ids=["lambda", "closure", "method", "bound", "partial", "builtin", "stdlib", "installed"],
)
def test_a_function_that_cannot_be_imported_is_refused_with_what_to_do(
    store: Store, world: World, thing: Any, told: str
) -> None:
    with pytest.raises(InvalidRequest, match=told):
        store.register_ptk(thing, **PLACE, **FACTS)
    assert world.service.ptks() == ()


def test_a_function_of_a_script_is_refused_with_what_to_do(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from ptkstore.sdk.repository.imported_code import source_of_imported\n\ndef train_dp(): ...\n\n"
        "source_of_imported([train_dp])\n"
    )
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert "Move it to a file such as own_code.py, and write from own_code import train_dp" in ended.stderr


def test_a_function_that_was_replaced_since_is_refused(folder: Path) -> None:
    write(folder, {"own.py": "def train_dp(): ...\n"})
    own = import_module("own")
    before = own.train_dp
    own.train_dp = None  # type: ignore[attr-defined]
    with pytest.raises(InvalidRequest, match=r"own\.train_dp is something else by now"):
        source_of_imported([before])


def test_links_and_other_folders_are_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    write(elsewhere, {"other.py": "def evaluate(): ...\n", "secret.txt": "x = 1\n"})
    write(folder, {"own.py": "import linked\n\ndef train_dp(): ...\n"})
    (folder / "linked.py").symlink_to(elsewhere / "secret.txt")
    monkeypatch.syspath_prepend(str(elsewhere))
    train_dp, evaluate = import_module("own").train_dp, import_module("other").evaluate
    with pytest.raises(InvalidRequest, match=r"linked\.py is a link"):
        source_of_imported([train_dp])
    with pytest.raises(InvalidRequest, match="two folders"):
        source_of_imported([train_dp, evaluate])


def test_code_that_is_no_python_is_named(folder: Path) -> None:
    write(folder, {"own.py": "def train_dp():\n    import broken\n", "broken.py": "print 'old'\n"})
    with pytest.raises(InvalidRequest, match=r"broken\.py cannot be read as Python"):
        source_of_imported([import_module("own").train_dp])


def test_facts_that_are_wrong_are_refused_in_words(store: Store, world: World, folder: Path) -> None:
    for change, told in [
        ({"columns": None, "tables": None}, "columns and tables must be said of it: columns="),
        (
            {"colums": ["hour"]},
            "nothing is known of 'colums'; of a function are said: columns, tables, epsilon, delta, ",
        ),
        ({"tables": {"hours": {"keys": ["hour"]}}}, "a table needs keys and columns, 'columns' is missing"),
        ({"epsilon": -1.0}, "epsilon"),
    ]:
        with case(str((change, told))):
            write(folder, {"own.py": GOOD})
            facts = {name: value for name, value in {**FACTS, **change}.items() if value is not None}
            with pytest.raises(InvalidRequest, match=told):
                store.register_ptk(import_module("own").train_dp, **PLACE, **facts)
            assert world.service.ptks() == ()


def test_what_an_estimator_says_itself_is_not_said_twice(store: Store, folder: Path) -> None:
    write(folder, {"own.py": GOOD})
    own = import_module("own")
    declared = TeamFunctions(train_dp=own.train_dp, **FACTS)
    with pytest.raises(
        InvalidRequest, match="eval, epsilon are said of a function; a TeamFunctions says them"
    ):
        store.register_ptk(declared, own.evaluate, epsilon=0.2, **PLACE)
    with pytest.raises(InvalidRequest, match="str is no ptklib estimator, and no function"):
        store.register_ptk("speed", **PLACE)


@pytest.mark.parametrize("roles", [(Role.CONSUMER,)], ids=["consumer"])
def test_a_token_that_registers_nothing_sends_no_code(
    api: Api, world: World, roles: tuple[Role, ...], folder: Path
) -> None:
    write(folder, {"own.py": GOOD})
    with connect(api.url, token=api.token(*roles)) as store, pytest.raises(NotAllowed):
        store.register_ptk(import_module("own").train_dp, **PLACE, **FACTS)
    assert not list(world.service.bundles.claimed("taxi"))


# losses of rows


def test_losses_of_rows_travel_beside_the_training(store: Store, world: World, folder: Path) -> None:
    world.service.__dict__["sandbox"] = Inspector()
    write(
        folder,
        {"own.py": GOOD, "losses.py": "import units\n\ndef row_losses(state, rows): ...\n", "units.py": ""},
    )
    own, losses = import_module("own"), import_module("losses")
    declared = TeamFunctions(train_dp=own.train_dp, row_losses=losses.row_losses, loss_max=4, **FACTS)
    store.register_ptk(
        declared, **{**PLACE, "name": "declared"}, config={"accept": {"metric": "loss", "epsilon": 0.1}}
    )
    store.register_ptk(own.train_dp, row_losses=losses.row_losses, loss_max=4, **PLACE, **FACTS)
    one, other = world.service.ptks()
    assert one.estimator == other.estimator
    params = one.estimator["params"]
    assert (params["row_losses"], params["loss_max"]) == ("losses:row_losses", 4)
    assert set(code_of(world, one)) == {"own.py", "losses.py", "units.py"}


def test_a_class_that_says_losses_is_described_with_them(store: Store, world: World, folder: Path) -> None:
    world.service.__dict__["sandbox"] = Inspector()
    text = (
        "from ptklib import HistoricalStatistics\n\nclass Sure(HistoricalStatistics):\n    loss_max = 2.5\n"
    )
    write(folder, {"sure.py": text + "    def row_losses(self, state, rows): ...\n"})
    keys = {
        "keys": ["hour"],
        "values": ["speed"],
        "domains": {"hour": [0, 1]},
        "bounds": {"speed": (0.0, 60.0)},
    }
    store.register_ptk(import_module("sure").Sure(**keys, epsilon=0.2), **PLACE)
    (spec,) = world.service.ptks()
    params = spec.estimator["params"]
    assert (params["code"], params["row_losses"], params["loss_max"]) == ("sure:Sure", "sure:Sure", 2.5)


def test_a_subclass_of_gradient_descent_says_no_losses_by_itself(
    store: Store, world: World, folder: Path
) -> None:
    """Its library's losses of rows are no ``row_losses(state, rows)``, and were taken for that once."""
    world.service.__dict__["sandbox"] = Inspector()
    world.stream(name="noisy", minimum_assurance=Assurance.ASSERTED, capacity_delta=1e-5)
    text = "from ptklib import {0}\n\nclass {1}({0}):\n    pass\n"
    write(folder, {"sorts.py": text.format("DPSGDClassifier", "Sorts")})
    write(folder, {"guesses.py": text.format("DPSGDRegressor", "Guesses")})
    common = {"bounds": {"speed": (0.0, 60.0)}, "epsilon": 0.2, "delta": 1e-9, "label": "hour"}
    one = import_module("sorts").Sorts(classes=[0, 1], **common)
    other = import_module("guesses").Guesses(label_bounds=(0.0, 23.0), **common)
    for name, estimator in (("sorts", one), ("guesses", other)):
        store.register_ptk(estimator, **{**PLACE, "name": name, "stream": "noisy"})
    specs = world.service.ptks()
    assert len(specs) == 2
    for spec in specs:
        assert "row_losses" not in spec.estimator["params"]


def test_a_test_of_functions_without_losses_is_refused_and_nothing_changes(
    store: Store, world: World, folder: Path
) -> None:
    world.service.__dict__["sandbox"] = Inspector()
    write(folder, {"own.py": GOOD})
    own = import_module("own")
    for config in ({"accept": {"metric": "loss", "epsilon": 0.1}}, {"epsilons": [0.05, 0.1]}):
        with pytest.raises(InvalidRequest, match=r"no row_losses\(state, rows\)"):
            store.register_ptk(own.train_dp, **PLACE, **FACTS, config=config)
    assert world.service.ptks() == ()
    with pytest.raises(InvalidRequest, match="there are none"):
        store.register_ptk(own.train_dp, loss_max=2.0, **PLACE, **FACTS)
    with pytest.raises(InvalidRequest, match="a lambda"):
        store.register_ptk(own.train_dp, row_losses=lambda state, rows: [], **PLACE, **FACTS)
