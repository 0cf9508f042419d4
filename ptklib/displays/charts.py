"""Plots in the manner of scikit-learn's displays; matplotlib is loaded by the first plot and not before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, Self

from ptklib.displays.markup import shortened

MISSING = (
    "plots need matplotlib, which is not installed: pip install 'ptklib[plots]', or pip install matplotlib"
)
_LABEL_MAX = 24
WIDEST_INCHES = 16.0
_PLACE_INCHES = 0.24
_LETTER_POINTS, _LINE_POINTS, _TITLE_POINTS = 6.5, 13.0, 7.0
"""Width of a letter of a label, of a label that is turned, and of a letter of a title, in the usual sizes."""


class Display:
    """Parent of the displays: data to draw, and after `plot` what was drawn.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Set by `plot`.
    figure_ : matplotlib Figure
        The figure of `ax_`.
    """

    ax_: Any
    figure_: Any

    def _begin(self, ax: Any, n_places: int = 0) -> Any:
        self.ax_ = _new_axes(n_places) if ax is None else ax
        self.figure_ = self.ax_.figure
        return self.ax_


@dataclass
class BarDisplay(Display):
    """Released values, each with the interval in which it is without its noise about 95 times of 100.

    Parameters
    ----------
    labels : sequence of str
        A name for each value.
    values : sequence of float
    reach : sequence of float or None
        How far the interval reaches to both sides; None where the noise has no closed form, which draws no interval.
    name : str
        The name of the values.
    title : str
    """

    labels: Sequence[str]
    values: Sequence[float]
    reach: Sequence[float] | None
    name: str
    title: str = ""

    def plot(self, ax: Any = None) -> Self:
        """Draw the values as points and their intervals as lines.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The axes to draw on; a new figure by default.

        Raises
        ------
        ModuleNotFoundError
            When matplotlib is not installed; the message says how to install it.
        """
        axes = self._begin(ax, len(self.values))
        places = range(len(self.values))
        axes.errorbar(places, self.values, yerr=self.reach, fmt="o", markersize=4, capsize=3, linewidth=1.2)
        _name_ticks(axes, self.labels)
        axes.set_ylabel(plain_text(self.name))
        _name(axes, self.title)
        return self


@dataclass
class CurveDisplay(Display):
    """A number against epsilon, one line for each of several cases.

    Parameters
    ----------
    epsilons : sequence of float
    curves : mapping of str to sequence of float or None
        None leaves a gap.
    name : str
        The name of the number.
    title : str
    """

    epsilons: Sequence[float]
    curves: Mapping[str, Sequence[float | None]]
    name: str
    title: str = ""

    def plot(self, ax: Any = None) -> Self:
        """Draw a line for each case on logarithmic axes; parameters as in `BarDisplay.plot`."""
        axes = self._begin(ax)
        for label, numbers in self.curves.items():
            drawn = [float("nan") if one is None else one for one in numbers]
            axes.plot(self.epsilons, drawn, marker="o", markersize=4, label=plain_text(label))
        axes.set_xscale("log")
        if any(one is not None and one > 0 for numbers in self.curves.values() for one in numbers):
            axes.set_yscale("log")
        axes.set_xlabel("epsilon")
        axes.set_ylabel(plain_text(self.name))
        _name(axes, self.title)
        axes.legend()
        return self


@dataclass
class BudgetDisplay(Display):
    """Spent and reserved loss of each window, below what a block may lose.

    Parameters
    ----------
    windows : sequence of str
    spent, reserved, capacity : sequence of float
        Epsilon of each window.
    title : str
    """

    windows: Sequence[str]
    spent: Sequence[float]
    reserved: Sequence[float]
    capacity: Sequence[float]
    title: str = ""

    def plot(self, ax: Any = None) -> Self:
        """Draw a bar for each window and the capacity as a line; parameters as in `BarDisplay.plot`."""
        axes = self._begin(ax, len(self.windows))
        places = list(range(len(self.windows)))
        axes.bar(places, self.spent, label="spent")
        axes.bar(
            places, self.reserved, bottom=self.spent, label="reserved", hatch="//", fill=False, edgecolor="C0"
        )
        axes.step([-0.5, *(p + 0.5 for p in places)], [*self.capacity[:1], *self.capacity], color="C3")
        axes.plot([], [], color="C3", label="capacity")
        _name_ticks(axes, self.windows)
        axes.set_xlabel("window")
        axes.set_ylabel("epsilon")
        _name(axes, self.title)
        axes.legend()
        return self


def plain_text(value: object) -> str:
    """Return text that matplotlib draws as it is: a dollar sign would begin a formula."""
    return shortened(value).replace("$", r"\$")


def _new_axes(n_places: int) -> Any:
    """Axes of a new figure, wide enough for so many places; of the usual size for few."""
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise ModuleNotFoundError(MISSING, name="matplotlib") from None
    width, height = pyplot.rcParams["figure.figsize"]
    wide = min(max(width, n_places * _PLACE_INCHES), WIDEST_INCHES)
    return pyplot.subplots(layout="constrained", figsize=(wide, height))[1]


def _name_ticks(axes: Any, names: Sequence[str]) -> None:
    """Name as many of the places on the horizontal axis as fit beside each other, upright where all do."""
    room = axes.figure.get_figwidth() * axes.get_position().width * 72
    longest = max((len(shortened(one, _LABEL_MAX)) for one in names), default=1)
    upright = (longest + 2) * _LETTER_POINTS * len(names) <= room
    most = max(int(room // _LINE_POINTS), 1)
    places = range(0, len(names), 1 if upright else -(-len(names) // most) or 1)
    written = [plain_text(shortened(names[place], _LABEL_MAX)) for place in places]
    axes.set_xticks(list(places), written, rotation=0 if upright else 90)


def _name(axes: Any, title: str) -> None:
    """Write a title in lines that are no wider than the axes."""
    letters = int(axes.figure.get_figwidth() * axes.get_position().width * 72 // _TITLE_POINTS)
    axes.set_title("\n".join(wrap(plain_text(title), max(letters, 20))))
