"""The program that opens rows: read one order, train, collect, prepare or forget, answer.

It composes its own adapters, as `ptkstore.wiring` does for the other programs. It starts as a fork server; each fork
lives for one order.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from ptkstore.adapters.sandbox.messages.codes import MEMORY_LIMIT, ROWS_CORRUPT, ROWS_GONE
from ptkstore.adapters.sandbox.messages.orders import Answer, Order, decode_order, encode_answer
from ptkstore.adapters.sandbox.processes import fork_server, hardening
from ptkstore.errors import CorruptObject, WindowGone
from ptkstore.ports import row_processes
from ptkstore.ports.row_processes import RunFailed

if TYPE_CHECKING:
    from ptkstore.adapters.sandbox.confinement.confined import Confinement

_LEAST_ROOM_BYTES: Final = 32 << 20


def main(answer_fd: int) -> None:
    """Serve one order. An error that has no code of its own ends the process: its text must go nowhere."""
    order = decode_order(sys.stdin.buffer.read())
    os.environ.update(order.storage)
    answer = _answer(order)
    with os.fdopen(answer_fd, "wb") as pipe:
        pipe.write(encode_answer(answer))


def _answer(order: Order) -> Answer:
    try:
        # less is too little for any run, and libraries call want of memory by other names
        bytearray(_LEAST_ROOM_BYTES)
        return _run(order)
    except MemoryError:
        return RunFailed(MEMORY_LIMIT)
    except WindowGone:
        return RunFailed(ROWS_GONE)
    except CorruptObject:
        return RunFailed(ROWS_CORRUPT)


def _run(order: Order) -> Answer:
    # Imported here, if the fork server has not imported them: want of memory while importing has its code too. The
    # libraries of the estimators take seconds, and a preparation goes without them.
    from ptkstore.adapters.keys import AesGcmSealer, split_hash
    from ptkstore.adapters.objects import FsspecRawZone, FsspecStaging, read_environment

    read_environment()
    sealer, request = AesGcmSealer(), order.request
    raw = FsspecRawZone(order.raw_url, sealer)
    match request:
        case row_processes.PrepareRequest():
            from ptkstore.adapters.sandbox.child.prepare import prepare

            prepare(request, raw, split_hash)
            return None
        case row_processes.ForgetRequest():
            from ptkstore.adapters.sandbox.child.forget import forget

            forget(request, raw)
            return None
        case row_processes.ProfileRequest():
            from ptkstore.adapters.sandbox.child.profile import profile

            return profile(request, raw, _confinement(order))
        case row_processes.DriftRequest():
            from ptkstore.adapters.sandbox.child.profile import has_drifted

            return has_drifted(request, raw, _confinement(order))
        case row_processes.EvaluateRequest():
            from ptkstore.adapters.sandbox.child.evaluate import evaluate

            return evaluate(request, raw, _confinement(order))
        case row_processes.CompareRequest():
            from ptkstore.adapters.sandbox.child.compare import compare

            return compare(request, raw, sealer)
        case row_processes.ReleaseRequest():
            from ptkstore.adapters.sandbox.child.compare import release

            return release(request, raw)
        case row_processes.CollectRequest():
            from ptkstore.adapters.sandbox.child.train import collect

            return collect(request, raw, FsspecStaging(order.staging_url, sealer))
        case row_processes.TrainRequest():
            from ptkstore.adapters.sandbox.child.train import train

            return train(request, raw, FsspecStaging(order.staging_url, sealer), _confinement(order))


def _confinement(order: Order) -> Confinement:
    """The sandbox of team code: it sees neither rows at rest nor staging.

    A job that trains may take all the time, as its failure is reported. In other jobs a failure counts as the largest
    loss.
    """
    from ptkstore.adapters.sandbox.confinement.bubblewrap import Bubblewrap
    from ptkstore.adapters.sandbox.confinement.confined import Confinement

    whole = Confinement(Bubblewrap(order.bubblewrap, (order.raw_url, order.staging_url)), order.limits)
    return whole if isinstance(order.request, row_processes.TrainRequest) else whole.in_half_the_time()


if __name__ == "__main__":
    hardening.run_to_its_end(lambda: fork_server.serve(int(sys.argv[1]), int(sys.argv[2]), main))
