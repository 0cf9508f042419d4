"""Uploads of team code: by developers, small, under the hash of their content, repeatable."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from ptkstore.adapters.sandbox.parent import Bubblewrap, BubblewrapSandbox
from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.identity import Role
from ptkstore.domain.ptks.bundles import BUNDLE_BYTES_MAX, sha256_of
from tests.support.api_server import Api, problem
from tests.support.cases import case
from tests.support.team_code import GOOD, ROOMY, Inspector, bundle_with, described
from tests.support.waiting import until

BUNDLE = bundle_with(GOOD)
NAME = sha256_of(BUNDLE)


@pytest.fixture
def inspector() -> Inspector:
    return Inspector()


@pytest.fixture
def api(tmp_path: Path, inspector: Inspector) -> Iterator[Api]:
    with Api(tmp_path / "home") as api:
        api.world.service.__dict__["sandbox"] = inspector
        api.world.stream(minimum_assurance=Assurance.ASSERTED)
        yield api


def put(
    client: httpx.Client, content: bytes, name: str, media_type: str = "application/x-tar"
) -> httpx.Response:
    return client.put(f"/v1/bundles/{name}", content=content, headers={"Content-Type": media_type})


def test_a_bundle_is_stored_once_under_its_hash_and_its_upload_is_on_record(api: Api) -> None:
    developer = api.acting(Role.DEVELOPER)
    for _ in range(2):
        answer = put(developer, BUNDLE, NAME)
        assert (answer.status_code, answer.json()) == (200, {"sha256": NAME, "bytes": len(BUNDLE)})
    assert api.world.service.bundles.get(NAME) == BUNDLE
    trail = [e for e in api.identity.audit_log() if e.action == "bundle.upload"]
    assert {e.subject for e in trail} == {f"bundle/{NAME}"}


def test_only_developers_upload(api: Api) -> None:
    for role in set(Role) - {Role.DEVELOPER}:
        assert problem(put(api.acting(role), BUNDLE, NAME)) == (403, "not-allowed")
    assert problem(put(api.client(), BUNDLE, NAME)) == (401, "unauthenticated")
    assert not (api.world.service.settings.root / "lake" / "bundles").exists()


def linked() -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        entry = tarfile.TarInfo("own.py")
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(entry)
    return sink.getvalue()


def test_anything_else_is_refused(api: Api) -> None:
    for content, name, media_type, refusal in [
        (BUNDLE, "0" * 64, "application/x-tar", (400, "invalid-request")),
        (linked(), sha256_of(linked()), "application/x-tar", (400, "invalid-request")),
        (b"", sha256_of(b""), "application/x-tar", (400, "invalid-request")),
        (bytes(BUNDLE_BYTES_MAX + 1), "0" * 64, "application/x-tar", (413, "too-large")),
        (BUNDLE, NAME, "application/zip", (415, "unknown-format")),
        (BUNDLE, NAME.upper(), "application/x-tar", (422, "invalid-request")),
        (BUNDLE, "..%2f..%2fkeys", "application/x-tar", (422, "invalid-request")),
    ]:
        with case(str((name, media_type, refusal))):
            assert problem(put(api.acting(Role.DEVELOPER), content, name, media_type)) == refusal
            assert not (api.world.service.settings.root / "lake" / "bundles").exists()


def registration(name: str = "trips") -> dict[str, object]:
    return {"name": name, "stream": "taxi", "estimator": described(BUNDLE), "target": 0.1}


def test_uploaded_code_is_registered_examined_by_the_server_and_shown_as_asserted(
    api: Api, inspector: Inspector
) -> None:
    developer = api.acting(Role.DEVELOPER)
    refused = developer.post("/v1/ptks", json=registration())
    assert problem(refused) == (400, "invalid-request")
    assert "upload it first" in refused.json()["detail"]
    put(developer, BUNDLE, NAME).raise_for_status()
    assert developer.post("/v1/ptks", json=registration()).status_code == 201
    assert len(inspector.examined) == 1
    shown = developer.get("/v1/ptks/taxi.trips").json()
    assert (shown["assurance"], shown["family"]) == ("asserted", "TeamCode")
    assert shown["estimator"]["params"]["bundle"] == NAME


def test_a_server_without_a_sandbox_refuses_and_says_so(api: Api, inspector: Inspector) -> None:
    inspector.works = False
    developer = api.acting(Role.DEVELOPER)
    put(developer, BUNDLE, NAME).raise_for_status()
    assert problem(developer.post("/v1/ptks", json=registration())) == (403, "no-sandbox")


def test_a_team_whose_code_hangs_hears_when_to_come_again_and_another_team_is_served(
    api: Api, tmp_path: Path
) -> None:
    gate, begun, program = tmp_path / "gate", tmp_path / "begun", tmp_path / "bwrap"
    begun.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {begun}/$$; until [ -e {gate} ]; do sleep 0.1; done\n")
    program.chmod(0o755)
    api.world.service.__dict__["sandbox"] = BubblewrapSandbox(Bubblewrap(str(program)), ROOMY)
    greedy, modest = api.acting(Role.DEVELOPER), api.acting(Role.DEVELOPER, team="ads")
    api.grant("ads", "taxi", Role.DEVELOPER)
    put(greedy, BUNDLE, NAME).raise_for_status()
    with ThreadPoolExecutor(2) as pool:
        try:
            hanging = pool.submit(greedy.post, "/v1/ptks", json=registration())
            until(lambda: len(list(begun.iterdir())) == 1)
            for number in range(5):
                again = greedy.post("/v1/ptks", json=registration(f"more{number}"))
                assert problem(again) == (429, "too-many-requests")
                assert int(again.headers["retry-after"]) > 0
            served = pool.submit(modest.post, "/v1/ptks", json=registration())
            until(lambda: len(list(begun.iterdir())) == 2)
        finally:
            gate.touch()
    for one in (hanging, served):
        assert problem(one.result()) == (403, "no-sandbox")  # what the program pretends to be never was one
