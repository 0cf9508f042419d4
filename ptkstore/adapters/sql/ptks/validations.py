"""Validations in SQL: released verdicts and public numbers, nothing else."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Row, insert, select
from sqlalchemy.exc import IntegrityError

from ptkstore.adapters.sql import tables as t
from ptkstore.adapters.sql.statements import CatalogPart, row_of
from ptkstore.domain.canonical_json import canonical_json
from ptkstore.domain.evaluations import RiskMass
from ptkstore.domain.fields import fields_of
from ptkstore.domain.validations import Validation
from ptkstore.errors import LateWriter

_IN_ORDER = (t.validations.c.at, t.validations.c.window_index, t.validations.c.job_id)


class SqlValidations(CatalogPart):
    """One verdict for each trained state that asks for one."""

    def add(self, validation: Validation) -> None:
        """Keep a verdict; `LateWriter` if its job has one."""
        row = row_of(
            t.validations,
            validation,
            epsilon=repr(validation.epsilon),
            verdict=canonical_json(validation.verdict),
            **fields_of(validation.mass),
        )
        try:
            self._connection.execute(insert(t.validations).values(row))
        except IntegrityError as error:
            raise LateWriter(f"{validation.job_id} has its verdict") from error.orig

    def of(self, ptk_id: str) -> tuple[Validation, ...]:
        """Return all of a PTK, in the order in which they were kept."""
        query = select(t.validations).where(t.validations.c.ptk_id == ptk_id)
        return tuple(map(_validation, self._connection.execute(query.order_by(*_IN_ORDER))))


def _validation(row: Row[Any]) -> Validation:
    plain = dict(row._mapping)
    mass = RiskMass(plain.pop("lost"), plain.pop("kept"))
    read = {"epsilon": float(row.epsilon), "verdict": json.loads(row.verdict)}
    return Validation(**{**plain, **read}, mass=mass)
