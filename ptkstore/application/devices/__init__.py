"""Models that devices train: what devices learn of them, which tickets they get, and which reports are taken."""

from typing import TYPE_CHECKING

from ptklib import lazy

if TYPE_CHECKING:
    from ptkstore.application.devices import issue_tickets as issue_tickets
    from ptkstore.application.devices import served_models as served_models
else:
    __getattr__ = lazy.modules(__name__)
