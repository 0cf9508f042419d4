"""Why a device sends nothing, and what became of what it sent.

DeviceError
├── Refused             the device refuses; nothing that depends on its rows has left it
│   ├── NotAllowed      a specification asks for more than this device allows; ask the person
│   ├── LimitReached    the reports that the stream or the person allows are used up
│   └── UntrustedAnswer the server said what cannot be right
├── OdometerError       the file of losses cannot be trusted or written; nothing was sent
├── ServerRefused       the server refused, with a code
└── NoAnswer            the server cannot be reached, or gave no whole answer in time

Messages name columns, limits and public numbers. They hold no ticket, no row, and no text that a server wrote.
"""

from ptklib.draw_discard.limits import Limits
from ptklib.exceptions import PtklibError


class DeviceError(PtklibError):
    """Parent of what stops a contribution."""

    counted: bool = False
    """Whether the odometer counts a report for it: the report has, or may have, left the device."""


class Refused(DeviceError):
    """The device refuses. It has drawn noise for nobody, and the odometer is as it was."""


class NotAllowed(Refused):
    """A specification asks for more than this device allows: another report, a larger loss, or a new column."""

    def __init__(self, message: str, asked: Limits) -> None:
        super().__init__(message)
        self.asked = asked
        """Limits that would do: `Device.allow` takes them, once the person has agreed."""


class LimitReached(Refused):
    """The reports that the stream or the person allows are used up."""

    def __init__(self, message: str, *, for_good: bool) -> None:
        super().__init__(message)
        self.for_good = for_good
        """False if a later window has room."""


class UntrustedAnswer(Refused):
    """The server said what cannot be right, or what it said before was something else."""


class OdometerError(DeviceError):
    """The odometer is damaged, older than it was, or cannot be written: nothing is sent."""


class ServerRefused(DeviceError):
    """A ticket or a report was not taken; `code` says why."""

    def __init__(self, code: str, status: int, *, counted: bool = False) -> None:
        super().__init__(f"the server refused: {code} ({status})")
        self.code = code
        self.status = status
        self.counted = counted


class NoAnswer(DeviceError):
    """The server cannot be reached, or gave no whole answer in time; try again later."""

    def __init__(self, message: str, *, counted: bool = False) -> None:
        super().__init__(message)
        self.counted = counted
