"""Whatever opens rows, as the service sees it: each run is one short-lived child process."""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType
from typing import TYPE_CHECKING, TypeVar

from ptkstore.adapters.sandbox.messages.codes import (
    BAD_OUTPUT,
    ROWS_CORRUPT,
    ROWS_GONE,
    TEAM_CODE_FAILED,
    UNDECLARED_VALUE,
)
from ptkstore.adapters.sandbox.messages.orders import SAID_OF_TEAM_CODE, decode_answer
from ptkstore.adapters.sandbox.parent.program import Program, failure_of
from ptkstore.domain.evaluations import GroupedMass, JudgedMass, RiskMass
from ptkstore.domain.ptks.profiles import Point, Verdict
from ptkstore.domain.versions.versions import Draft
from ptkstore.errors import CorruptObject, Unavailable, WindowGone
from ptkstore.ports.row_processes import (
    CollectRequest,
    Compared,
    CompareRequest,
    DriftRequest,
    EvaluateRequest,
    ForgetRequest,
    NoisyLosses,
    PrepareRequest,
    ProfileRequest,
    ReleaseRequest,
    Request,
    RunFailed,
    TrainRequest,
)

if TYPE_CHECKING:
    from ptkstore.ports.objects import Staging

_Answer = TypeVar("_Answer")
_INT64_END = 2**63


class ChildRuns:
    """Runs for every port that opens rows; the rows exist only inside a child and die with it.

    Workers live for weeks: rows that they had read would stay in their memory long after the window's expiry. Drafts
    are verified in `staging`, on the same tree as the program's.
    """

    def __init__(self, program: Program, *, staging: Staging) -> None:
        self._program = program
        self._staging = staging

    def train(self, request: TrainRequest, keep_alive: Callable[[], None]) -> Draft | RunFailed:
        """Train in a child and verify what it drafted."""
        library = request.bundle is None
        draft = self._answer(Draft, request, keep_alive)
        if isinstance(draft, RunFailed):
            return _told(draft, request)
        from ptkstore.adapters.sandbox.parent.draft_check import verified  # heavy
        from ptkstore.application.versions.servable import UndeclaredValue

        try:
            sound = verified(draft, request, self._staging)
        except UndeclaredValue:
            return RunFailed(UNDECLARED_VALUE)
        return sound or RunFailed(BAD_OUTPUT if library else TEAM_CODE_FAILED)

    def collect(self, request: CollectRequest, keep_alive: Callable[[], None]) -> RunFailed | None:
        """Collect in a child; what it wrote is looked at by the training alone, in a process of its own."""
        return self._answer(NoneType, request, keep_alive)

    def profile(
        self, request: ProfileRequest, keep_alive: Callable[[], None]
    ) -> tuple[Point, ...] | RunFailed:
        """Profile in a child."""
        points = self._answer(tuple[Point, ...], request, keep_alive)
        sound = isinstance(points, RunFailed) or _is_answer(points, request)
        return _told(points if sound else RunFailed(BAD_OUTPUT), request)

    def has_drifted(self, request: DriftRequest, keep_alive: Callable[[], None]) -> bool | RunFailed:
        """Test in a child."""
        return _told(self._answer(bool, request, keep_alive), request)

    def compare(self, request: CompareRequest, keep_alive: Callable[[], None]) -> Compared | RunFailed:
        """Compare in a child."""
        answer = self._answer(Compared, request, keep_alive)
        if isinstance(answer, Compared) and answer.above is not (answer.sealed is None):
            return RunFailed(BAD_OUTPUT)
        return answer

    def release(self, request: ReleaseRequest, keep_alive: Callable[[], None]) -> NoisyLosses | RunFailed:
        """Release in a child."""
        return self._answer(NoisyLosses, request, keep_alive)

    def evaluate(self, request: EvaluateRequest, keep_alive: Callable[[], None]) -> RiskMass | RunFailed:
        """Evaluate in a child."""
        mass = self._answer(request.answer, request, keep_alive)
        return _told(mass if _can_be_kept(mass) else RunFailed(BAD_OUTPUT), request)

    def prepare(self, request: PrepareRequest, keep_alive: Callable[[], None]) -> None:
        """Write the parts in a child."""
        self._write("prepared", request, keep_alive)

    def forget(self, request: ForgetRequest, keep_alive: Callable[[], None]) -> None:
        """Rewrite the window's files in a child."""
        self._write("rewritten", request, keep_alive)

    def _write(
        self, deed: str, request: PrepareRequest | ForgetRequest, keep_alive: Callable[[], None]
    ) -> None:
        """Have files written, or raise what says nothing of rows."""
        failed = self._answer(NoneType, request, keep_alive)
        if failed is None:
            return
        if failed.code == ROWS_GONE:
            raise WindowGone(f"rows of window {request.window} do not exist any more")
        if failed.code == ROWS_CORRUPT:
            raise CorruptObject(f"rows of window {request.window} are not what was stored")
        raise Unavailable(f"window {request.window} could not be {deed} now: {failed.code}")

    def _answer(
        self, expected: type[_Answer], request: Request, keep_alive: Callable[[], None]
    ) -> _Answer | RunFailed:
        """Return what the child said, true or not; anything but one well-formed answer is a fixed code."""
        ended = self._program.run(request, keep_alive)
        code = failure_of(ended)
        return decode_answer(expected, ended.answer) if code is None else RunFailed(code)


def _told(
    made: _Answer | RunFailed, request: TrainRequest | ProfileRequest | DriftRequest | EvaluateRequest
) -> _Answer | RunFailed:
    """The public result of a run: nobody learns how team code ended, or which ends it can be made to have."""
    if request.bundle is None or not isinstance(made, RunFailed) or made.code in SAID_OF_TEAM_CODE:
        return made
    return RunFailed(TEAM_CODE_FAILED)


def _can_be_kept(mass: RiskMass | RunFailed) -> bool:
    """Return whether a catalog takes these sums."""
    if isinstance(mass, RunFailed):
        return True
    numbers = [mass.lost, mass.kept]
    if isinstance(mass, JudgedMass):
        numbers += [mass.minimum.lost, mass.minimum.kept]
    if isinstance(mass, GroupedMass):
        if mass != GroupedMass.of(mass.groups):
            return False
        numbers += [number for one in mass.groups for number in (one.lost, one.kept)]
    return max(map(abs, numbers)) < _INT64_END


def _is_answer(points: tuple[Point, ...], request: ProfileRequest) -> bool:
    """Return whether these points can be the answer to a request."""
    counts = all(
        (point.verdict is not Verdict.UNREACHABLE) <= point.n <= request.ask.n_max for point in points
    )
    return counts and tuple(point.epsilon for point in points) == request.epsilons
