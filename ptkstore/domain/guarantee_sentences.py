"""The guarantee of a PTK in one sentence."""

from __future__ import annotations

import math

from ptkstore.domain.accounting.assurances import assured
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.versions.provenance import unit_words


def guarantee_sentence(spec: PtkSpec, privacy_unit: str | None) -> str:
    """Return the guarantee of a training, in one sentence."""
    epsilon, delta = spec.loss.epsilon, spec.loss.delta
    if spec.is_averaged:
        subject, unit = "One report of a device", "the rows of a device in it"
    else:
        subject, unit = "One training", unit_words(privacy_unit)
    if not (vouched := assured(spec.assurance, spec.ptk_id)).proven:
        subject = f"Team {vouched.by} asserts that {subject[0].lower()}{subject[1:]}"
    factor = f"e^{epsilon:g} = {math.exp(epsilon):.3g}" if epsilon < 20 else f"e^{epsilon:g}"
    beyond = f", and a further probability of {delta:g}" if delta else ""
    return (
        f"{subject} is ({epsilon:g}, {delta:g})-differentially private: whether {unit} is there or not changes the "
        f"probability of any output by a factor of at most {factor}{beyond}."
    )
