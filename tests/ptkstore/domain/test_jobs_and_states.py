"""Waiting, ticks, names of work; manifests and messages."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptklib.canonical_json import canonical_json
from ptkstore.domain.jobs import Job, JobKind, JobState, backoff, cursor, job_id, next_tick
from ptkstore.domain.ledger.journal import Entry, EntryKind
from ptkstore.domain.ptks.ptks import same_model
from ptkstore.domain.streams.blocks import BlockSet
from ptkstore.domain.subscriptions import Subscription, event_of, message_id
from ptkstore.domain.versions.manifests import content_of, elected_manifest
from ptkstore.domain.versions.versions import (
    Draft,
    StateFile,
    Version,
    table_file_name,
    table_files,
    version_path,
)
from tests.support.builders import PTK, STREAM, ptk_spec, request, stream_named

NOW = datetime(2026, 1, 10, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def test_waits_double_up_to_the_longest() -> None:
    waits = [backoff(n, first=SECOND, most=10 * SECOND) for n in (0, 1, 2, 3, 4, 5, 10**9)]
    assert [w / SECOND for w in waits] == [1, 1, 2, 4, 8, 10, 10]


@given(
    micros=st.integers(-(10**15), 4 * 10**15),
    tick=st.sampled_from([0.001, 0.25, 2.0, 7.0, 3600.0]),
)
def test_the_next_tick_is_the_first_multiple_that_is_not_past(micros: int, tick: float) -> None:
    epoch, every = datetime(1970, 1, 1, tzinfo=UTC), timedelta(seconds=tick)
    now = epoch + timedelta(microseconds=micros)
    chosen = next_tick(now, every)
    assert timedelta(0) <= chosen - now < every
    assert (chosen - epoch) % every == timedelta(0)


def test_the_same_work_has_the_same_id() -> None:
    assert job_id(JobKind.TRAIN, "taxi.speed", 3) == "train/taxi.speed/3"
    assert job_id(JobKind.TRAIN, "taxi.speed", 3, look=1) == "train/taxi.speed/3"  # as older catalogs have it
    assert job_id(JobKind.TRAIN, "taxi.speed", 3, look=2) == "train/taxi.speed/3/2"
    made = cursor(JobKind.NOTIFY, "taxi", "taxi.speed", NOW, subscription_id="sub_1")
    assert (made.id, made.state, made.position) == ("notify/sub_1", JobState.IDLE, 0)
    assert cursor(JobKind.FLIP, "taxi", "taxi.speed", NOW).id == "flip/taxi.speed"


def test_a_model_is_the_same_when_only_its_loss_differs() -> None:
    def spec(**params: object) -> dict[str, object]:
        return {"family": "CountFeaturizer", "params": params}

    one = spec(epsilon=0.1, delta=0, features=["a"])
    assert same_model(one, spec(epsilon=0.2, delta=1e-9, features=["a"]))
    assert not same_model(one, spec(epsilon=0.1, delta=0, features=["b"]))
    assert not same_model(one, {**one, "family": "HistoricalStatistics"})


# manifests


def test_canonical_json_is_one_text_for_one_value() -> None:
    assert canonical_json({"b": [1, 2.5], "a": "ü"}) == '{"a":"ü","b":[1,2.5]}'
    for wrong in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match="JSON compliant"):
            canonical_json({"a": wrong})


def manifest(
    state: Mapping[str, object] | None = None,
    target: float = 0.1,
    blocks: tuple[int, ...] = (2, 4),
    windows: tuple[int, ...] = (2,),
) -> str:
    name = job_id(JobKind.TRAIN, PTK, 2)
    job = Job(name, JobKind.TRAIN, STREAM, JobState.OPENED, NOW, window_index=2, ptk_id=PTK, n_rows=10)
    spend = Entry(
        2, EntryKind.SPEND, replace(request(name), blocks=BlockSet(blocks)), '{"mechanism":"laplace"}', ""
    )
    draft = Draft("d", (StateFile("statistics-ab.parquet", 7, "ab"),), state or {"z": 1, "a": 2})
    spec = replace(ptk_spec(), target=target)
    content = content_of(job, spec, stream_named(), spend, draft, windows=windows, previous=None)
    return elected_manifest(content, NOW, number=3)


def test_a_manifest_is_canonical_and_tells_its_files_by_size_and_hash() -> None:
    content = json.loads(manifest())
    assert manifest() == canonical_json(content)
    assert manifest(state={"a": 2, "z": 1}) == manifest()
    assert content["files"] == [{"name": "statistics-ab.parquet", "size": 7, "sha256": "ab"}]
    assert (content["format_version"], content["version"]) == (1, 3)
    assert content["published_at"] == "2026-01-10T00:00:00+00:00"


def test_the_manifest_of_a_training_is_the_same_text_for_ever() -> None:
    window = '{"end":"2026-01-08T00:00:00+00:00","index":2,"start":"2026-01-07T00:00:00+00:00"}'
    assert manifest() == (
        '{"blocks":[{"delta_atto":0,"epsilon_nano":100000000,"last":3,"number":2,"stream":"taxi"}],'
        '"config":{"family":"HistoricalStatistics","params":{"epsilon":0.1}},"family":"HistoricalStatistics",'
        '"files":[{"name":"statistics-ab.parquet","sha256":"ab","size":7}],"format_version":1,'
        '"guarantee":{"accountant":"renyi","assurance":"library","delta":0.0,"epsilon":0.1,'
        '"event":{"mechanism":"laplace"},"privacy_unit":"record","relation":"add_remove"},"made_from":[],'
        f'"newest_contributing_window":{window},"oldest_contributing_window":{window},'
        '"planned":{"n":10,"rate":0.001,"rows_per_window":10000},"ptk_id":"taxi.speed",'
        '"published_at":"2026-01-10T00:00:00+00:00","release_decision":"elected","schema":{},'
        '"state":{"a":2,"z":1},"tau":0.1,"version":3}'
    )


def test_the_manifest_of_a_training_over_windows_names_each_and_what_its_blocks_lost() -> None:
    content = json.loads(manifest(blocks=(2, 4, 130, 131, 258, 260), windows=(0, 1, 2)))
    charged = [(one["number"], one.get("last"), one["epsilon_nano"]) for one in content["blocks"]]
    assert charged == [(2, 3, 10**8), (130, None, 10**8), (258, 259, 10**8)]
    assert content["windows"] == [0, 1, 2]
    spans = (content["oldest_contributing_window"]["index"], content["newest_contributing_window"]["index"])
    assert spans == (0, 2)
    assert content["planned"]["rate"] == 10 / 30_000


def test_the_rate_is_that_of_the_plan_also_where_a_window_had_expired_before_it_was_opened() -> None:
    content = json.loads(manifest(blocks=(2, 4, 130, 131, 258, 260), windows=(1, 2)))
    assert (content["windows"], content["planned"]["rate"]) == ([1, 2], 10 / 30_000)


def test_the_hash_of_a_version_covers_every_byte_of_its_manifest() -> None:
    def version(text: str) -> Version:
        return Version("taxi.speed", 3, "job", "draft", 2, NOW, text)

    assert version(manifest()).sha256 == version(manifest()).sha256
    assert version(manifest()).sha256 != version(manifest(target=0.2)).sha256
    assert version(manifest()).content["tau"] == 0.1


def test_places_and_names_sort_as_they_should() -> None:
    assert version_path("taxi.speed", 12) == "ptks/taxi.speed/v00000012"
    assert table_file_name("statistics", "ab") == "statistics-ab.parquet"


def test_of_a_state_its_tables_are_listed_by_content() -> None:
    digest = hashlib.sha256(b"rows").hexdigest()
    files, contents = table_files({"state.json": b"{}", "weights.parquet": b"rows"})
    assert files == (StateFile(f"weights-{digest}.parquet", 4, digest),)
    assert contents == {f"weights-{digest}.parquet": b"rows"}


def test_a_message_is_thin_and_has_one_id_for_all_attempts() -> None:
    version = Version("taxi.speed", 3, "job", "draft", 2, NOW, manifest())
    span = {"index": 2, "start": "2026-01-07T00:00:00+00:00", "end": "2026-01-08T00:00:00+00:00"}
    subscription = Subscription("sub_1", "taxi.speed", "https://example.org/hook")
    assert message_id(subscription.id, 3) == "msg_sub_1_00000003"
    assert event_of(version, "file:///lake/manifest.json") == {
        "type": "ptk.state.published",
        "timestamp": "2026-01-10T00:00:00+00:00",
        "data": {
            "ptk_id": "taxi.speed",
            "version": 3,
            "manifest_url": "file:///lake/manifest.json",
            "sha256": version.sha256,
            "windows": {"oldest": span, "newest": span},
            "guarantee": {
                "accountant": "renyi",
                "assurance": "library",
                "delta": 0.0,
                "epsilon": 0.1,
                "event": {"mechanism": "laplace"},
                "privacy_unit": "record",
                "relation": "add_remove",
            },
        },
    }
