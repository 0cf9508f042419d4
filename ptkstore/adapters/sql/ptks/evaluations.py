"""Evaluations in SQL: released estimates and public numbers, nothing else."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Row, insert, select
from sqlalchemy.exc import IntegrityError

from ptkstore.adapters.sql import tables as t
from ptkstore.adapters.sql.statements import CatalogPart, row_of
from ptkstore.domain.evaluations import Evaluation, RiskMass
from ptkstore.domain.fields import fields_of
from ptkstore.errors import LateWriter


class SqlEvaluations(CatalogPart):
    """One estimate for each version."""

    def add(self, evaluation: Evaluation) -> None:
        """Keep an estimate; `LateWriter` if the version has one."""
        mass = fields_of(evaluation.mass)
        windows = json.dumps(evaluation.windows) if len(evaluation.windows) > 1 else None
        row = row_of(t.evaluations, evaluation, epsilon=repr(evaluation.epsilon), windows=windows, **mass)
        try:
            self._connection.execute(insert(t.evaluations).values(row))
        except IntegrityError as error:
            raise LateWriter(
                f"version {evaluation.number} of {evaluation.ptk_id} has its estimate"
            ) from error.orig

    def of(self, ptk_id: str, *, after: int = 0) -> tuple[Evaluation, ...]:
        """Return those of a PTK after a version, by version."""
        evaluation = t.evaluations.c
        mine = (evaluation.ptk_id == ptk_id, evaluation.number > after)
        query = select(t.evaluations).where(*mine).order_by(evaluation.number)
        return tuple(map(_evaluation, self._connection.execute(query)))


def _evaluation(row: Row[Any]) -> Evaluation:
    plain = dict(row._mapping)
    mass = RiskMass(plain.pop("lost"), plain.pop("kept"))
    newest = plain.pop("window_index")
    windows = (newest,) if row.windows is None else tuple(json.loads(row.windows))
    return Evaluation(**{**plain, "epsilon": float(row.epsilon), "windows": windows}, mass=mass)
