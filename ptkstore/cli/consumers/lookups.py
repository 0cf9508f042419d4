"""The command that looks features up online: `ptk lookup`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ptklib.row_noise import OWN_NOISE, noise_of_row
from ptkstore.cli.output import AsJson, console, one_line, print_json, print_rows, reads, said, seen
from ptkstore.cli.tables import minute
from ptkstore.domain.names import split_ptk_id
from ptkstore.domain.near_names import near
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.ptks.serving import STATE_KEY
from ptkstore.domain.ptks.views import STATE_VIEW, base_view, columns_of, views_of
from ptkstore.domain.versions.provenance import is_local
from ptkstore.errors import Deregistered, InvalidRequest, UnknownName
from ptkstore.sdk import Store

if TYPE_CHECKING:
    from rich.console import Console

    from ptkstore.ports.features import Answers

VERSION = "ptk_version"
"""The feature of every view of a PTK that tells which version answered."""
_KEYS = {STATE_VIEW: (STATE_KEY,)}
"""The join keys of views that belong to no PTK."""


@reads
def lookup(
    store: Store,
    features: Annotated[str, typer.Argument(help="PTK, PTK:feature,... or view:feature,...")],
    keys: Annotated[list[str] | None, typer.Argument(help="Join keys as name=value, one at least.")] = None,
    as_json: AsJson = False,
) -> None:
    """Look features up online through Feast."""
    entity = dict(_key(key) for key in keys or ())
    chosen = _selection(features, store)
    if not entity:
        pairs = " ".join(f"{key}=VALUE" for key in chosen.keys or _KEYS.get(chosen.view, ("name",)))
        raise InvalidRequest(f"name the join keys: ptk lookup {features} {pairs}")
    asks_version = chosen.spec is not None and not as_json and VERSION not in chosen.names
    besides = [VERSION] if asks_version else []
    if asks_version and OWN_NOISE in chosen.columns and OWN_NOISE not in chosen.names:
        besides.append(OWN_NOISE)
    more = [f"{chosen.view}{chosen.version}:{name}" for name in besides]
    try:
        response = store.look_up([*chosen.references, *more], [entity])
    except InvalidRequest as error:
        raise _explained(store, chosen, entity, error) from None
    (answer,) = response
    if as_json:
        print_json(answer)
        _print_assurance(response, said)
        return
    row = dict(answer)
    for name in besides:
        del answer[name]
    number = row[VERSION] if asks_version else None  # null where the version has no such key
    made = None if number is None or chosen.spec is None else _manifest(store, chosen.spec.ptk_id, number)
    noise = (
        {} if made is None else noise_of_row(row, made["state"].get("noise_std", {}).get(chosen.table, {}))
    )
    rows = [
        {"feature": k, "value": v, **({"noise": noise.get(k)} if noise else {})} for k, v in answer.items()
    ]
    print_rows(rows, as_json=False, title="", nothing="no features")
    if made is not None:
        _print_version(made, noisy=bool(noise))
    _print_assurance(response, console)
    if silent := [name for name, value in answer.items() if value is None]:
        asked_by = " ".join(f"{name}={value}" for name, value in entity.items())
        said.print(
            one_line(
                f"no released value for {asked_by}: {', '.join(silent)}. Whether there are rows of it is not told"
            ),
            highlight=False,
            soft_wrap=True,
        )


def _manifest(store: Store, ptk_id: str, number: int) -> Mapping[str, Any] | None:
    """The manifest of the version that answered, if this token may read states."""
    return seen(lambda: store.service.version(ptk_id, number).content)


def _print_version(made: Mapping[str, Any], *, noisy: bool) -> None:
    """Say which version answered, when it was published and what it lost."""
    guarantee = made["guarantee"]
    delta = f", delta {guarantee['delta']:g}" if guarantee["delta"] else ""
    per_report = " of one report" if is_local(made) else ""
    console.print(
        one_line(
            f"version {made['version']}, published {minute(made['published_at'])} UTC: epsilon {guarantee['epsilon']:g}"
            f"{delta}{per_report}{'; noise is one standard deviation' if noisy else ''}"
        ),
        highlight=False,
        soft_wrap=True,
    )


def _print_assurance(response: Answers, where: Console) -> None:
    """Say whether guarantees are proven; where values alone are wanted, only of those that are not."""
    for view, one in response.assured.items():
        if one.by or where is console:
            where.print(f"{view}: {one.sentence()}", markup=False, soft_wrap=True)


@dataclass(frozen=True, slots=True)
class _Selection:
    """Features of one view; `spec` and `table` are known where it is the view of a PTK's table."""

    view: str
    version: str
    names: tuple[str, ...]
    spec: PtkSpec | None = None
    table: str = ""

    @property
    def references(self) -> list[str]:
        """As Feast writes them."""
        return [f"{self.view}{self.version}:{name}" for name in self.names]

    @property
    def keys(self) -> list[str]:
        """Return the keys that the table is looked up by."""
        return [] if self.spec is None else list(self.spec.tables[self.table]["keys"])

    @property
    def columns(self) -> tuple[str, ...]:
        """The features of the table."""
        return () if self.spec is None else columns_of(self.spec, self.table)


