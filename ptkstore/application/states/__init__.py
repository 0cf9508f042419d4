"""States: what published versions say, and what differs between two of them."""

from typing import TYPE_CHECKING

from ptklib import lazy

if TYPE_CHECKING:
    from ptkstore.application.states import diff_versions as diff_versions
    from ptkstore.application.states import state_tables as state_tables
else:
    __getattr__ = lazy.modules(__name__)
