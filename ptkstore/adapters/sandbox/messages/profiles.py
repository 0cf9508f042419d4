"""Profiles and drift tests as JSON, for the child and back."""

from __future__ import annotations

import base64
from dataclasses import asdict
from typing import Any

from ptkstore.domain.ptks.profiles import Point, ProfileAsk, Verdict
from ptkstore.ports.profiling import DriftRequest, ProfileRequest, ProfileSet

Told = tuple[Point, ...] | bool


def profile_fields(request: ProfileRequest) -> dict[str, Any]:
    """The request as plain JSON; it holds the window's key."""
    return {
        "estimator": request.estimator,
        "ask": asdict(request.ask),
        "epsilons": list(request.epsilons),
        "n_min": request.n_min,
        "confidence": request.confidence,
        "profile_set": _set_fields(request.profile_set),
    }


def profile_request(fields: dict[str, Any]) -> ProfileRequest:
    """What `profile_fields` wrote."""
    return ProfileRequest(
        fields["estimator"],
        ProfileAsk.of(fields["ask"]),
        tuple(fields["epsilons"]),
        fields["n_min"],
        fields["confidence"],
        _profile_set(fields["profile_set"]),
    )


def drift_fields(request: DriftRequest) -> dict[str, Any]:
    """The request as plain JSON; it holds the window's key."""
    return {
        "estimator": request.estimator,
        "ask": asdict(request.ask),
        "epsilon": request.epsilon,
        "state": {name: _text(content) for name, content in request.state.items()},
        "profile_set": _set_fields(request.profile_set),
    }


def drift_request(fields: dict[str, Any]) -> DriftRequest:
    """What `drift_fields` wrote."""
    return DriftRequest(
        fields["estimator"],
        ProfileAsk.of(fields["ask"]),
        fields["epsilon"],
        {name: base64.b64decode(text) for name, text in fields["state"].items()},
        _profile_set(fields["profile_set"]),
    )


def told_json(told: Told) -> dict[str, Any]:
    """The child's answer."""
    if isinstance(told, bool):
        return {"drifted": told}
    return {"points": [[point.epsilon, point.verdict, point.n] for point in told]}


def points_of(answer: Any, request: ProfileRequest) -> tuple[Point, ...]:
    """The points that answer a request; `ValueError`, `TypeError` or `KeyError` for anything else."""
    if not isinstance(answer, dict) or set(answer) != {"points"}:
        raise ValueError
    points = tuple(Point(epsilon, Verdict(verdict), n) for epsilon, verdict, n in answer["points"])
    if tuple(point.epsilon for point in points) != request.epsilons:
        raise ValueError
    for point in points:
        least = 0 if point.verdict is Verdict.UNREACHABLE else 1
        if type(point.n) is not int or not least <= point.n <= request.ask.n_max:
            raise ValueError
    return points


def drift_of(answer: Any) -> bool:
    """Whether it drifted; `ValueError`, `TypeError` or `KeyError` for anything but an answer."""
    if not isinstance(answer, dict) or set(answer) != {"drifted"} or type(answer["drifted"]) is not bool:
        raise ValueError
    return bool(answer["drifted"])


def _set_fields(profile_set: ProfileSet) -> dict[str, Any]:
    return {
        "part_urls": list(profile_set.part_urls),
        "low": profile_set.low,
        "high": profile_set.high,
        "window_key": _text(profile_set.window_key),
    }


def _profile_set(fields: dict[str, Any]) -> ProfileSet:
    return ProfileSet(
        tuple(fields["part_urls"]), fields["low"], fields["high"], base64.b64decode(fields["window_key"])
    )


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
