"""Plans: which loss and how many rows a PTK gets, and what it would need."""

from typing import TYPE_CHECKING

from ptklib import lazy

if TYPE_CHECKING:
    from ptkstore.application.planning import recommend_rows as recommend_rows
else:
    __getattr__ = lazy.modules(__name__)
