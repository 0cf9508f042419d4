"""Share what sensitive event streams know, as differentially private feature models, without sharing the events.

`connect()` opens the store, `PTK` declares a feature model in a team's repository, `featurize` applies published
states, and so does `Featurizer`, as a transformer of scikit-learn.
Importing this package loads neither Feast nor SQL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptklib.lazy import exports

if TYPE_CHECKING:
    from ptkstore.sdk import PTK, Ptk, Store, TeamFunctions, check_report, connect, featurize
    from ptkstore.sdk.featurizer import Featurizer

__all__ = ["PTK", "Featurizer", "Ptk", "Store", "TeamFunctions", "check_report", "connect", "featurize"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = exports(__name__, dict.fromkeys(__all__, "sdk") | {"Featurizer": "sdk.featurizer"})
