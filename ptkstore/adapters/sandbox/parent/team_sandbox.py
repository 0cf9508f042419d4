"""`Sandbox` by bubblewrap: tests itself, and examines team code on synthetic rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ptkstore.adapters.sandbox.confinement.bubblewrap import Bubblewrap
from ptkstore.adapters.sandbox.confinement.confined import Confined, run_confined
from ptkstore.adapters.sandbox.messages.codes import NO_SANDBOX
from ptkstore.adapters.sandbox.parent.fair_queue import FairQueue
from ptkstore.adapters.sandbox.processes.process import Limits
from ptkstore.errors import NoSandbox
from ptkstore.ports.team_code import Examined, Finding

_PROBE: Final = Limits(timeout_seconds=60.0, memory_bytes=1 << 30)
_AT_ONCE: Final = 2
_WAITING: Final = 2  # each takes a thread of the server, and code that hangs must not take them all


class BubblewrapSandbox:
    """Runs team code where there is nothing to see and nobody to talk to; `limits` are those of one examination."""

    def __init__(self, bubblewrap: Bubblewrap, limits: Limits) -> None:
        self._bubblewrap = bubblewrap
        self._limits = limits
        self._queue = FairQueue(_AT_ONCE, _WAITING)

    def check(self) -> None:
        """Try to break out; `NoSandbox` unless every attempt fails as it should."""
        from ptkstore.adapters.sandbox.messages.team_code import NotAsDeclared, split

        ended = self._run({"do": "probe", "hidden": list(self._bubblewrap.hidden)}, b"", _PROBE)
        try:
            header, _ = split(ended.answer)
        except NotAsDeclared:
            raise NoSandbox(
                "team code is not run here: the sandbox does not start, so that nothing is known of its walls"
            ) from None
        breaches = header.get("breaches")
        if not isinstance(breaches, list) or breaches:
            names = ", ".join(map(str, breaches or ["its walls"]))
            raise NoSandbox(f"team code is not run here: the sandbox does not hold back {names}")

    def examine(self, estimator: Mapping[str, Any], bundle: bytes, runs: int, team: str = "") -> Examined:
        """Examine a bundle's code when it is its team's turn; what does not end well by itself has failed."""
        from ptkstore.adapters.sandbox.messages.team_code import NotAsDeclared, examined_from

        with self._queue.of(team, self._limits.timeout_seconds):
            self.check()
            order = {"do": "examine", "estimator": dict(estimator), "runs": runs}
            ended = self._run(order, bundle, self._limits)
        if ended.failure is None:
            try:
                return examined_from(ended.answer)
            except NotAsDeclared:
                pass
        why = f"it did not end by itself and well within {self._limits.timeout_seconds:g} seconds and its limits"
        return Examined(None, (Finding("ends", "failed", why),))

    def _run(self, header: Mapping[str, Any], bundle: bytes, limits: Limits) -> Confined:
        ended = run_confined(self._bubblewrap, header, (("bundle", bundle),), limits)
        if ended.failure == NO_SANDBOX:
            raise NoSandbox(
                "team code is not run here: bubblewrap or the kernel refuses what the sandbox is made of "
                "(user namespaces, seccomp)"
            )
        return ended
