"""Columns that a PTK declares as computed where a consumer reads: checked at registration, filled in per version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ptklib.exceptions import PtklibError
from ptkstore.domain.ptks.serving import check_computed_names, check_sent_name, computed_of, outputs_of
from ptkstore.errors import InvalidRequest
from ptkstore.ports.features import Computed

if TYPE_CHECKING:
    import pyarrow as pa


def check_computed(ptk_id: str, trainer: Any, config: Mapping[str, Any]) -> None:
    """Raise `InvalidRequest` unless the estimator can be served as `serve` in the PTK's config declares."""
    declared = computed_of(config)
    if declared:
        _described(ptk_id, trainer, declared)


def computed_columns(
    meta: Mapping[str, Any], tables: Mapping[str, pa.Table], config: Mapping[str, Any]
) -> tuple[Computed, ...]:
    """Return the declared columns with the numbers of a released state; none where it is of another family."""
    declared = computed_of(config)
    if not declared:
        return ()
    from ptklib.base import DPEstimator
    from ptklib.plain import plain_parameters
    from ptklib.state import ReleasedState

    try:  # a version of before the PTK, or the library, was changed: its other views are served all the same
        fitted = DPEstimator.from_state(ReleasedState(tables, meta, is_read=True))
        described = _described(str(meta["family"]), fitted, declared)
        return tuple(
            Computed(form, columns, outputs, plain_parameters(fitted, form))
            for form, columns, outputs in described
        )
    except (InvalidRequest, PtklibError):
        return ()


_Described = tuple[str, tuple[tuple[str, str], ...], tuple[str, ...]]


def _described(who: str, estimator: Any, declared: Mapping[str, str]) -> list[_Described]:
    from ptklib.plain import plain_form

    described: list[_Described] = []
    for name, form in declared.items():
        try:
            plain = plain_form(estimator, form)
        except PtklibError as error:
            raise InvalidRequest(f"serve of PTK {who} cannot compute {name!r}: {error}") from error
        for column, _ in plain.columns:
            check_sent_name(column, f"computes {name!r} from {column!r}")
        described.append((form, plain.columns, outputs_of(name, form, plain.outputs)))
    check_computed_names(
        [output for _, _, outputs in described for output in outputs],
        list(dict.fromkeys(column for _, columns, _ in described for column, _ in columns)),
    )
    return described
