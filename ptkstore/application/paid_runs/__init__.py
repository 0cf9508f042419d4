"""The steps of everything that spends a privacy loss."""

from typing import TYPE_CHECKING

from ptklib import lazy

if TYPE_CHECKING:
    from ptkstore.application.paid_runs import release_ticks as release_ticks
else:
    __getattr__ = lazy.modules(__name__)
