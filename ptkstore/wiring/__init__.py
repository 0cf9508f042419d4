"""The one composition root: settings in, use cases bound to real adapters out."""

from ptkstore.wiring.service import LocalService, Service

__all__ = ["LocalService", "Service"]
