"""Every form of a notice's subject, as this program and all before it write it."""

from __future__ import annotations

from typing import Any

from ptkstore.domain.jobs import JobKind

SUBJECTS: dict[str, dict[str, Any]] = {
    "taxi": {"stream": "taxi"},
    "taxi window 0": {"stream": "taxi", "window_index": 0},
    "taxi ads.speed": {"stream": "taxi", "ptk_id": "ads.speed"},
    "taxi.speed": {"ptk_id": "taxi.speed"},
    "taxi.speed window 12": {"ptk_id": "taxi.speed", "window_index": 12},
    "taxi.speed version 3": {"ptk_id": "taxi.speed", "version": 3},
    "taxi.speed profile": {"ptk_id": "taxi.speed", "run": JobKind.PROFILE},
    "taxi.speed profile of window 2": {"ptk_id": "taxi.speed", "run": JobKind.PROFILE, "window_index": 2},
    "taxi.speed drift of window 2": {"ptk_id": "taxi.speed", "run": JobKind.DRIFT, "window_index": 2},
    "taxi.speed evaluate of window 2": {"ptk_id": "taxi.speed", "run": JobKind.EVALUATE, "window_index": 2},
    "taxi.speed evaluation of version 1": {"ptk_id": "taxi.speed", "run": JobKind.EVALUATE, "version": 1},
    "taxi.speed v2 to sub_1": {"ptk_id": "taxi.speed", "version": 2, "subscription_id": "sub_1"},
    "taxi.speed to sub_1": {"ptk_id": "taxi.speed", "subscription_id": "sub_1"},
}
"""By subject, the fields of the notice."""
