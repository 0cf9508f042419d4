"""Use cases of devices, bound to the adapters."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from ptkstore.application.devices import issue_tickets, served_models
from ptkstore.application.devices.checkpoints import CheckpointWriter, start_of
from ptkstore.application.devices.epochs import Found, epoch_of, read_epoch
from ptkstore.domain.tickets import Refusal, Ticket, read_ticket
from ptkstore.ports.devices import Counted, DevicePtk, Epoch, ReadDevicePtk
from ptkstore.wiring.adapters import Adapters


class Devices:
    """The requests of devices and their gateways."""

    def __init__(self, adapters: Adapters, read_ptk: ReadDevicePtk) -> None:
        self._adapters, self._read_ptk = adapters, read_ptk

    def served(self, ptk_id: str, before: served_models.ServedModel | None) -> served_models.ServedModel:
        """Read what is served of a PTK from now on; `Refused` if the devices' Redis came to keep what they send."""
        self.check()
        return served_models.read_served(
            ptk_id,
            before,
            read_ptk=self._read_ptk,
            instances=self._adapters.instances,
            start=self._start,
        )

    def epoch_of(self, ptk_id: str) -> tuple[DevicePtk, Epoch]:
        """Return a PTK and its epoch, begun if there is none of its specification."""
        return epoch_of(
            ptk_id, read_ptk=self._read_ptk, instances=self._adapters.instances, start=self._start
        )

    def read_epoch(
        self, ptk_id: str, read: Callable[[DevicePtk, Epoch], Found]
    ) -> tuple[DevicePtk, Epoch, Found]:
        """Return a PTK, its epoch and what is read of that, begun where there is none or it was lost."""
        return read_epoch(
            ptk_id, read, read_ptk=self._read_ptk, instances=self._adapters.instances, start=self._start
        )

    def issue_tickets(self, stream: str, ptk_id: str, count: int, *, gateway: str) -> issue_tickets.Issued:
        """Make tickets of a PTK that devices train; begins its epoch if none has begun."""
        return issue_tickets.issue_tickets(
            stream,
            ptk_id,
            count,
            read_ptk=self._read_ptk,
            epoch_of=self.epoch_of,
            gateway=gateway,
            key=self._key,
            clock=self._adapters.clock,
        )

    def read_ticket(self, text: str) -> Ticket | Refusal:
        """Return the content of a ticket if it is valid now."""
        return read_ticket(self._key, text, self._adapters.clock.now())

    def check(self) -> None:
        """Raise `Refused` if the devices' Redis may keep what is overwritten."""
        self._adapters.instances.check()

    @cached_property
    def _key(self) -> bytes:
        return self._adapters.keys.ticket_key()

    @cached_property
    def checkpoints(self) -> CheckpointWriter:
        adapters = self._adapters
        return CheckpointWriter(self._read_ptk, adapters.instances, adapters.checkpoints, adapters.keys)

    def ptk_ids(self) -> tuple[str, ...]:
        """Name the PTKs that devices train."""
        with self._adapters.read() as uow:
            streams = [stream.name for stream in uow.streams.all() if stream.policy.on_devices]
            return tuple(spec.ptk_id for stream in streams for spec in uow.ptks.find(stream=stream))

    def left_over(self) -> frozenset[str]:
        """Name the PTKs that have a checkpoint or instances, and that devices train no more."""
        kept = frozenset(ptk_id for ptk_id, _ in self._adapters.keys.checkpoints())
        with self._adapters.read() as uow:
            has_devices = any(stream.policy.on_devices for stream in uow.streams.all())
        if has_devices:  # without, there may be no server to ask
            kept |= self._adapters.instances.ptk_ids()
        return kept - frozenset(self.ptk_ids()) if kept else kept  # registered ones are read last

    def _start(self, ptk: DevicePtk) -> Counted:
        return start_of(ptk, checkpoints=self._adapters.checkpoints, keys=self._adapters.keys)
