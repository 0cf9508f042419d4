"""The one composition root: settings in, use cases bound to real adapters out."""

from ptkstore.wiring.service import Service

__all__ = ["Service"]
