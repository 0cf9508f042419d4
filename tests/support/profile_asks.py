"""What a PTK asks of a profile set."""

from __future__ import annotations

from ptkstore.domain.ptks.profiles import ProfileAsk
from tests.support.builders import STREAM

ASK = ProfileAsk(
    STREAM, "common", "f" * 64, 0.2, (0.1, 0.5), 1.0, 64, 256, 2.0, 4, (0.0, 1.0), "rows", 100, 0.95, 3, 1_000, (0, 1),
    30, None,
)  # fmt: skip
