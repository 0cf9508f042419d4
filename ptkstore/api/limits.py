"""How much of anything the API takes."""

from __future__ import annotations

from dataclasses import dataclass

from ptkstore.settings import Settings
from ptkstore.wire.base import EXCHANGE_BYTES_MAX

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes, times in seconds."""

    threads: int = 12
    threads_outside: int = 24  # of requests that wait for a part outside of the service, such as name servers
    json_body: int = MIB
    exchange_body: int = EXCHANGE_BYTES_MAX
    exchanges_read: int = 4  # of those beyond `json_body`, at once
    exchanges_at_once: int = 2  # worked on: of a team half as many, so at least two
    report_body: int = 16 * MIB  # of the console's check of a report, which itself takes half of it
    ingest_body: int = 64 * MIB
    ingest_rows: int = 1_000_000
    ingest_decoded: int = 512 * MIB  # rows as columns in memory
    ingest_decoded_of_all: int = 1024 * MIB  # of all bodies at once; of one team half of it
    ingests_read: int = 16
    ingests_at_once: int = 4
    answer_within: float = 60.0
    body_within: float = 60.0  # all of it
    chunk_within: float = 10.0  # the next part of it
    bytes_per_second: float = 65_536.0  # of a body that may be long, after its first `chunk_within`
    requests_per_second: float = 300.0  # of one token; of a team twice as many
    journals_at_once: int = 3  # sums over whole journals of several streams
    journals_of_a_team: int = 2
    event_streams: int = 200
    event_streams_per_team: int = 50
    event_heartbeat: float = 15.0
    event_poll: float = 1.0
    event_stream_life: float = 3600.0
    versions_cached: int = 64 * MIB

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        """With what an operator may choose."""
        return cls(
            threads=settings.api_threads,
            ingest_body=settings.api_ingest_mib * MIB,
            ingest_decoded=8 * settings.api_ingest_mib * MIB,
            ingest_decoded_of_all=16 * settings.api_ingest_mib * MIB,
            answer_within=settings.api_timeout_seconds,
            requests_per_second=settings.api_requests_per_second,
            event_streams=settings.api_event_streams,
            event_streams_per_team=max(1, settings.api_event_streams // 4),
        )
