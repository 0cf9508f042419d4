"""The loss of one person in several streams as a document of the HTTP API and the command line, and back again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.ledger.reports import loss_json
from ptkstore.domain.streams.persons import HOLDS, PROOF, RULE, UNTIL_NOW, PersonLoss, StreamLoss
from ptkstore.domain.streams.policies import PrivacyUnit
from ptkstore.sdk.documents.resources import loss_of


def person_loss_document(person: PersonLoss) -> dict[str, Any]:
    """Write the loss to each stream, the sum, and what it rests on."""
    return {
        "streams": [
            {
                "stream": one.stream,
                "privacy_unit": one.privacy_unit.value,
                "windows": one.windows,
                "spent": loss_json(one.spent),
                "at_most": loss_json(one.at_most),
                "rule": one.rule,
                "minimum_assurance": one.minimum_assurance.value,
                "asserted_ptks": list(one.asserted_ptks),
            }
            for one in person.streams
        ],
        "together": {"spent": loss_json(person.spent), "at_most": loss_json(person.at_most)},
        "rule": RULE,
        "holds": HOLDS,
        "until_now": UNTIL_NOW,
        "proof": PROOF,
    }


def person_loss_of(document: Mapping[str, Any]) -> PersonLoss:
    """Read the loss that `person_loss_document` wrote; the sum is added up again."""
    return PersonLoss(
        tuple(
            StreamLoss(
                one["stream"],
                PrivacyUnit(one["privacy_unit"]),
                one["windows"],
                loss_of(one["spent"]),
                loss_of(one["at_most"]),
                one["rule"],
                Assurance(one["minimum_assurance"]),
                tuple(one["asserted_ptks"]),
            )
            for one in document["streams"]
        )
    )
