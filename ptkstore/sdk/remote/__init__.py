"""A store behind the HTTP API, for the client."""

from ptkstore.sdk.remote.service import RemoteService, is_url

__all__ = ["RemoteService", "is_url"]