def _selection(text: str, store: Store) -> _Selection:
    """What `text` asks for.

    Raises
    ------
    UnknownName
        It begins with the name of no PTK, and of no view of one; `Deregistered` if there was one.
    InvalidRequest
        It leaves open which features are meant.
    """
    head, _, names = text.partition(":")
    name, at, version = head.partition("@")
    wanted = tuple(one.strip() for one in names.split(",") if one.strip())
    spec = None if name == STATE_VIEW else _ptk_of(name, store)
    if spec is not None and name in (spec.ptk_id, base_view(spec.ptk_id)):
        if len(spec.tables) > 1:
            raise InvalidRequest(
                f"{spec.ptk_id} has several tables; name a view: {', '.join(views_of(spec))}"
            )
        name = base_view(spec.ptk_id)
    if spec is not None and name in (views := views_of(spec)):
        chosen = _Selection(name, at + version, wanted, spec, views[name])
        return chosen if wanted else replace(chosen, names=chosen.columns)
    if not wanted:
        raise InvalidRequest(f"name the features, as {head}:feature,...")
    return _Selection(name, at + version, wanted)


def _ptk_of(name: str, store: Store) -> PtkSpec:
    """The PTK of this id, or of the view of this name, whether it has such a view or not."""
    ptk_id = ".".join(name.split("__")[:2])
    try:
        split_ptk_id(ptk_id)
        return store.service.ptk(ptk_id)
    except Deregistered:
        raise
    except InvalidRequest:  # there is none, or can be none
        ptks = store.service.ptks()
    views = (view for spec in ptks for view in views_of(spec))
    names = [STATE_VIEW, *views, *(one.ptk_id for one in ptks)]
    raise UnknownName("PTK or view", name, near(name, names, otherwise="see: ptk list"))


def _explained(
    store: Store, chosen: _Selection, entity: Mapping[str, Any], error: InvalidRequest
) -> InvalidRequest:
    """Return Feast's refusal in words of the PTK that was asked, or as it was if that is not known."""
    if chosen.spec is None:
        return error
    ptk_id, keys = chosen.spec.ptk_id, chosen.keys
    if isinstance(error, UnknownName) and error.kind == "feature":
        feature = error.name.rpartition(":")[2]
        has = f"{chosen.view} has {', '.join(chosen.columns)}"
        return UnknownName("feature", error.name, near(feature, chosen.columns, otherwise=has))
    if isinstance(error, UnknownName):
        numbers = [version.number for version in store.service.versions(ptk_id)]
        if not numbers:
            hint = f"the first comes once a window of {chosen.spec.stream} has closed and workers have trained on it"
            return UnknownName("published version of PTK", ptk_id, hint)
        if chosen.version:
            hint = f"the newest is v{numbers[-1]}, and only the last ones stay online: ptk versions {ptk_id}"
            return UnknownName("served version", f"{chosen.view}{chosen.version}", hint)
        return UnknownName(
            "feature view", chosen.view, "it comes once workers have placed the newest version"
        )
    if any(key not in entity for key in keys):
        others = ", ".join(name for name in entity if name not in keys)
        pairs = " ".join(f"{key}=VALUE" for key in keys)
        return InvalidRequest(f"{chosen.view} is looked up by {pairs}{others and f', not by {others}'}")
    return error


def _key(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidRequest(f"{text!r}: write join keys as name=value")
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return name, value
    return name, parsed if isinstance(parsed, int | str | bool) else value
