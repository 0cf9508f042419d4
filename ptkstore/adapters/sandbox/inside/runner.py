"""The program that runs team code: it seals itself, reads one message, loads the code, answers.

It is started by bubblewrap, without environment or files of ours, and reached by two pipes. Up to the loading of the
code it is ours; from then on nothing that it says is believed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from ptkstore.adapters.sandbox.confinement.seal import Seal, seal
from ptkstore.adapters.sandbox.messages.team_code import SEALED, TEXT_MAX, message, split

CODE: Final = Path("code")
"""Where a bundle is unpacked: below the temporary directory, which nobody else sees and which dies with the run."""


def main(answer_fd: int) -> None:
    """Serve one message."""
    os.set_inheritable(answer_fd, False)
    with os.fdopen(answer_fd, "wb") as pipe:
        header, parts = split(sys.stdin.buffer.read())
        seal(Seal(**header["seal"]))
        pipe.write(SEALED)
        pipe.flush()
        printed = _Printed(kept=header["do"] == "examine")
        match header["do"]:
            case "probe":
                from ptkstore.adapters.sandbox.inside.probe import breaches

                answer = message({"breaches": list(breaches(header, (0, 1, 2, answer_fd, printed.number)))})
            case "examine":
                _load(parts)
                from ptkstore.adapters.sandbox.inside.examining import examined

                report = examined(header["estimator"], header["runs"])
                answer = message({**report, "printed": printed.text()})
            case "losses":
                _load(parts)
                from ptkstore.adapters.sandbox.inside.loading import losses

                answer = losses(header, parts)
            case _:
                _load(parts)
                from ptkstore.adapters.sandbox.inside.loading import trained

                answer = trained(header, parts)
        pipe.write(answer)


def _load(parts: dict[str, memoryview]) -> None:
    """Unpack the bundle where its modules can be imported."""
    from ptkstore.domain.ptks.bundles import unpack

    for path, content in unpack(bytes(parts["bundle"])).items():
        place = CODE / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    sys.path.insert(0, str(CODE.resolve()))


class _Printed:
    """Takes what is printed from here on, also by libraries that know nothing of Python.

    Of runs on real rows nothing is kept; of others the end.
    """

    def __init__(self, *, kept: bool) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND if kept else os.O_RDWR
        self.number = os.open("printed" if kept else os.devnull, flags, 0o600)
        for number in (1, 2):
            os.dup2(self.number, number)

    def text(self) -> str:
        """Return the end of it."""
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        start = max(0, os.fstat(self.number).st_size - 4 * TEXT_MAX)
        return os.pread(self.number, 4 * TEXT_MAX, start).decode(errors="replace")
