"""What importing a room really loads.

Import rules read the source; this looks at ``sys.modules`` afterwards and sees what a vendor drags in, too.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest

from tests.architecture.source import REPOSITORY, modules

pytestmark = pytest.mark.long

IMPORT_NAMES = {
    "scikit_learn": "sklearn",
    "opentelemetry_sdk": "opentelemetry",
    "opentelemetry_exporter_otlp_proto_http": "opentelemetry",
}  # where it is not the distribution's name
# attrs is pinned for dp-accounting, and others load it; pytest is for the extra `checks`; ptklib is ours.
NOT_OURS_TO_LOAD = {"attrs", "pytest", "ptklib"}

ARRAYS = {"numpy"}
TABLES = ARRAYS | {"pyarrow"}
FRAMES = TABLES | {"pandas"}
NOISE = {"cryptography"}  # the stream that exact noise is drawn from
ESTIMATORS = FRAMES | NOISE | {"scipy", "sklearn", "threadpoolctl"}
HTTP = {"httpx", "rich"}  # httpx has a command line of its own and loads rich for it
SETTINGS = {"pydantic", "pydantic_settings"}
# Feast drags its servers in; only what its room imports on first use may load it.
FEAST = FRAMES | {
    "cryptography",
    "fastapi",
    "feast",
    "hiredis",  # the client of Redis loads it
    "jinja2",
    "opentelemetry",
    "orjson",
    "prometheus_client",
    "pydantic",
    "redis",
    "sniffio",
    "sqlalchemy",
    "uvicorn",
}

ADAPTERS: dict[str, set[str]] = {
    "ptkstore.adapters.devices": ARRAYS | {"hiredis"},
    "ptkstore.adapters.feast": TABLES,
    "ptkstore.adapters.keys": ARRAYS | {"cryptography"},
    "ptkstore.adapters.objects": TABLES | {"fsspec"},
    "ptkstore.adapters.sandbox": TABLES,
    "ptkstore.adapters.sql": TABLES | {"orjson", "sqlalchemy"},
    "ptkstore.adapters.tracing": {"opentelemetry"},
    "ptkstore.adapters.webhooks": HTTP | {"sniffio", "ssrfguard", "standardwebhooks"},
}
# The extra `service` installs nothing for spans: only who asks for them loads that room.
WIRED = TABLES | SETTINGS
WIRED |= set().union(*(vendors for room, vendors in ADAPTERS.items() if not room.endswith(".tracing")))
SERVER = {"fastapi", "opentelemetry", "orjson"}  # FastAPI loads the others where they are installed


def vendors() -> set[str]:
    """Return the import names of everything that the two distributions declare as a dependency."""
    projects = [
        tomllib.loads((REPOSITORY / place / "pyproject.toml").read_text())["project"]
        for place in (".", "ptklib")
    ]
    declared = chain.from_iterable(
        chain(project["dependencies"], *project["optional-dependencies"].values()) for project in projects
    )
    names = {re.split(r"[\[<>=~! ]", line)[0].replace("-", "_").lower() for line in declared}
    return {IMPORT_NAMES.get(name, name) for name in names - NOT_OURS_TO_LOAD}


# What importing the modules of a room may load; a module in it may have a line of its own. Who is not listed
# may load no vendor. Feast, OpenDP and dp-accounting take seconds to import: they come when first needed.
MAY_LOAD: dict[str, set[str]] = {
    "ptklib.accounting": ARRAYS,
    "ptklib.adaptive": ESTIMATORS | {"rich"},
    "ptklib.applied": ESTIMATORS,
    "ptklib.arrays": ARRAYS,
    "ptklib.arrow_types": TABLES,
    "ptklib.base": ESTIMATORS,
    "ptklib.bounding": FRAMES | NOISE,
    "ptklib.checks": ESTIMATORS | {"rich"},
    "ptklib.clustering": ESTIMATORS | {"rich"},  # scikit-learn's k-means loads a progress bar
    "ptklib.columns": FRAMES | {"scipy"},  # scipy.sparse, to refuse its matrices
    "ptklib.counts": ESTIMATORS,
    "ptklib.covariance": ESTIMATORS,
    "ptklib.declared": FRAMES,
    "ptklib.displays": ARRAYS,
    "ptklib.domains": FRAMES,
    "ptklib.draw_discard": ARRAYS | NOISE,
    "ptklib.draw_discard.model": ESTIMATORS,
    "ptklib.embeddings": ESTIMATORS,
    "ptklib.events": ARRAYS,
    "ptklib.gram": FRAMES | {"scipy"},
    "ptklib.hashing": FRAMES | {"scipy"},
    "ptklib.inputs": FRAMES | {"scipy"},
    "ptklib.keys": FRAMES,
    "ptklib.lake": TABLES,
    "ptklib.labelled": ESTIMATORS,
    "ptklib.linear": ESTIMATORS,
    "ptklib.mechanisms": ARRAYS | NOISE,
    "ptklib.moments": ESTIMATORS,
    "ptklib.partials": TABLES,
    "ptklib.plain": ARRAYS,
    "ptklib.privacy": ARRAYS,
    "ptklib.profiling": ESTIMATORS | {"rich"},
    "ptklib.ptk": TABLES,
    "ptklib.public_hash": ARRAYS,
    "ptklib.release": ARRAYS | NOISE,
    "ptklib.scalars": ARRAYS,
    "ptklib.sgd": ESTIMATORS,
    "ptklib.shrinkage": ARRAYS,
    "ptklib.significance": ARRAYS | NOISE,
    "ptklib.spec": TABLES,
    "ptklib.state": TABLES,
    "ptklib.statistics": ESTIMATORS,
    "ptklib.sums": ESTIMATORS,
    "ptklib.tables": FRAMES | {"scipy"},
    "ptklib.team": ESTIMATORS,
    "ptklib.trees": ESTIMATORS,
    "ptklib.unmatched": FRAMES | {"scipy"},
    "ptklib.warm_start": ESTIMATORS,
    "ptklib.validation": ESTIMATORS | {"rich"},
    "ptkstore.domain.allocation": ARRAYS,
    "ptkstore.domain.budgeting": ARRAYS,
    "ptkstore.domain.ledger.filters": ARRAYS,
    "ptkstore.domain.ledger.rules": ARRAYS,
    "ptkstore.domain.ledger.odometers": ARRAYS,
    "ptkstore.domain.scheduling": ARRAYS,
    "ptkstore.ports": TABLES,
    "ptkstore.application": TABLES,
    **ADAPTERS,
    "ptkstore.adapters.sandbox.inside.examining": ESTIMATORS
    | {"rich"},  # both are loaded inside the sandbox alone
    "ptkstore.adapters.sandbox.inside.examining_losses": ESTIMATORS | {"rich"},
    "ptkstore.adapters.sandbox.inside.loading": ESTIMATORS,
    "ptkstore.adapters.sandbox.child.team_profiles": ESTIMATORS | {"rich"},  # imported for team code alone
    "ptkstore.adapters.sql.migrating": TABLES | {"alembic", "orjson", "sqlalchemy"},  # only for an upgrade
    "ptkstore.adapters.sql.migrations": ARRAYS | {"alembic", "orjson", "sqlalchemy"},
    "ptkstore.adapters.feast.backends": FEAST,
    "ptkstore.adapters.feast.packed": FEAST,  # a plugin that Feast loads
    "ptkstore.adapters.feast.publishing.backfill": FEAST,  # is imported where views are completed
    "ptkstore.adapters.feast.publishing.text_transformation": FEAST,  # what subclasses Feast's
    "ptkstore.settings": SETTINGS,
    "ptkstore.wire": {"pydantic"},
    "ptkstore.wiring": TABLES | SETTINGS,  # adapters come when they are made
    "ptkstore.sdk": TABLES,
    "ptkstore.sdk.featurizer": ESTIMATORS,  # what subclasses scikit-learn's
    "ptkstore.sdk.remote": TABLES | HTTP | {"pydantic"},
    "ptkstore.console": WIRED | SERVER | {"jinja2"},
    "ptkstore.serving": WIRED | SERVER | {"httptools", "jinja2", "prometheus_client", "uvicorn"},
    "ptkstore.api": WIRED | SERVER | {"httptools", "prometheus_client", "uvicorn"},
    "ptkstore.cli": TABLES | SETTINGS | {"rich", "typer"},
    # `ptk --help` loads these alone
    "ptkstore.cli.commands": set(),
    "ptkstore.cli.lazily": {"typer"},
    "ptkstore.cli.main": {"typer"},
    "ptkstore.sdk.reports": TABLES | {"matplotlib"},
    "ptkstore.cli.streams.row_charts": ARRAYS | {"matplotlib"},
    "ptkstore.cli.demo": ESTIMATORS | WIRED | {"matplotlib", "typer"},  # drives the whole product
    "workers": WIRED | {"celery", "redis"},
}


def groups() -> dict[str, list[str]]:
    """Return the importable modules under each line of the table, or else of each room."""
    found: dict[str, list[str]] = {}
    for module in modules():
        lines = [line for line in MAY_LOAD if f"{module.name}.".startswith(f"{line}.")]
        if not module.name.endswith(".__main__"):
            found.setdefault(max(lines, key=len, default=module.room), []).append(module.name)
    return found


def loaded_by(names: list[str], cwd: Path = REPOSITORY) -> set[str]:
    """Return the vendors in ``sys.modules`` of a new interpreter that imported modules of these names."""
    code = "import importlib, json, sys\nfor name in sys.argv[1:]: importlib.import_module(name)\n"
    code += "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    result = subprocess.run(
        [sys.executable, "-c", code, *names],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return set(json.loads(result.stdout)) & vendors()


def of_equal_rights() -> list[list[str]]:
    """Rooms that may load the same: together they load no other vendor if none of them does alone."""
    found: dict[frozenset[str], list[str]] = {}
    for room in sorted(groups()):
        found.setdefault(frozenset(MAY_LOAD.get(room, ())), []).append(room)
    return list(found.values())


@pytest.mark.parametrize(
    "rooms", of_equal_rights(), ids=lambda rooms: f"{rooms[0]} and {len(rooms) - 1} more"
)
def test_a_room_loads_only_its_vendors(rooms: list[str]):
    names, allowed = groups(), MAY_LOAD.get(rooms[0], set())
    if loaded_by([name for room in rooms for name in names[room]]) - allowed:
        told = {room: sorted(loaded_by(names[room]) - allowed) for room in rooms}
        assert {room: more for room, more in told.items() if more} == {}


@pytest.mark.parametrize("package", ["ptklib", "ptkstore", "ptkstore.errors", "ptkstore.domain"])
def test_importing_a_package_alone_loads_no_vendor(package: str):
    assert loaded_by([package]) == set()


def test_the_table_names_rooms_and_vendors_that_exist():
    assert sorted(set(MAY_LOAD) - set(groups())) == []
    assert sorted(set().union(*MAY_LOAD.values()) - vendors()) == []


def test_a_vendor_that_a_vendor_drags_in_is_seen(tmp_path: Path):
    (tmp_path / "room.py").write_text("import sklearn.base\n")

    assert {"sklearn", "scipy", "numpy"} <= loaded_by(["room"], cwd=tmp_path)
