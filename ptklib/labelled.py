"""Families that learn a label from features."""

from abc import abstractmethod
from typing import Any

from ptklib.base import DPEstimator
from ptklib.fit_cache import once
from ptklib.names import check_name


class Labelled(DPEstimator):
    """Parent of families that learn a label from features: a column that `label` names, or the `y` of `fit`."""

    label: Any

    @abstractmethod
    def _feature_names(self) -> tuple[str, ...]:
        """Return the feature columns."""

    @once
    def required_columns(self) -> tuple[str, ...]:
        """Return the feature columns, then the label's when it is a column."""
        label = self._label_column()
        return self._feature_names() if label is None else (*self._feature_names(), label)

    def _resolved_columns(self) -> dict[str, list[str]]:
        return {"features": list(self._feature_names())}

    def _transform_columns(self) -> tuple[str, ...]:
        return self._feature_names()

    def _label_column(self) -> str | None:
        return None if self.label is None else check_name(self.label, "label")

    def _label_name(self) -> str:
        return self._label_column() or "y"

    def _needs_y(self) -> bool:
        return True
