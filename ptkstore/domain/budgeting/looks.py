"""Looks at validation data: each is paid for, unless the data is public (differences.md B8)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ptkstore.errors import InvalidRequest, Refused


class NoLookLeft(Refused):
    """The validation data cannot pay for another look."""

    code = "no-look-left"

    def __init__(self) -> None:
        super().__init__("the validation data cannot pay for another look")


@dataclass(frozen=True, slots=True)
class Looks:
    """The unspent budget of the validation data, and the cost of one look.

    Parameters
    ----------
    left_nano, look_nano : int
        Of the test blocks, which are other blocks than those of the training.
    public : bool
        Declared: the data is known to everybody, so that looks are free.
    """

    left_nano: int
    look_nano: int
    public: bool = False

    def __post_init__(self) -> None:
        if self.left_nano < 0 or self.look_nano < 0 or (self.look_nano == 0 and not self.public):
            raise InvalidRequest("a look at validation data costs something, unless the data is public")

    @property
    def affordable(self) -> bool:
        """Whether one more look can be paid for. A training that cannot be validated is not begun."""
        return self.public or self.look_nano <= self.left_nano

    def after_one(self) -> Looks:
        """Return the budget after one look.

        Raises
        ------
        NoLookLeft
            It cannot be paid for.
        """
        if not self.affordable:
            raise NoLookLeft
        return self if self.public else replace(self, left_nano=self.left_nano - self.look_nano)


PUBLIC = Looks(0, 0, public=True)
