"""Create a stream with its schema and policy."""

from __future__ import annotations

from ptkstore.domain.streams import Stream
from ptkstore.ports.catalog import Begin
from ptkstore.ports.keys import KeyStore


def create_stream(stream: Stream, *, begin: Begin, keys: KeyStore) -> None:
    """Create `stream`; repeating it with equal content changes nothing.

    Raises
    ------
    NameTaken
        When the name exists with another schema or policy.
    """
    keys.create_stream(stream.name)
    with begin() as uow:
        uow.streams.add(stream)
        uow.commit()
