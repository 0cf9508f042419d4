"""The client's part about devices that learn from rows which stay on them: the tickets that they need."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ptkstore.domain.names import checked_name, split_ptk_id
from ptkstore.domain.tickets import checked_count

if TYPE_CHECKING:
    from ptkstore.application.devices.issue_tickets import Issued
    from ptkstore.sdk.service import StoreService


class DeviceMethods:
    """Methods of `Store` about devices; the same here and over HTTP."""

    _service: StoreService

    def issue_tickets(self, stream: str, ptk_id: str, count: int = 1) -> Issued:
        """Make tickets for devices: each is good for one draw and one put, and nobody remembers who gets it.

        Give one to each user of an app. `ptklib.draw_discard.Device` takes it.

        Parameters
        ----------
        stream : str
            The stream of the PTK, whose rows stay on devices.
        ptk_id : str
        count : int
            At most 1,000 at once.

        Returns
        -------
        Issued
            `tickets`, and `expires`: until when they are good.

        Raises
        ------
        UnknownName
            Devices train no such PTK on this stream.
        """
        split_ptk_id(ptk_id)
        return self._service.issue_tickets(checked_name("stream", stream), ptk_id, checked_count(count))


def tickets_of(document: Mapping[str, Any]) -> Issued:
    """Read the document of tickets."""
    from ptkstore.application.devices.issue_tickets import Issued

    return Issued(tuple(document["tickets"]), datetime.fromisoformat(document["expires"]))
