"""The guarantee of a PTK in a sentence: who asserts it, of what, with which delta."""

from __future__ import annotations

from dataclasses import replace

from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.guarantee_sentences import guarantee_sentence
from tests.support.builders import ptk_spec


def test_a_promise_names_who_asserts_it_and_a_delta() -> None:
    spec = ptk_spec()
    proven = guarantee_sentence(spec, "record")
    assert proven.startswith("One training is (0.1, 0)-differentially private: whether one record")
    assert "further probability" not in proven
    with_delta = replace(spec, loss=Loss.charge(0.1, 1e-6))
    assert guarantee_sentence(with_delta, "record").endswith(", and a further probability of 1e-06.")
    asserted = guarantee_sentence(replace(spec, assurance=Assurance.ASSERTED), "record")
    assert asserted.startswith("Team taxi asserts that one training is (0.1, 0)-differentially private")
