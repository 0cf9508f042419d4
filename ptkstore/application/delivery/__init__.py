"""Subscribers and owners: messages to them, and the outcome of each."""

from typing import TYPE_CHECKING

from ptklib import lazy

if TYPE_CHECKING:
    from ptkstore.application.delivery import deliver_due as deliver_due
    from ptkstore.application.delivery import read_deliveries as read_deliveries
    from ptkstore.application.delivery import read_notices as read_notices
    from ptkstore.application.delivery import redeliver as redeliver
    from ptkstore.application.delivery import subscribe as subscribe
else:
    __getattr__ = lazy.modules(__name__)
