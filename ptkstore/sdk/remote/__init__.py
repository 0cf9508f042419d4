"""A store behind the HTTP API, for the client."""

from ptkstore.sdk.remote.service import RemoteService

__all__ = ["RemoteService"]
