"""The imports of a run: the fork server loads them once for all runs."""

from __future__ import annotations

from typing import Any, Final

from ptklib.families import FAMILIES
from ptkstore.ports import row_processes

_ALWAYS: Final = (
    "ptkstore.adapters.keys",
    "ptkstore.adapters.objects",
    "pyarrow.dataset",
    "pyarrow.parquet.encryption",
)
_CHILD: Final = "ptkstore.adapters.sandbox.child"
_WORK: Final[dict[type, str]] = {
    row_processes.PrepareRequest: f"{_CHILD}.prepare",
    row_processes.ForgetRequest: f"{_CHILD}.forget",
    row_processes.TrainRequest: f"{_CHILD}.train",
    row_processes.CollectRequest: f"{_CHILD}.train",
    row_processes.ProfileRequest: f"{_CHILD}.profile",
    row_processes.DriftRequest: f"{_CHILD}.profile",
    row_processes.EvaluateRequest: f"{_CHILD}.evaluate",
    row_processes.CompareRequest: f"{_CHILD}.compare",
    row_processes.ReleaseRequest: f"{_CHILD}.compare",
}
_ESTIMATORS: Final = ("opendp.prelude", "dp_accounting")  # ptklib imports them when it first needs them
_REMOTE: Final = {"s3": "s3fs"}


def modules_for(request: row_processes.Request, *urls: str) -> tuple[str, ...]:
    """Return the modules that a run of this request imports, in the order to import them; none of them is secret."""
    storage = [_REMOTE[scheme] for url in urls if (scheme := url.partition("://")[0]) in _REMOTE]
    modules = [*_ALWAYS, *storage, _WORK[type(request)]]
    estimator: Any = getattr(request, "estimator", None)
    if estimator is not None:
        modules += _of_family(estimator.get("family"))
    return tuple(dict.fromkeys(modules))


def _of_family(family: object) -> tuple[str, ...]:
    """Return the modules of a family; of team code nothing, which a program of its own computes."""
    if isinstance(family, str) and family in FAMILIES:
        return (FAMILIES[family], *_ESTIMATORS)
    return ("ptklib.team",)
