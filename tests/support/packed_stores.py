"""What two stores of Feast answer, compared."""

from collections.abc import Callable
from typing import Any


def same(stores: dict[str, Any], ask: Callable[[Any], Any]) -> Any:
    """What both stores answer, or the type of what both raise."""
    answers = []
    for store in stores.values():
        try:
            answers.append(ask(store))
        except Exception as error:  # noqa: BLE001
            answers.append(type(error).__name__)
    assert answers[0] == answers[1]
    return answers[1]
