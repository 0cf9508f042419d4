"""Which names an unknown name may have been meant to be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from itertools import islice

from ptkstore.domain.ptks import PtkSpec
from ptkstore.errors import PtkStoreError, UnknownName

Names = Callable[[str], Iterable[str]]
"""The names that whoever asked may see, by the name that was asked for."""

_MOST = 2_000
"""Names that are compared with one that is unknown: comparing costs some microseconds each."""


def near(name: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """A question for the names that `name` may have been meant to be, or `otherwise`."""
    names = list(islice(known, _MOST))
    within = [one for one in names if one.endswith((f".{name}", f"__{name}"))]
    close = list(dict.fromkeys([*within, *get_close_matches(name, names, cutoff=0.75)]))
    return f"did you mean {' or '.join(map(repr, close[:3]))}?" if close else otherwise


def suggest(error: UnknownName, names: Mapping[str, Names]) -> None:
    """Say in an error that has no hint yet which names are near; `names` has them by the kind of thing.

    An error while names are read changes nothing: the first one is what the caller has to hear.
    """
    if error.hint or error.kind not in names:
        return
    try:
        error.hint = near(error.name, names[error.kind](error.name))
    except PtkStoreError:
        return


def views_of(specs: Iterable[PtkSpec]) -> list[str]:
    """The feature views of PTKs."""
    found = []
    for spec in specs:
        base = spec.ptk_id.replace(".", "__")
        found += [base] if len(spec.tables) == 1 else [f"{base}__{table}" for table in spec.tables]
    return found


def features_of(specs: Iterable[PtkSpec]) -> list[str]:
    """The features of PTKs, as `view:feature`."""
    found = []
    for spec in specs:
        for view, table in zip(views_of([spec]), spec.tables.values(), strict=True):
            found += [f"{view}:{name}" for name, _ in table["columns"] if name not in table["keys"]]
    return found
