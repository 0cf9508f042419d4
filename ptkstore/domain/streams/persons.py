"""The loss of one person who has rows in several streams: the sum of what the person loses to each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.accounting.losses import ATTO, NO_LOSS, Loss
from ptkstore.domain.streams.guarantees import all_lines, protections
from ptkstore.domain.streams.policies import Policy, PrivacyUnit

PROOF = "docs/proofs/several-streams.md"

RULE = (
    "basic composition over streams, however their requests are interleaved: epsilons add up and deltas add up "
    "(Vadhan, Wang 2021; Lyu 2022)"
)
"""How the losses of streams add up."""

HOLDS = (
    "a person has one id of the privacy unit in each stream; somebody with two ids in a stream loses to it twice. "
    "Rows elsewhere, streams of other stores, and outputs that come back as rows of a stream are not counted"
)
"""What the sum rests on."""

UNTIL_NOW = (
    "The promise is the loss at most. The loss until now is an odometer: it shows whether a level that was chosen "
    "beforehand is passed. For a stream with the unit user-in-window, both figures count the windows that have closed, "
    "and grow with each further window. So the loss at most is a promise for a number of windows that was fixed "
    "beforehand, or that the clock alone decides. Choose the streams beforehand, too"
)
"""How to read the two figures."""

_NO_PERSON = {
    PrivacyUnit.RECORD: (
        "its privacy unit is the record, and nothing bounds how many records a person has. So none of its figures "
        "bounds the loss of a person"
    ),
    PrivacyUnit.DEVICE: (
        "its rows stay on devices. The loss is of one device, against anyone who sees its reports. It does not bound "
        "the loss of a person with two devices, and it cannot be added to losses of blocks"
    ),
}


@dataclass(frozen=True, slots=True)
class StreamLoss:
    """The most that one person loses to a stream, to whoever reads all of its lines.

    `spent` is the loss until now, and `at_most` the loss once all budget of the blocks is spent. `rule` says how they
    follow from the loss of a privacy unit. PTKs in `asserted_ptks`, registered or gone, spend on their teams' word.
    """

    stream: str
    privacy_unit: PrivacyUnit
    windows: int
    spent: Loss
    at_most: Loss
    rule: str
    minimum_assurance: Assurance
    asserted_ptks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PersonLoss:
    """The most that one person who is in all of these streams loses to them together."""

    streams: tuple[StreamLoss, ...]

    @property
    def spent(self) -> Loss:
        """The loss until now."""
        return summed(one.spent for one in self.streams)

    @property
    def at_most(self) -> Loss:
        """The loss once all budget of the streams' blocks is spent."""
        return summed(one.at_most for one in self.streams)


def why_no_person(policy: Policy) -> str | None:
    """Say why no figure of a stream bounds the loss of one person; None where one does."""
    return _NO_PERSON.get(policy.privacy_unit)


def loss_to(
    stream: str, policy: Policy, spent: Loss, windows: int, asserted_ptks: tuple[str, ...] = ()
) -> StreamLoss:
    """Return what one person loses to a stream at most, of a unit that `why_no_person` does not refuse.

    Parameters
    ----------
    spent : Loss
        Of the worst block until now, all lines together.
    windows : int
        Those that have closed by then, or later.
    """
    now, most = (protections(policy, loss, windows)[-1] for loss in (spent, all_lines(policy)))
    return StreamLoss(
        stream,
        policy.privacy_unit,
        windows,
        now.loss,
        most.loss,
        now.rule,
        policy.minimum_assurance,
        asserted_ptks,
    )


def summed(losses: Iterable[Loss]) -> Loss:
    """Add losses up; a delta is a probability, so it is at most 1."""
    total = sum(losses, NO_LOSS)
    return Loss(total.epsilon_nano, min(ATTO, total.delta_atto))
