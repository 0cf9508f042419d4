"""The page of secrets names each secret that settings, the key store, the compose file and the chart have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError

from ptkstore.adapters.keys import FileKeyStore, FileSigner
from ptkstore.domain.streams.windows import WindowId
from ptkstore.settings import Settings, shown_value

HIDDEN = "0123456789abcdefghij"


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs/guide/secrets.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def rows(page: str) -> list[str]:
    """The rows of its tables."""
    return re.findall(r"^\| (?!secret |---).*\|$", page, re.MULTILINE)


def secret_settings() -> Iterator[str]:
    """The settings whose value can have a secret in it, which is then masked."""
    for name, field in Settings.model_fields.items():
        if "str" in str(field.annotation):
            for value in (HIDDEN, f"redis://user:{HIDDEN}@host/0"):
                try:
                    settings = Settings.model_validate({name: value})
                except ValidationError:
                    continue
                if HIDDEN not in shown_value(settings, name):
                    yield f"PTK_{name.upper()}"
                    break


def test_each_setting_that_is_masked_is_on_the_page(rows: list[str]) -> None:
    masked = set(secret_settings())
    assert masked >= {"PTK_METRICS_TOKEN", "PTK_DATABASE_URL", "PTK_REDIS_URL", "PTK_OTLP_ENDPOINT"}
    named = set(re.findall(r"`(PTK_\w+)`", "\n".join(rows)))
    of_others = {"PTK_TOKEN", "PTK_TICKET", "PTK_CONSUMER_REGISTRY_URL", "PTK_CONSUMER_REDIS_URL"}
    assert named - of_others == masked


def test_each_folder_of_the_key_store_is_on_the_page(page: str, tmp_path: Path) -> None:
    keys = FileKeyStore(tmp_path / "keys")
    keys.create_stream("trips")
    keys.sealing_key(WindowId("trips", 0))
    keys.draft_key("d")
    keys.ticket_key()
    keys.make_checkpoint_key("taxi.speed", "1")
    keys.put_secret("sub_1", "whsec_x")
    with keys.working("a ledger"):
        pass
    FileSigner(tmp_path / "keys").sign(datetime.now(UTC).isoformat().encode())
    there = {f"{one.name}{'/' * one.is_dir()}" for one in (tmp_path / "keys").iterdir()}
    assert {"windows/", "signing/", "webhooks/", "devices/", "ledger.id"} <= there
    named = set(re.findall(r"`([a-z]+/|ledger\.id)", page))
    assert there <= named


def test_each_secret_of_the_compose_file_and_of_the_chart_is_on_the_page(
    rows: list[str], repository: Path
) -> None:
    told = "\n".join(rows)
    env = re.findall(r"^(\w+)=$", (repository / "infra/compose.env").read_text(), re.MULTILINE)
    templates = (repository / "infra/helm/ptkstore/templates").rglob("*")
    chart = "\n".join(one.read_text() for one in templates if one.is_file())
    of_chart = set(
        re.findall(r"\b(?:database-url|[a-z0-9]+(?:-[a-z0-9]+)*-(?:url|password|token|key))\b", chart)
    )
    assert len(env) >= 6
    assert {"database-url", "s3-secret-key", "devices-redis-password"} <= of_chart
    assert [one for one in (*env, *sorted(of_chart)) if f"`{one}`" not in told] == []


def test_each_row_says_where_who_how_and_what_for(rows: list[str]) -> None:
    assert len(rows) >= 20
    assert {row.count(" | ") for row in rows} == {4}
