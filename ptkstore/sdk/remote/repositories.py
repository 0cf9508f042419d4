"""A team's repository and a store behind HTTP: its code goes there, and what it wants of a stream."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from ptkstore.application.ptks.exchange_ptks import Admission
from ptkstore.application.ptks.team_code import examine_team_code
from ptkstore.domain.names import checked_name
from ptkstore.domain.ptks.bundles import AUDIT_RUNS, sha256_of
from ptkstore.domain.ptks.wanted import WantedPtk
from ptkstore.errors import InvalidRequest, TooLarge
from ptkstore.ports.team_code import Examined
from ptkstore.sdk.documents.admissions import admission_of
from ptkstore.sdk.remote.errors import error_of
from ptkstore.sdk.remote.transport import Transport, path_of, plain, read
from ptkstore.wire.base import EXCHANGE_BYTES_MAX, LIST_MAX

BUNDLE = "application/x-tar"


class RemoteRepositories:
    """Methods of `StoreService` for team repositories, over HTTP."""

    _http: Transport

    def admit_ptks(
        self, *, team: str, stream: str, wanted: Sequence[WantedPtk], leaving: Sequence[str] = ()
    ) -> Admission:
        answer = self._ask(stream, "admission", wanted, leaving)
        return read(answer, lambda document: admission_of(document, error_of))

    def exchange_ptks(
        self, *, team: str, stream: str, wanted: Sequence[WantedPtk], leaving: Sequence[str] = ()
    ) -> None:
        self._ask(stream, "exchange", wanted, leaving)

    def _ask(
        self, stream: str, verb: str, wanted: Sequence[WantedPtk], leaving: Sequence[str]
    ) -> httpx.Response:
        return self._http.send(
            "POST",
            path_of("streams", stream, verb),
            content=exchange_body(wanted, leaving),
            headers={"Content-Type": "application/json"},
            repeatable=True,
        )

    def put_bundle(self, content: bytes, sha256: str | None = None, *, team: str) -> str:
        """Upload the code of the token's team; its name. Repeatable: the server takes only what has that name."""
        name = sha256_of(content) if sha256 is None else sha256
        self._http.send(
            "PUT",
            path_of("bundles", name),
            content=content,
            headers={"Content-Type": BUNDLE},
            repeatable=True,
        )
        return name

    def examine_team_code(
        self, estimator: Mapping[str, Any], bundle: bytes, runs: int = AUDIT_RUNS
    ) -> Examined:
        """Examine a team's code in the sandbox of this machine; the server does it again before it registers it.

        Within the limits that this machine's settings name, which are a store's unless its administrator chose others.
        """
        from ptkstore.adapters.sandbox.parent import Bubblewrap, BubblewrapSandbox, Limits
        from ptkstore.settings import load_settings

        here = load_settings()
        limits = Limits(here.examine_timeout_seconds, here.train_memory_mib * 2**20)
        sandbox = BubblewrapSandbox(Bubblewrap(here.bubblewrap), limits)
        return examine_team_code(estimator, bundle, sandbox=sandbox, runs=runs)


def exchange_body(wanted: Sequence[WantedPtk], leaving: Sequence[str]) -> bytes:
    """Return what an admission and an exchange are asked with; `TooLarge` where one request cannot hold it."""
    if max(len(wanted), len(leaving)) > LIST_MAX:
        raise TooLarge(
            f"over HTTP up to {LIST_MAX} PTKs of a stream come, change or go at once: declare the others afterwards"
        )
    for one in wanted:
        checked_name("PTK", one.name)
    content = {"ptks": [{"name": one.name, **one.arguments} for one in wanted], "deregister": list(leaving)}
    try:
        body = json.dumps(plain(content), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except ValueError:
        raise InvalidRequest("the declaration has a number or a text that JSON cannot represent") from None
    if len(body) > EXCHANGE_BYTES_MAX:
        raise TooLarge(
            f"this declaration has {len(body)} bytes as JSON, and over HTTP one stream takes {EXCHANGE_BYTES_MAX} at "
            "once. Declare a part of it, apply that, and declare the others afterwards"
        )
    return body
