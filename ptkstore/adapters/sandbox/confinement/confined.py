"""Run the program of team code once in the sandbox: one message in, one message out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ptkstore.adapters.sandbox.confinement.bubblewrap import Bubblewrap, a_new_uid
from ptkstore.adapters.sandbox.confinement.seal import Seal
from ptkstore.adapters.sandbox.messages.codes import NO_SANDBOX, TEAM_CODE_FAILED
from ptkstore.adapters.sandbox.processes.process import LONGEST_ANSWER, USUAL_LIMITS, Limits, run_child

if TYPE_CHECKING:
    from ptkstore.adapters.sandbox.messages.team_code import Parts


@dataclass(frozen=True, slots=True)
class Confinement:
    """The confinement of team code: a sandbox, the limits of each run, and the end of all of them.

    `ends` is in seconds of `time.monotonic`.
    """

    bubblewrap: Bubblewrap = field(default_factory=Bubblewrap)
    limits: Limits = USUAL_LIMITS
    ends: float = math.inf

    def in_half_the_time(self) -> Confinement:
        """Return one that stops team code, all its runs together, before the parent ends the process that starts them.

        A run that takes too long is counted then, as the largest loss. Otherwise the process would end with a code of
        its own, which tells of rows without noise.
        """
        return replace(self, ends=time.monotonic() + self.limits.timeout_seconds / 2)

    def limits_now(self) -> Limits:
        """Return the limits of a run that starts now; after the end, there is no time."""
        left = max(0.0, self.ends - time.monotonic())
        return replace(self.limits, timeout_seconds=min(self.limits.timeout_seconds, left))


USUAL_CONFINEMENT: Final = Confinement()


@dataclass(frozen=True, slots=True)
class Confined:
    """The result: an answer, or the code of why there is none."""

    answer: bytes
    failure: str | None = None


def run_confined(
    bubblewrap: Bubblewrap,
    header: Mapping[str, Any],
    parts: Parts,
    limits: Limits,
    keep_alive: Callable[[], None] = lambda: None,
    *,
    longest_answer: int = LONGEST_ANSWER,
) -> Confined:
    """Run it once; nothing of it outlives the call.

    Whatever the code did, there is one failure: an error, a time-out, too much memory and a wrong answer tell apart
    what it saw, and nobody pays for that. `NoSandbox` where there is no bubblewrap.

    Parameters
    ----------
    bubblewrap, limits
        The sandbox.
    header, parts
        The message.
    keep_alive : callable
        Called about once a second; if it raises, the process is killed first.
    longest_answer : int
        A process that answers with more bytes has failed.
    """
    from ptkstore.adapters.sandbox.messages.team_code import SEALED, message

    seal = Seal(a_new_uid(), limits.memory_bytes, limits.cpu_seconds)
    ended = run_child(
        bubblewrap.argv(),
        message({**header, "seal": asdict(seal)}, parts),
        limits=limits,
        directory=Path("/"),
        environment={},
        keep_alive=keep_alive,
        longest_answer=longest_answer,
    )
    if not ended.answer.startswith(SEALED):
        return Confined(b"", TEAM_CODE_FAILED if ended.timed_out else NO_SANDBOX)
    if ended.timed_out or ended.status != 0 or len(ended.answer) > longest_answer:
        return Confined(b"", TEAM_CODE_FAILED)
    return Confined(ended.answer[len(SEALED) :])
