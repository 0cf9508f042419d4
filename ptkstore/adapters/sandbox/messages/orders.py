"""What parent and child say to each other: one JSON document there, one JSON line back."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from ptkstore.adapters.sandbox.messages.codes import (
    BAD_OUTPUT,
    MEMORY_LIMIT,
    NO_SANDBOX,
    ROWS_CORRUPT,
    ROWS_GONE,
    TEAM_CODE_FAILED,
)
from ptkstore.adapters.sandbox.messages.profiles import (
    Told,
    drift_fields,
    drift_request,
    profile_fields,
    profile_request,
    told_json,
)
from ptkstore.adapters.sandbox.processes.process import USUAL_LIMITS, Limits
from ptkstore.domain.evaluations import LossMass
from ptkstore.domain.streams.streams import Added, ColumnType, Schema
from ptkstore.domain.streams.windows import WindowId
from ptkstore.domain.versions.versions import Draft, StateFile
from ptkstore.ports.evaluating import EvaluateRequest
from ptkstore.ports.profiling import DriftRequest, ProfileRequest
from ptkstore.ports.training import (
    STAGING_FAILED,
    CollectRequest,
    ForgetRequest,
    PrepareRequest,
    StagedPartial,
    TrainFailed,
    TrainRequest,
)

Request: TypeAlias = (
    TrainRequest
    | CollectRequest
    | PrepareRequest
    | ForgetRequest
    | ProfileRequest
    | DriftRequest
    | EvaluateRequest
)
TOLD_BY_CHILD: Final = frozenset(
    {MEMORY_LIMIT, ROWS_GONE, ROWS_CORRUPT, STAGING_FAILED, TEAM_CODE_FAILED, NO_SANDBOX}
)
TOLD_OF_TEAM_CODE: Final = frozenset({ROWS_GONE, ROWS_CORRUPT, TEAM_CODE_FAILED, NO_SANDBOX})
"""Of a run of team code; none of them depends on what the code did, or on how many rows there were."""


@dataclass(frozen=True, slots=True)
class Order:
    """A request, where its rows and its draft lie, the environment that reaches them, and what team code may use."""

    request: Request
    raw_url: str
    staging_url: str
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    limits: Limits = USUAL_LIMITS
    bubblewrap: str = "bwrap"


def encode_order(order: Order) -> bytes:
    """The document for the child's standard input; holds keys, so it goes nowhere else."""
    request = order.request
    common = {
        "raw_url": order.raw_url,
        "staging_url": order.staging_url,
        "storage": dict(order.storage),
        "limits": [order.limits.timeout_seconds, order.limits.memory_bytes],
        "bubblewrap": order.bubblewrap,
    }
    match request:
        case TrainRequest():
            asked = {"train": _train_fields(request)}
        case CollectRequest():
            asked = {"collect": _collect_fields(request)}
        case PrepareRequest():
            asked = {"prepare": _prepare_fields(request)}
        case ForgetRequest():
            asked = {"forget": _forget_fields(request)}
        case ProfileRequest():
            asked = {"profile": profile_fields(request)}
        case DriftRequest():
            asked = {"drift": drift_fields(request)}
        case EvaluateRequest():
            asked = {"evaluate": _evaluate_fields(request)}
    return json.dumps({**common, **asked}, allow_nan=False).encode()


def decode_order(document: bytes) -> Order:
    """What `encode_order` wrote."""
    fields: dict[str, Any] = json.loads(document)
    request: Request
    if "train" in fields:
        request = _train_request(fields["train"])
    elif "collect" in fields:
        request = CollectRequest(**_opened_fields(fields["collect"]))
    elif "prepare" in fields:
        request = _prepare_request(fields["prepare"])
    elif "profile" in fields:
        request = profile_request(fields["profile"])
    elif "drift" in fields:
        request = drift_request(fields["drift"])
    elif "evaluate" in fields:
        request = _evaluate_request(fields["evaluate"])
    else:
        request = _forget_request(fields["forget"])
    return Order(
        request,
        fields["raw_url"],
        fields["staging_url"],
        fields["storage"],
        Limits(*fields["limits"]),
        fields["bubblewrap"],
    )


