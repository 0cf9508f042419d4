"""A key store in a fresh directory, and journals to open its windows with."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ptkstore.adapters.keys import FileKeyStore


@dataclass(frozen=True)
class Journal:
    """A journal of one stream, as far as a key store looks at it."""

    ledger_id: str = "ledger-a"
    digests: tuple[str, ...] = field(default=())
    policy_text: str | None = None

    def head(self, stream: str) -> int:
        return len(self.digests)

    def digest_at(self, stream: str, sequence: int) -> str | None:
        return self.digests[sequence - 1] if 1 <= sequence <= len(self.digests) else None

    def policy(self, stream: str) -> str | None:
        return self.policy_text

    def plus(self, *digests: str) -> Journal:
        return replace(self, digests=self.digests + digests)


@pytest.fixture
def journal() -> Journal:
    return Journal(digests=("d1", "d2", "d3"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "keys"


@pytest.fixture
def store(root: Path) -> FileKeyStore:
    store = FileKeyStore(root)
    store.create_stream("taxi")
    return store
