"""Reserves one key in a process of its own and says so; waits there for kill -9."""

from __future__ import annotations

import sys

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.domain.ledger.journal import EntryKind
from tests.support.builders import STREAM, job, request


def main(url: str, moment: str) -> None:
    """`moment` is `before` or `after` the commit."""
    with SqlCatalog(url).begin() as uow:
        uow.streams.lock(STREAM)
        uow.ledger.append(request("killed"), EntryKind.RESERVE, {})
        uow.jobs.add(job("train/killed"))
        if moment == "after":
            uow.commit()
        sys.stdout.write("there\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
