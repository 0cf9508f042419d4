"""The display of a fitted estimator in a notebook, beside scikit-learn's own diagram."""

from typing import Any

from ptklib.displays.charts import BarDisplay
from ptklib.displays.described import release_html
from ptklib.displays.released import ROWS_MAX, column_display


class ShownEstimator:
    """A parent of estimators with released tables: HTML and a plot, of released and public values alone.

    An estimator that is not fitted looks as scikit-learn shows it.
    """

    def plot(
        self, table: str | None = None, column: str | None = None, *, rows: int = ROWS_MAX, ax: Any = None
    ) -> BarDisplay:
        """Draw a released column with intervals that contain 95 % of its noise.

        Parameters
        ----------
        table, column : str, optional
            By default the first whose noise has a closed form.
        rows : int
            At most so many rows are drawn, the first of the table.
        ax : matplotlib Axes, optional
            The axes to draw on; a new figure by default.

        Returns
        -------
        BarDisplay
            As scikit-learn's displays, with `ax_` and `figure_`.

        Raises
        ------
        ModuleNotFoundError
            When matplotlib is not installed; the message says how to install it.
        InvalidParameterError
            There is no such table or column.
        """
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        fitted: Any = self
        noise, loss = fitted.noise_std_, fitted.privacy_spent_
        shown = column_display(fitted.tables_, _keys(fitted), noise, loss, (table, column), rows)
        return shown.plot(ax)

    def _released_html(self) -> str:
        """Return what was released as HTML; empty before `fit`."""
        fitted: Any = self
        if not fitted.__sklearn_is_fitted__():
            return ""
        told = {"privacy unit": str(fitted.privacy_unit()), "releases added up": fitted.n_releases_}
        title, noise, loss = f"{type(self).__name__}, fitted", fitted.noise_std_, fitted.privacy_spent_
        return release_html(title, fitted.tables_, _keys(fitted), noise, loss, told)

    @property
    def _repr_html_(self) -> Any:
        inner = super()._repr_html_  # type: ignore[misc] # raises AttributeError where scikit-learn shows text
        return lambda: inner() + self._released_html()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._released_html()
        return bundle


def _keys(fitted: Any) -> dict[str, tuple[str, ...]]:
    return {name: schema.keys for name, schema in fitted.table_schemas().items()}
