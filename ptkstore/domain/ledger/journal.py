"""The ledger's journal: an append-only chain of the stream's policy, reservations, spends and releases."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from ptkstore.domain.accounting.accountants import Charge
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.accounting.sharing import COMMON
from ptkstore.domain.jobs import Job
from ptkstore.domain.streams.blocks import BlockSet
from ptkstore.domain.streams.policies import Policy

GENESIS = "0" * 64


class EntryKind(StrEnum):
    """The effect of a journal entry on a reservation's key."""

    RESERVE = "reserve"
    SPEND = "spend"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class BudgetRequest:
    """A wish to lose `loss` on every block of `blocks`, under a key that makes it repeatable.

    `charge` is what the stream's accountant counts for it, `loss` itself under basic composition. `line` says which of
    a block's budgets pays.
    """

    stream: str
    key: str
    ptk_id: str
    blocks: BlockSet
    loss: Loss
    charge: Charge
    line: str = COMMON

    @classmethod
    def of_run(cls, run: Job, policy: Policy, blocks: BlockSet, loss: Loss, charge: Charge) -> Self:
        """Return what a paid run reserves under its id.

        Parameters
        ----------
        policy : Policy
            That of its stream: it says from which line the PTK pays.
        charge : Charge
            The amounts that the policy's accountant counts for a release whose guarantee is `loss`.
        """
        ptk_id = str(run.ptk_id)
        return cls(run.stream, run.id, ptk_id, blocks, loss, charge, policy.line_of(ptk_id))


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the journal. `digest` chains all entries of a stream, so that a fork of the catalog shows.

    `nonce` is random: a restored catalog that takes the very same steps again has other digests all the same.
    """

    sequence: int
    kind: EntryKind
    request: BudgetRequest
    event_text: str
    digest: str
    nonce: str = ""

    @property
    def event(self) -> dict[str, object]:
        """The mechanisms that cost the loss; `event_text` is the same as canonical JSON."""
        return dict(json.loads(self.event_text))

    @property
    def stream(self) -> str:
        """The stream whose journal this is."""
        return self.request.stream

    @property
    def key(self) -> str:
        """The reservation's key."""
        return self.request.key

    @property
    def ptk_id(self) -> str:
        """Who pays."""
        return self.request.ptk_id

    @property
    def blocks(self) -> BlockSet:
        """The blocks that pay."""
        return self.request.blocks

    @property
    def loss(self) -> Loss:
        """The guarantee of the release."""
        return self.request.loss

    @property
    def charge(self) -> Charge:
        """The amounts of the accountant."""
        return self.request.charge


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """The line of a stream's journal with its policy, as `policies.policy_text` wrote it.

    A stream has one: its first line, or a later one if the stream was made before policies were chained.
    """

    stream: str
    sequence: int
    policy_text: str
    digest: str
    nonce: str = ""


ChainLine = Entry | PolicyEntry
"""A line of a stream's journal."""


def next_policy_entry(last: tuple[int, str], stream: str, policy_text: str, nonce: str) -> PolicyEntry:
    """Return the line that follows the one of sequence and digest `last`."""
    line = PolicyEntry(stream, last[0] + 1, policy_text, "", nonce)
    return replace(line, digest=chained_digest(last[1], line))


def next_entry(
    last: tuple[int, str], kind: EntryKind, request: BudgetRequest, event_text: str, nonce: str
) -> Entry:
    """Return the entry that follows the one of sequence and digest `last`.

    Parameters
    ----------
    nonce : str
        Random: the same steps have another digest each time.
    """
    sequence, previous = last[0] + 1, last[1]
    digest = chained_digest(previous, Entry(sequence, kind, request, event_text, "", nonce))
    return Entry(sequence, kind, request, event_text, digest, nonce)


def chained_digest(previous: str, line: ChainLine) -> str:
    """Return the SHA-256 over the previous digest and the line's content (its own digest left out).

    Blocks beyond the first range come last, so that an entry with one range has the digest it always had.
    """
    if isinstance(line, PolicyEntry):  # a text that no other line can have: those begin with a bracket
        content = [previous, line.stream, line.sequence, line.policy_text, line.nonce]
        return hashlib.sha256(_POLICY_DOMAIN + _AS_TEXT(content).encode()).hexdigest()
    request = line.request
    lo, hi, *further = request.blocks.edges
    fields = [
        previous,
        request.stream,
        line.sequence,
        request.key,
        line.kind,
        request.ptk_id,
        lo,
        hi,
        request.line,
        request.loss.epsilon_nano,
        request.loss.delta_atto,
        request.charge.amounts,
        request.charge.delta_atto,
        line.event_text,
        line.nonce,
        *([further] if further else []),
    ]
    return hashlib.sha256(_AS_TEXT(fields).encode()).hexdigest()


_POLICY_DOMAIN = b"ptk-ledger-policy/1\n"
_AS_TEXT = json.JSONEncoder(separators=(",", ":")).encode
