"""The manifest of a version that a training made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ptklib.canonical_json import canonical_json
from ptkstore.domain.accounting.accountants import Accountant
from ptkstore.domain.accounting.local import LocalLoss
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.jobs import Job
from ptkstore.domain.ledger.journal import Entry
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.streams.blocks import windows_behind
from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import start_of
from ptkstore.domain.versions.provenance import LOCAL
from ptkstore.domain.versions.versions import FORMAT_VERSION, Draft, Version, origin_of

ACCEPTED = "accepted"
"""How a version came to be that passed its validation."""


def elected_manifest(content: Mapping[str, Any], published_at: datetime, number: int) -> str:
    """Write the canonical manifest of a version of this content that a training elects."""
    elected = {"version": number, "release_decision": "elected", "published_at": published_at.isoformat()}
    return canonical_json({**content, **elected})


def is_accepted(manifest: Mapping[str, Any]) -> bool:
    """Return whether a version came from a validation, and repeats no other."""
    return manifest.get("release_decision") == ACCEPTED


def accepted_manifest(
    content: Mapping[str, Any], published_at: datetime, verdict: Mapping[str, Any], number: int
) -> str:
    """Write the canonical manifest of a version of this content that passed its validation."""
    accepted = {"version": number, "release_decision": ACCEPTED, "published_at": published_at.isoformat()}
    return canonical_json({**content, **accepted, "verdict": verdict})


def content_of(
    job: Job,
    spec: PtkSpec,
    stream: Stream,
    spend: Entry,
    draft: Draft,
    *,
    windows: Sequence[int],
    previous: Version | None,
) -> dict[str, Any]:
    """Return what a manifest says of a trained state (DESIGN section 4, "Lake"): public values and DP output only.

    The draft's facts are made of the state of this version alone. Number and time are those of the election.

    Parameters
    ----------
    windows : sequence of int
        The windows whose rows were opened, rising.
    previous : Version or None
        The version whose state went into this one.
    """
    policy, loss = stream.policy, spend.loss
    planned = windows_behind(
        policy, spend.blocks, windows[-1]
    )  # some may have expired before they were opened
    before: Mapping[str, Any] = previous.content if previous else {}
    first = _span(policy, windows[0])
    charged = [
        {
            "stream": stream.name,
            "number": one.lo,
            **({"last": one.hi - 1} if one.hi - one.lo > 1 else {}),
            "epsilon_nano": loss.epsilon_nano,
            "delta_atto": loss.delta_atto,
        }
        for one in spend.blocks.ranges
    ]
    return {
        **_of_draft(spec, draft),
        "tau": spec.target,
        "blocks": [*before.get("blocks", []), *charged],
        "oldest_contributing_window": min(
            (before.get("oldest_contributing_window", first), first), key=lambda one: one["index"]
        ),
        "newest_contributing_window": _span(policy, windows[-1]),
        **({"windows": list(windows)} if len(windows) > 1 else {}),
        "guarantee": {
            "epsilon": loss.epsilon,
            "delta": loss.delta,
            "event": spend.event,
            **_unit(policy),
            "relation": policy.relation,
            "accountant": policy.accountant,
            "assurance": spec.assurance,
        },
        "planned": {
            "rows_per_window": policy.rows_per_window,
            "n": job.n_rows,
            "rate": job.n_rows / (policy.rows_per_window * len(planned)),
            **({"facts_of": job.facts_of} if job.facts_of else {}),
        },
        "made_from": [origin_of(previous)] if previous else [],
        **({} if draft.facts is None else {"facts": draft.facts}),
    }


def local_content_of(
    job: Job,
    spec: PtkSpec,
    stream: Stream,
    draft: Draft,
    local: LocalLoss,
    instances: Mapping[str, Any],
    begun: Version | None,
) -> dict[str, Any]:
    """Return what a manifest says of a state that devices trained: no block was charged, so it names its stream.

    Parameters
    ----------
    job : Job
        Of the window as whose close the instances were averaged.
    local : LocalLoss
        The loss of each device.
    instances : mapping
        The averaged instances: the id of their `epoch`, `k`, `spread`, how far they `moved` and may have, and how many
        `reports` there were, in all and since the version before.
    begun : Version or None
        The central version that its model began with.
    """
    window = _span(stream.policy, job.window.index)
    return {
        **_of_draft(spec, draft),
        "stream": stream.name,
        "blocks": [],
        "oldest_contributing_window": window,
        "newest_contributing_window": window,
        "guarantee": {
            "model": LOCAL,
            "of": "one report of a device",
            **_amounts(local.report),
            "one_weight": _amounts(local.one_weight),
            "reports_per_window": local.reports_per_window,
            "reports_in_all": local.reports_in_all,
            "one_window": _amounts(local.one_window),
            "in_all": _amounts(local.in_all),
            "event": local.event,
            "privacy_unit": stream.policy.privacy_unit,
            "relation": "any-two-tables",
            "accountant": Accountant.BASIC,
            "assurance": spec.assurance,
            "clip": local.clip,
            "max_norm": local.max_norm,
            "noise": local.noise,
            "specification": local.specification,
        },
        "instances": instances,
        "made_from": [] if begun is None else [origin_of(begun)],
        **({} if begun is None else {"start_from": {"ptk": begun.ptk_id, "version": begun.number}}),
    }


def _of_draft(spec: PtkSpec, draft: Draft) -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "ptk_id": spec.ptk_id,
        "files": [{"name": f.name, "size": f.size, "sha256": f.sha256} for f in draft.files],
        "state": draft.state,
        "schema": spec.tables,
        "family": spec.family,
        "config": spec.estimator,
    }


def _amounts(loss: Loss) -> dict[str, float]:
    return {"epsilon": loss.epsilon, "delta": loss.delta}


def _span(policy: Policy, window: int) -> dict[str, Any]:
    return {
        "index": window,
        "start": start_of(policy, window).isoformat(),
        "end": start_of(policy, window + 1).isoformat(),
    }


def _unit(policy: Policy) -> dict[str, object]:
    """The unit of the guarantee; for users also how many of a user's rows a window keeps."""
    if policy.unit_column is None:
        return {"privacy_unit": policy.privacy_unit}
    return {
        "privacy_unit": policy.privacy_unit,
        "unit_column": policy.unit_column,
        "max_rows_per_unit": policy.max_rows_per_unit,
    }
