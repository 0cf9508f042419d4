"""How much a simulation computes: it is counted while it runs, and stopped at a limit."""

from __future__ import annotations

from dataclasses import dataclass

from ptkstore.errors import InvalidRequest

CHARGE = 1_000
"""Steps of computing what a loss is charged."""
CALIBRATION = 150_000
"""Steps of that where the noise of sampled rows has to be found for the loss, as for gradient descent."""


@dataclass(slots=True)
class Work:
    """Steps that were computed, and how many may be.

    A step is about what one processor does in a microsecond. The same simulation takes the same steps everywhere.
    """

    most: int | None = None
    done: int = 0

    def count(self, steps: int) -> None:
        """Add steps.

        Raises
        ------
        InvalidRequest
            There are more than may be.
        """
        self.done += steps
        if self.most is not None and self.done > self.most:
            raise InvalidRequest(
                f"the simulation computes more than {self.most} steps; ask for fewer windows, a lower rate or one "
                "scheduler at a time"
            )
