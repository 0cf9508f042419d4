"""What parent and child say to each other: one JSON document there, one JSON line back."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from ptkstore.domain.snapshots import Draft, StateFile
from ptkstore.domain.streams import ColumnType, Schema
from ptkstore.domain.windows import WindowId
from ptkstore.ports.training import ForgetRequest, PrepareRequest, TrainFailed, TrainRequest

TRAINER_ERROR: Final = "trainer-error"
TIMEOUT: Final = "timeout"
MEMORY_LIMIT: Final = "memory-limit"
KILLED: Final = "killed"
BAD_OUTPUT: Final = "bad-output"
ROWS_GONE: Final = "rows-gone"
ROWS_CORRUPT: Final = "rows-corrupt"
Request: TypeAlias = TrainRequest | PrepareRequest | ForgetRequest
TOLD_BY_CHILD: Final = frozenset({MEMORY_LIMIT, ROWS_GONE, ROWS_CORRUPT})


@dataclass(frozen=True, slots=True)
class Order:
    """A request, where its rows and its draft lie, and the environment that reaches them."""

    request: Request
    raw_url: str
    staging_url: str
    parent: int
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)


def encode_order(order: Order) -> bytes:
    """The document for the child's standard input; holds keys, so it goes nowhere else."""
    request = order.request
    common = {
        "raw_url": order.raw_url,
        "staging_url": order.staging_url,
        "parent": order.parent,
        "storage": dict(order.storage),
    }
    match request:
        case TrainRequest():
            asked = {"train": _train_fields(request)}
        case PrepareRequest():
            asked = {"prepare": _prepare_fields(request)}
        case ForgetRequest():
            asked = {"forget": _forget_fields(request)}
    return json.dumps({**common, **asked}, allow_nan=False).encode()


def decode_order(document: bytes) -> Order:
    """What `encode_order` wrote."""
    fields: dict[str, Any] = json.loads(document)
    request: Request
    if "train" in fields:
        request = _train_request(fields["train"])
    elif "prepare" in fields:
        request = _prepare_request(fields["prepare"])
    else:
        request = _forget_request(fields["forget"])
    return Order(request, fields["raw_url"], fields["staging_url"], fields["parent"], fields["storage"])


def encode_answer(answer: Draft | TrainFailed | None) -> bytes:
    """The child's one line; None stands for files that are written."""
    if answer is None:
        return b'{"written": true}\n'
    if isinstance(answer, TrainFailed):
        return json.dumps({"failed": answer.code}).encode() + b"\n"
    files = [[file.name, file.size, file.sha256] for file in answer.files]
    content = {"draft_id": answer.draft_id, "files": files, "state": dict(answer.state)}
    return json.dumps(content, allow_nan=False).encode() + b"\n"


def decode_answer(line: bytes) -> Draft | TrainFailed:
    """What the child said of a training, true or not; anything but one well-formed line is `bad-output`."""
    try:
        answer = _parsed(line)
        if (code := _told(answer)) is not None:
            return TrainFailed(code)
        files = tuple(StateFile(name, size, sha256) for name, size, sha256 in answer["files"])
        typed = all((type(f.name), type(f.size), type(f.sha256)) == (str, int, str) for f in files)
        if not typed or not isinstance(answer["draft_id"], str) or not isinstance(answer["state"], dict):
            raise ValueError
        return Draft(answer["draft_id"], files, answer["state"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return TrainFailed(BAD_OUTPUT)


def decode_written(line: bytes) -> str | None:
    """None if the child says that the files are written, else a code as `decode_answer` gives it."""
    try:
        answer = _parsed(line)
        return None if answer == {"written": True} else _told(answer) or BAD_OUTPUT
    except (ValueError, TypeError, RecursionError):
        return BAD_OUTPUT


def _parsed(line: bytes) -> Any:
    if not line.endswith(b"\n"):
        raise ValueError
    return json.loads(line)


def _told(answer: Any) -> str | None:
    told = set(answer) == {"failed"} and answer["failed"] in TOLD_BY_CHILD
    return str(answer["failed"]) if told else None


def _train_fields(request: TrainRequest) -> dict[str, Any]:
    return {
        "estimator": request.estimator,
        "epsilon": request.epsilon,
        "delta": request.delta,
        "part_urls": list(request.part_urls),
        "hash_low": request.hash_low,
        "hash_high": request.hash_high,
        "window_key": _text(request.window_key),
        "draft_id": request.draft_id,
        "draft_key": _text(request.draft_key),
        "previous_state": None
        if request.previous_state is None
        else {name: _text(content) for name, content in request.previous_state.items()},
    }


def _train_request(fields: dict[str, Any]) -> TrainRequest:
    previous: Mapping[str, str] | None = fields["previous_state"]
    return TrainRequest(
        estimator=fields["estimator"],
        epsilon=fields["epsilon"],
        delta=fields["delta"],
        part_urls=tuple(fields["part_urls"]),
        hash_low=fields["hash_low"],
        hash_high=fields["hash_high"],
        window_key=base64.b64decode(fields["window_key"]),
        draft_id=fields["draft_id"],
        draft_key=base64.b64decode(fields["draft_key"]),
        previous_state=None
        if previous is None
        else {name: base64.b64decode(text) for name, text in previous.items()},
    )


def _prepare_fields(request: PrepareRequest) -> dict[str, Any]:
    return {
        "window": [request.window.stream, request.window.index],
        "tokens": list(request.tokens),
        "columns": [[name, kind.value] for name, kind in request.schema.columns],
        "time_column": request.schema.time_column,
        "part_bounds": list(request.part_bounds),
        "window_key": _text(request.window_key),
        "split_key": _text(request.split_key),
        "unit_column": request.unit_column,
        "max_rows_per_unit": request.max_rows_per_unit,
        "attribute": request.attribute,
        "attribute_values": list(request.attribute_values),
    }


def _prepare_request(fields: dict[str, Any]) -> PrepareRequest:
    stream, index = fields["window"]
    columns = tuple((name, ColumnType(kind)) for name, kind in fields["columns"])
    return PrepareRequest(
        window=WindowId(stream, index),
        tokens=tuple(fields["tokens"]),
        schema=Schema(columns, fields["time_column"]),
        part_bounds=tuple(fields["part_bounds"]),
        window_key=base64.b64decode(fields["window_key"]),
        split_key=base64.b64decode(fields["split_key"]),
        unit_column=fields["unit_column"],
        max_rows_per_unit=fields["max_rows_per_unit"],
        attribute=fields["attribute"],
        attribute_values=tuple(fields["attribute_values"]),
    )


def _forget_fields(request: ForgetRequest) -> dict[str, Any]:
    return {
        "window": [request.window.stream, request.window.index],
        "unit_column": request.unit_column,
        "unit": request.unit,
        "window_key": _text(request.window_key),
    }


def _forget_request(fields: dict[str, Any]) -> ForgetRequest:
    stream, index = fields["window"]
    return ForgetRequest(
        window=WindowId(stream, index),
        unit_column=fields["unit_column"],
        unit=fields["unit"],
        window_key=base64.b64decode(fields["window_key"]),
    )


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
