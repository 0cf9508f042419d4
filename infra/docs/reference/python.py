"""The pages of public Python names: mkdocstrings writes each name's section from its docstring."""

from __future__ import annotations

import ptklib
import ptkstore
from infra.docs.reference.marks import MADE

READ = "Each section is made from the docstring, when the site is built: `make docs`."
KINDS = {
    "Models": (
        "CountFeaturizer", "HistoricalStatistics", "TreeFeaturizer", "Clustering", "CovarianceMatrix",
        "AdaSSPRegressor", "DPSGDClassifier", "DPSGDRegressor", "DrawDiscardModel", "UserEmbeddings",
    ),
    "Privacy": ("PrivacyLoss", "PrivacyUnit", "Bounds", "Relation"),
    "States": ("ReleasedState", "TableSchema", "load_state"),
    "Planning": ("error_forecast", "Profiler", "Profile"),
}  # fmt: skip


def library() -> str:
    """Return the page of `ptklib`."""
    named = {name for names in KINDS.values() for name in names}
    kinds = KINDS | {"More": tuple(sorted(set(ptklib.__all__) - named))}
    sections = [f"## {kind}\n\n" + "\n".join(map(_section, names)) for kind, names in kinds.items()]
    head = f"# The library in Python\n\n`ptklib` exports these names. {READ}\n\n{MADE}\n"
    return "\n".join([head, *sections])


def client() -> str:
    """Return the page of `ptkstore`."""
    exported = "\n".join(f"::: {_home(ptkstore, name)}\n" for name in sorted(ptkstore.__all__))
    return f"# The service in Python\n\n`ptkstore` exports these names. {READ}\n\n{MADE}\n\n{exported}"


def _section(name: str) -> str:
    return f"::: {_home(ptklib, name)}\n"


def _home(package: object, name: str) -> str:
    """Return where a name is defined, as mkdocstrings looks it up."""
    found = getattr(package, name)
    return f"{found.__module__}.{getattr(found, '__qualname__', name)}"
