"""An online response that makes protobuf messages only for whoever asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from feast.online_response import TIMESTAMP_POSTFIX, OnlineResponse
from feast.protos.feast.serving.ServingService_pb2 import FieldStatus, GetOnlineFeaturesResponse
from feast.value_type import ValueType

from ptkstore.adapters.feast.packed.messages import message, python_values


@dataclass(slots=True)
class Column:
    """One result: its name, kind, declared type, one cell and one event time per row (None: no such row)."""

    name: str
    kind: str
    declared: ValueType
    cells: list[Any]
    micros: Sequence[int | None]


class PackedResponse(OnlineResponse):
    """`OnlineResponse` over columns; `proto` comes to be when it is read."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._feature_types = {column.name: column.declared for column in columns}

    def __getattr__(self, name: str) -> Any:
        if name != "proto":
            raise AttributeError(name)
        self.proto = _proto(self._columns)
        return self.proto

    def to_dict(self, include_event_timestamps: bool = False) -> dict[str, Any]:
        """Return the columns by name, as Feast's own response gives them."""
        answer: dict[str, Any] = {}
        for column in self._columns:
            answer[column.name] = python_values(column.kind, column.cells, column.declared)
            if include_event_timestamps:
                seconds = [(micros or 0) // 1_000_000 for micros in column.micros]
                answer[column.name + TIMESTAMP_POSTFIX] = seconds
        return answer


def _proto(columns: Sequence[Column]) -> GetOnlineFeaturesResponse:
    proto = GetOnlineFeaturesResponse(results=[])
    for column in columns:
        proto.metadata.feature_names.val.append(column.name)
        result = proto.results.add()
        result.values.extend(message(column.kind, cell) for cell in column.cells)
        result.statuses.extend(
            FieldStatus.NOT_FOUND if micros is None else FieldStatus.PRESENT for micros in column.micros
        )
        for micros in column.micros:
            result.event_timestamps.add().FromMicroseconds(micros or 0)
    return proto
