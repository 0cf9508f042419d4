"""Trainings over several windows that nobody scheduled."""

from __future__ import annotations

from dataclasses import replace

from ptkstore.application.ledger.charging import price_of, reserve
from ptkstore.application.planning.estimators import event_of
from ptkstore.domain.jobs import JobKind, paid_run
from ptkstore.domain.ledger.journal import BudgetRequest
from ptkstore.domain.ledger.rules import Granted
from ptkstore.domain.streams.blocks import BlockSet, train_blocks
from ptkstore.domain.streams.windows import WindowId
from tests.support.world import NOW, STREAM, World


def queue_training(
    world: World, *windows: int, n_rows: int, look: int = 1, ptk_id: str = "taxi.speed"
) -> str:
    """Queue a training on these windows, whose loss is reserved on each, and return its id."""
    with world.service.begin() as uow:
        stream, spec = uow.streams.get(STREAM), uow.ptks.get(ptk_id)
        newest = WindowId(STREAM, windows[-1])
        run = paid_run(JobKind.TRAIN, ptk_id, newest, NOW, oldest=windows[0], look=look)
        event = event_of(spec.estimator, spec.loss)
        price = price_of(event, stream.policy.accountant, spec.loss)
        blocks = BlockSet.of(*(train_blocks(WindowId(STREAM, i), stream.policy, 0) for i in windows))
        request = BudgetRequest.of_run(run, stream.policy, blocks, price.loss, price.charge)
        assert isinstance(reserve(uow, request, event), Granted)
        uow.jobs.add(replace(run, n_rows=n_rows))
        uow.commit()
    return run.id
