"""Lookups straight from packed rows: what Feast would answer, without Feast's work, in one command."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, cast

from feast import FeatureView
from feast.value_type import ValueType

from ptkstore.adapters.feast.backends import FOREIGN, exchange, foreign_rows
from ptkstore.adapters.feast.names import STATE_VIEW, asked_as
from ptkstore.adapters.feast.packed import writing
from ptkstore.adapters.feast.packed.keys import ENCODERS, STATUS_FIELD, fields_of
from ptkstore.adapters.feast.packed.layout import HEAD, Layout
from ptkstore.adapters.feast.packed.messages import PLAIN_KINDS, python_values
from ptkstore.adapters.feast.packed.store import PackedRedisOnlineStore
from ptkstore.adapters.feast.packed.version_status import FORGOTTEN, SERVED, identity_of
from ptkstore.adapters.feast.tags import PTK_SHA256_TAG, assured_by_tags
from ptkstore.domain.accounting.assurances import Assured
from ptkstore.ports.features import Answers

_REQUESTS_MAX = 1_024


class Reader:
    """From packed rows of one layout to the features asked for."""

    def __init__(self, features: tuple[str, ...], layout: Layout) -> None:
        self._features = features
        self._layout = layout
        self._places = [layout.position.get(feature) for feature in features]
        self._pick: Callable[[Any], tuple[Any, ...]] | None = None
        if len(features) > 1 and all(p is not None and layout.kinds[p] in PLAIN_KINDS for p in self._places):
            self._pick = itemgetter(*self._places)

    def read(self, rows: Sequence[bytes]) -> list[dict[str, Any]]:
        """Return one mapping per row."""
        features, pick = self._features, self._pick
        unpacked = self._layout.unpack_many(rows)
        if pick is None:
            return [self._converted(values) for _, values in unpacked]
        return [dict(zip(features, pick(values), strict=False)) for _, values in unpacked]

    def read_one(self, row: bytes) -> dict[str, Any]:
        """Return the mapping of one row."""
        _, values = self._layout.unpack(row)
        if self._pick is None:
            return self._converted(values)
        return dict(zip(self._features, self._pick(values), strict=False))

    def _converted(self, values: Sequence[Any]) -> dict[str, Any]:
        answer = {}
        for feature, place in zip(self._features, self._places, strict=True):
            cell = None if place is None else values[place]
            if cell is not None and place is not None:
                (cell,) = python_values(self._layout.kinds[place], [cell], ValueType.UNKNOWN)
            answer[feature] = cell
        return answer


@dataclass(frozen=True, slots=True)
class Part:
    """One view of a request, as the registry resolved it."""

    hash_key: bytes
    newest: bool
    identity: bytes
    keys: tuple[str, ...]
    key_types: tuple[str, ...]
    features: tuple[str, ...]
    view: str
    assured: Assured | None
    readers: dict[bytes, Reader] = field(default_factory=dict)

    def is_current(self, status: bytes | None) -> bool:
        """Tell whether the rows are still those of the view that was asked for."""
        if not status or status[1:] != self.identity:
            return False
        return status[:1] == SERVED if self.newest else status[:1] != FORGOTTEN


def part_of(hash_key: bytes, view: FeatureView, features: Sequence[str], *, newest: bool) -> Part | None:
    """Resolve a view of a request; None if its keys have types that only Feast converts."""
    types = {column.name: column.dtype.to_value_type().name for column in view.entity_columns}
    if not types or any(name not in ENCODERS for name in types.values()):
        return None
    return Part(
        hash_key=hash_key,
        newest=newest,
        identity=identity_of((view.tags or {}).get(PTK_SHA256_TAG, "")),
        keys=tuple(sorted(types)),
        key_types=tuple(types[key] for key in sorted(types)),
        features=tuple(features),
        view=asked_as(view.name, None if newest else view.current_version_number),
        assured=None if view.name == STATE_VIEW else assured_by_tags(view.tags),
    )


class DirectReads:
    """Caches how the registry resolved a request, until a version's status says that it is outdated."""

    def __init__(self) -> None:
        self._requests: dict[tuple[str, ...], tuple[Part, ...]] = {}

    def look_up(
        self,
        online: PackedRedisOnlineStore,
        config: Any,
        features: Sequence[str],
        entities: Sequence[Mapping[str, Any]],
        resolve: Callable[[], tuple[Part, ...] | None],
    ) -> Answers | None:
        """Return one mapping per entity; None if the usual way has to answer.

        Parameters
        ----------
        online, config : PackedRedisOnlineStore, RepoConfig
            The store of the rows, and Feast's configuration.
        features, entities
            The request.
        resolve : callable
            Reads the registry, and raises if it has no such view or feature.
        """
        if not entities or not isinstance(features, list | tuple):
            return None
        client = online._get_client(config.online_store)
        request = tuple(features)
        cached = self._requests.get(request)
        if cached is not None:
            answer = _answer(online, client, cached, entities)
            if answer is not None:
                return answer
            self._requests.pop(request, None)
        parts = resolve()
        if parts is None:
            return None
        answer = _answer(online, client, parts, entities)
        if answer is not None:
            if len(self._requests) >= _REQUESTS_MAX:
                self._requests.clear()
            self._requests[request] = parts
        return answer


def _answer(
    online: PackedRedisOnlineStore,
    client: Any,
    parts: tuple[Part, ...],
    entities: Sequence[Mapping[str, Any]],
) -> Answers | None:
    answers: list[dict[str, Any]] = []
    for part in parts:
        try:
            columns = [[entity[key] for entity in entities] for key in part.keys]
        except KeyError:
            return None
        fields = fields_of(columns, part.key_types)
        if fields is None:
            return None
        reply = exchange(client, ("HMGET", part.hash_key, STATUS_FIELD, *fields))
        try:
            status, *rows = reply
            if not part.is_current(status):
                return None
            answers = _joined(answers, _named(part, rows, online, client))
        except FOREIGN:
            raise foreign_rows() from None
    return Answers(answers, {part.view: part.assured for part in parts if part.assured is not None})


def _named(
    part: Part, rows: Sequence[bytes | None], online: PackedRedisOnlineStore, client: Any
) -> list[dict[str, Any]]:
    if len(rows) == 1 and rows[0] is not None and (reader := part.readers.get(rows[0][:HEAD])) is not None:
        return [reader.read_one(rows[0])]
    heads = {row[:HEAD] for row in rows if row is not None}
    for head in heads - part.readers.keys():
        online.run(client, writing.learn(part.hash_key, [head], online.layouts))
        part.readers[head] = Reader(part.features, online.layouts.of(head))
    if len(heads) == 1 and None not in rows:
        return part.readers[heads.pop()].read(cast("Sequence[bytes]", rows))
    return [
        dict.fromkeys(part.features) if row is None else part.readers[row[:HEAD]].read_one(row)
        for row in rows
    ]


def _joined(answers: list[dict[str, Any]], more: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if not answers:
        return more
    return [{**one, **other} for one, other in zip(answers, more, strict=True)]
