"""The part of a block's loss that the library proves, and the part that is the word of teams."""

from __future__ import annotations

from dataclasses import dataclass

from ptkstore.domain.accounting.losses import NO_LOSS, Loss


@dataclass(frozen=True, slots=True)
class LossShares:
    """What proven releases alone, and all others alone, cost one line of a block.

    Each part is added up by the filter of the stream, as if the others had not been. Under basic composition the two
    add up to what is spent. Under renyi and zcdp each is at most what is spent, and their sum may be more.
    """

    library: Loss = NO_LOSS
    asserted: Loss = NO_LOSS
