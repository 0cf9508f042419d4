"""Look a value up by its keys, beside its version and its guarantee."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ptklib.row_noise import noise_of_row
from ptkstore.application.identity.authorize import Named
from ptkstore.console.pages.reads import Reads
from ptkstore.console.pages.shown import compact, formed
from ptkstore.console.pages.states import TEXT_MOST
from ptkstore.domain.identity import Action, Principal
from ptkstore.domain.near_names import near_names
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.ptks.views import columns_of, views_of
from ptkstore.domain.versions.provenance import is_local, provenance_in
from ptkstore.domain.versions.state_windows import spans_in, spans_in_words
from ptkstore.errors import InvalidRequest, UnknownName

VALUE_MOST = 200
TABLES_SHOWN = 200
_KINDS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("int64", "int32", "int16", "int8"), int),
    **dict.fromkeys(("double", "float64", "float"), float),
}
_TRUTH = {"true": True, "false": False}


class LookUp(Reads):
    """One lookup; what was typed is in no address, and so in no history and no log."""

    def lookups(self, who: Principal, asked: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Show the feature views in which the reader may look values up, and of them those whose name has a text."""
        readable = self._identity.streams_for(who, Action.FEATURE_LOOK_UP)
        text = next(iter(asked.get("q", ())), "").strip()[:TEXT_MOST]
        views = [
            {
                "name": view,
                "ptk_id": spec.ptk_id,
                "keys": list(spec.tables[table]["keys"]),
                "features": columns_of(spec, table),
                "description": spec.description,
            }
            for spec in self._ptks(who)
            if spec.stream in readable
            for view, table in views_of(spec).items()
        ]
        needle = text.lower().replace(".", "__")
        found = [one for one in views if needle in one["name"]]
        named = {name: one for one in views for name in (one["name"], one["ptk_id"].partition(".")[2])}
        near = near_names(needle, named) if needle and not found and self._seeks() else []
        return {
            "may": bool(readable),
            "views": found[:TABLES_SHOWN],
            "n_found": len(found),
            "n_views": len(views),
            "text": text,
            "near": list({named[name]["name"]: named[name] for name in near}.values()),
        }

    def lookup(self, who: Principal, ptk_id: str, form: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Show the form of a PTK's keys, and with a form that was sent the answer."""
        self._identity.permit(who, Action.FEATURE_LOOK_UP, Named(ptk_id=formed("PTK", ptk_id)))
        spec, said = self._service.ptk(ptk_id), form or {}
        views = views_of(spec)
        view = said.get("view", "") if said.get("view") in views else next(iter(views), "")
        keys = [] if not view else list(spec.tables[views[view]]["keys"])
        typed = {key: said.get(f"key_{number}", "")[:VALUE_MOST] for number, key in enumerate(keys)}
        shown: dict[str, Any] = {
            "ptk_id": ptk_id,
            "views": list(views),
            "view": view,
            "typed": typed,
            "answer": None,
            "version": None,
            "problem": "",
            "assured_text": "",
            "made": "",
            "noise": {},
        }
        if form is None or not view:
            return shown
        try:
            return {**shown, **self._answer(spec, view, typed)}
        except UnknownName:
            raise
        except InvalidRequest as error:
            return {**shown, "problem": str(error)}

    def _answer(self, spec: PtkSpec, view: str, typed: Mapping[str, str]) -> dict[str, Any]:
        table = views_of(spec)[view]
        kinds = dict(spec.tables[table]["columns"])
        entity = {key: _value(key, text, str(kinds.get(key, ""))) for key, text in typed.items()}
        names = columns_of(spec, table)
        number, before = self._online(spec), -1
        while number != before:  # a version that was switched to meanwhile
            before = number
            answers = self._service.look_up([f"{view}:{name}" for name in names], [entity])
            number = self._online(spec)
        found = dict(zip(names, (_of(answers[0], view, name) for name in names), strict=True))
        assured = answers.assured.get(view)
        content = self._service.version(spec.ptk_id, number).content if number else None
        told = {} if content is None else content["state"].get("noise_std", {}).get(table, {})
        return {
            "answer": {name: "" if value is None else compact(value) for name, value in found.items()},
            "version": number or None,
            "assured_text": "" if assured is None else assured.sentence(),
            "made": "" if content is None else self._made(spec, content),
            "noise": noise_of_row(found, told),
        }

    def _made(self, spec: PtkSpec, content: Mapping[str, Any]) -> str:
        """What the version lost, of whom, and which windows are in it."""
        guarantee, policy = content["guarantee"], self._service.stream(spec.stream).policy
        delta = f", delta {guarantee['delta']:g}" if guarantee["delta"] else ""
        of = "one report of a device" if is_local(content) else "one training"
        told = provenance_in(content, spec.ptk_id).sentence(spans_in_words(spans_in(content, policy)))
        return f"Epsilon of {of}: {guarantee['epsilon']:g}{delta}. {told}"

    def _online(self, spec: PtkSpec) -> int:
        return self._service.online_versions([spec.ptk_id]).get(spec.ptk_id, 0)


def _of(row: Mapping[str, Any], view: str, name: str) -> Any:
    """The value of a feature, under whichever of its names the answer has it."""
    return next((row[key] for key in (name, f"{view}__{name}", f"{view}:{name}") if key in row), None)


def _value(key: str, text: str, kind: str) -> Any:
    """The value of a key as its column has it; the message repeats nothing that was typed."""
    try:
        if kind == "bool":
            return _TRUTH[text.strip().lower()]
        return _KINDS.get(kind, str)(text)
    except (ValueError, KeyError):
        raise InvalidRequest(f"{key} is of type {kind}") from None
