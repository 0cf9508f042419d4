"""Validations in SQL: released verdicts and public numbers, nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Row, insert, select
from sqlalchemy.exc import IntegrityError

from ptklib.canonical_json import canonical_json
from ptkstore.adapters.sql import tables as t
from ptkstore.adapters.sql.statements import CatalogPart, parts, row_of
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

    def of(self, ptk_id: str, *, newest: int | None = None) -> tuple[Validation, ...]:
        """Return those of a PTK, in the order in which they were kept."""
        backwards = (column.desc() for column in _IN_ORDER)
        query = select(t.validations).where(t.validations.c.ptk_id == ptk_id).order_by(*backwards)
        rows = self._connection.execute(query.limit(newest)).all()
        return tuple(_validation(row) for row in reversed(rows))

    def of_ptks(self, ptk_ids: Iterable[str]) -> Mapping[str, tuple[Validation, ...]]:
        """Return all of some PTKs."""
        found: dict[str, list[Validation]] = {ptk_id: [] for ptk_id in ptk_ids}
        for some in parts(found):
            query = select(t.validations).where(t.validations.c.ptk_id.in_(some)).order_by(*_IN_ORDER)
            for row in self._connection.execute(query):
                found[row.ptk_id].append(_validation(row))
        return {ptk_id: tuple(many) for ptk_id, many in found.items()}


def _validation(row: Row[Any]) -> Validation:
    plain = dict(row._mapping)
    mass = RiskMass(plain.pop("lost"), plain.pop("kept"))
    read = {"epsilon": float(row.epsilon), "verdict": json.loads(row.verdict)}
    return Validation(**{**plain, **read}, mass=mass)