def encode_answer(answer: Draft | TrainFailed | LossMass | Told | None) -> bytes:
    """The child's one line; None stands for files that are written."""
    if isinstance(answer, LossMass):
        return json.dumps({"lost": answer.lost, "kept": answer.kept}).encode() + b"\n"
    if isinstance(answer, tuple | bool):
        return json.dumps(told_json(answer), allow_nan=False).encode() + b"\n"
    if answer is None:
        return b'{"written": true}\n'
    if isinstance(answer, TrainFailed):
        return json.dumps({"failed": answer.code}).encode() + b"\n"
    files = [[file.name, file.size, file.sha256] for file in answer.files]
    content = {
        "draft_id": answer.draft_id,
        "files": files,
        "state": dict(answer.state),
    }
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


def decode_told(line: bytes) -> object | TrainFailed:
    """What the child said of a profile or a drift test, as JSON; `bad-output` for anything but one line of it."""
    try:
        answer = _parsed(line)
        code = _told(answer) if isinstance(answer, dict) else BAD_OUTPUT
    except (ValueError, RecursionError):
        return TrainFailed(BAD_OUTPUT)
    return answer if code is None else TrainFailed(code)


def decode_mass(line: bytes) -> LossMass | TrainFailed:
    """What the child said of an evaluation; `bad-output` for anything but two whole numbers."""
    answer = decode_told(line)
    if isinstance(answer, TrainFailed):
        return answer
    if not isinstance(answer, dict) or set(answer) != {"lost", "kept"}:
        return TrainFailed(BAD_OUTPUT)
    if any(type(number) is not int or abs(number) >= 2**63 for number in answer.values()):
        return TrainFailed(BAD_OUTPUT)
    return LossMass(answer["lost"], answer["kept"])


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
        **_collect_fields(request),
        "previous_state": None
        if request.previous_state is None
        else {name: _text(content) for name, content in request.previous_state.items()},
        "partials": [[one.draft_id, _text(one.draft_key)] for one in request.partials],
        "bundle": None if request.bundle is None else _text(request.bundle),
    }


def _train_request(fields: dict[str, Any]) -> TrainRequest:
    previous: Mapping[str, str] | None = fields["previous_state"]
    return TrainRequest(
        **_opened_fields(fields),
        previous_state=None
        if previous is None
        else {name: base64.b64decode(text) for name, text in previous.items()},
        partials=tuple(StagedPartial(name, base64.b64decode(key)) for name, key in fields["partials"]),
        bundle=None if fields["bundle"] is None else base64.b64decode(fields["bundle"]),
    )


def _collect_fields(request: TrainRequest | CollectRequest) -> dict[str, Any]:
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
    }


def _opened_fields(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "estimator": fields["estimator"],
        "epsilon": fields["epsilon"],
        "delta": fields["delta"],
        "part_urls": tuple(fields["part_urls"]),
        "hash_low": fields["hash_low"],
        "hash_high": fields["hash_high"],
        "window_key": base64.b64decode(fields["window_key"]),
        "draft_id": fields["draft_id"],
        "draft_key": base64.b64decode(fields["draft_key"]),
    }


def _evaluate_fields(request: EvaluateRequest) -> dict[str, Any]:
    return {
        "estimator": request.estimator,
        "epsilon": request.epsilon,
        "state": {name: _text(content) for name, content in request.state.items()},
        "part_urls": list(request.part_urls),
        "hash_low": request.hash_low,
        "hash_high": request.hash_high,
        "window_key": _text(request.window_key),
    }


def _evaluate_request(fields: dict[str, Any]) -> EvaluateRequest:
    return EvaluateRequest(
        estimator=fields["estimator"],
        epsilon=fields["epsilon"],
        state={name: base64.b64decode(text) for name, text in fields["state"].items()},
        part_urls=tuple(fields["part_urls"]),
        hash_low=fields["hash_low"],
        hash_high=fields["hash_high"],
        window_key=base64.b64decode(fields["window_key"]),
    )


def _prepare_fields(request: PrepareRequest) -> dict[str, Any]:
    return {
        "window": [request.window.stream, request.window.index],
        "tokens": list(request.tokens),
        "noted": list(request.noted),
        "columns": [[name, kind.value] for name, kind in request.schema.columns],
        "time_column": request.schema.time_column,
        "added": [[one.column, one.default, one.since] for one in request.schema.added],
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
        schema=Schema(columns, fields["time_column"], tuple(Added(*one) for one in fields["added"])),
        part_bounds=tuple(fields["part_bounds"]),
        window_key=base64.b64decode(fields["window_key"]),
        split_key=base64.b64decode(fields["split_key"]),
        unit_column=fields["unit_column"],
        max_rows_per_unit=fields["max_rows_per_unit"],
        attribute=fields["attribute"],
        attribute_values=tuple(fields["attribute_values"]),
        noted=tuple(fields["noted"]),
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
