"""The page of the codes that are no errors: how jobs and runs end, what notices say, why a message became a dead letter."""

from __future__ import annotations

from infra.docs.reference.marks import MADE
from ptkstore.domain.codes import GROUPS

INTRODUCTION = """\
# Codes of jobs, notices and dead letters

A job that ends, a notice and a dead letter each have a fixed code. It depends on no row. [Error codes](errors.md) are answers to requests.

| where | the code is | the address of its section here is |
|---|---|---|
| `ptk notices`, `GET /v1/notices` | `code` | `page`, over HTTP |
| `ptk show PTK`, `GET /v1/ptks/{ptk_id}/trainings` | `code`; `outcome` is the outcome of the job | `page`, over HTTP, of the code |
| `ptk deliveries SUBSCRIPTION`, `GET /v1/subscriptions/{subscription_id}/deliveries` | `code` of each dead letter | `page`, over HTTP |
| `missed` in a message to a subscriber | `code` of each dead letter | |
| the metric `ptk_jobs_ended` | `outcome`: the outcome of a job | |

A run that had opened rows keeps its loss, whatever its code. One that had not is not charged.
"""


def page() -> str:
    """Return the page."""
    parts = [INTRODUCTION, MADE, ""]
    for heading, codes in GROUPS.items():
        parts.append(f"## {heading}\n")
        for code, uses in codes.items():
            said = "\n".join(f"- **{where}**: {sentence}" for where, sentence in uses.items())
            parts.append(f"### {code}\n\n{said}\n")
    return "\n".join(parts)
