"""The program that opens rows: read one order, train, collect, prepare or forget, answer.

It composes its own adapters, as `ptkstore.wiring` does for the other programs. It starts as a fork server; each fork
lives for one order.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from ptkstore.adapters.sandbox.messages.codes import MEMORY_LIMIT, ROWS_CORRUPT, ROWS_GONE
from ptkstore.adapters.sandbox.messages.orders import Order, decode_order, encode_answer
from ptkstore.adapters.sandbox.messages.profiles import Told
from ptkstore.adapters.sandbox.processes import fork_server, hardening
from ptkstore.domain.evaluations import LossMass
from ptkstore.domain.versions.versions import Draft
from ptkstore.errors import CorruptObject, WindowGone
from ptkstore.ports.evaluating import EvaluateRequest
from ptkstore.ports.profiling import DriftRequest, ProfileRequest
from ptkstore.ports.training import CollectRequest, ForgetRequest, PrepareRequest, TrainFailed

_LEAST_ROOM_BYTES: Final = 32 << 20


def main(answer_fd: int) -> None:
    """Serve one order. An error that has no code of its own ends the process: its text must go nowhere."""
    order = decode_order(sys.stdin.buffer.read())
    os.environ.update(order.storage)
    answer = _answer(order)
    with os.fdopen(answer_fd, "wb") as pipe:
        pipe.write(encode_answer(answer))


def _answer(order: Order) -> Draft | TrainFailed | LossMass | Told | None:
    try:
        # less is too little for any run, and libraries call want of memory by other names
        bytearray(_LEAST_ROOM_BYTES)
        return _done(order)
    except MemoryError:
        return TrainFailed(MEMORY_LIMIT)
    except WindowGone:
        return TrainFailed(ROWS_GONE)
    except CorruptObject:
        return TrainFailed(ROWS_CORRUPT)


def _done(order: Order) -> Draft | TrainFailed | LossMass | Told | None:
    # Imported here, if the fork server has not imported them: want of memory while importing has its code too. The
    # libraries of the estimators take seconds, and a preparation goes without them.
    from ptkstore.adapters.keys import AesGcmSealer, split_hash
    from ptkstore.adapters.objects import FsspecRawZone, FsspecStaging, read_environment

    read_environment()
    sealer = AesGcmSealer()
    raw = FsspecRawZone(order.raw_url, sealer)
    if isinstance(order.request, PrepareRequest):
        from ptkstore.adapters.sandbox.child.prepare import prepare

        prepare(order.request, raw, split_hash)
        return None
    if isinstance(order.request, ProfileRequest | DriftRequest):
        from ptkstore.adapters.sandbox.child.profile import has_drifted, profile

        if isinstance(order.request, ProfileRequest):
            return profile(order.request, raw)
        return has_drifted(order.request, raw)
    if isinstance(order.request, EvaluateRequest):
        from ptkstore.adapters.sandbox.child.evaluate import evaluate

        return evaluate(order.request, raw)
    if isinstance(order.request, ForgetRequest):
        from ptkstore.adapters.sandbox.child.forget import forget

        forget(order.request, raw)
        return None
    from ptkstore.adapters.sandbox.child.train import collect, train
    from ptkstore.adapters.sandbox.confinement.bubblewrap import Bubblewrap

    staging = FsspecStaging(order.staging_url, sealer)
    if isinstance(order.request, CollectRequest):
        return collect(order.request, raw, staging)
    return train(
        order.request,
        raw,
        staging,
        Bubblewrap(order.bubblewrap, (order.raw_url, order.staging_url)),
        order.limits,
    )


if __name__ == "__main__":
    hardening.run_to_its_end(lambda: fork_server.serve(int(sys.argv[1]), int(sys.argv[2]), main))
