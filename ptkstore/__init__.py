"""Share what sensitive event streams know, as differentially private feature models, without sharing the events.

`connect()` opens the store, `PTK` declares a feature model in a team's repository, `featurize` applies published
states, and so does `Featurizer`, as a transformer of scikit-learn.
Importing this package loads neither Feast nor SQL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ptkstore.sdk import PTK, Ptk, Store, TeamFunctions, check_report, connect, featurize
    from ptkstore.sdk.featurizer import Featurizer

__all__ = ["PTK", "Featurizer", "Ptk", "Store", "TeamFunctions", "check_report", "connect", "featurize"]


def __getattr__(name: str) -> Any:
    """Load the client on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "Featurizer":  # loads scikit-learn
        from ptkstore.sdk.featurizer import Featurizer

        return Featurizer
    from ptkstore import sdk

    return getattr(sdk, name)
