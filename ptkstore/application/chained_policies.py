"""A stream under the policy that its journal holds, whatever somebody wrote into the stream's row."""

from __future__ import annotations

from dataclasses import replace

from ptkstore.domain.policies import policy_in
from ptkstore.domain.streams import Stream
from ptkstore.ports.catalog import UnitOfWork


def as_chained(stream: Stream, uow: UnitOfWork) -> Stream:
    """The stream with the journal's policy; as it is where the journal holds none."""
    lines = uow.ledger.policies(stream.name)
    return replace(stream, policy=policy_in(lines[0].policy_text)) if lines else stream
