"""The answers of a profile for one epsilon."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ptklib.exceptions import CorruptStateError


@dataclass(frozen=True, slots=True)
class Found:
    """Samples of `n` privacy units, in expectation, are enough to train on."""

    n: int


@dataclass(frozen=True, slots=True)
class NeedsMore:
    """No number of samples up to `n_tried` is enough, and none was shown to be in vain; 0 when none was tried."""

    n_tried: int


@dataclass(frozen=True, slots=True)
class Unreachable:
    """R* > tau: no state that can be released has a risk within the target, however many samples there are."""


Answer = Found | NeedsMore | Unreachable


def answer_to_json(answer: Answer) -> dict[str, Any]:
    """Return an answer as plain JSON values."""
    match answer:
        case Found(n):
            return {"answer": "found", "n": n}
        case NeedsMore(n_tried):
            return {"answer": "needs_more", "n_tried": n_tried}
        case Unreachable():
            return {"answer": "unreachable"}


def answer_from_json(document: Mapping[str, Any]) -> Answer:
    """Read what `answer_to_json` wrote.

    Raises
    ------
    CorruptStateError
        For anything else.
    """
    fields = {name: value for name, value in document.items() if name != "answer"}
    match document.get("answer"):
        case "found" if set(fields) == {"n"} and _count(fields["n"]) and fields["n"] > 0:
            return Found(fields["n"])
        case "needs_more" if set(fields) == {"n_tried"} and _count(fields["n_tried"]):
            return NeedsMore(fields["n_tried"])
        case "unreachable" if not fields:
            return Unreachable()
    raise CorruptStateError("a profile has an answer of an unknown form")


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
