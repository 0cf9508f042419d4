"""What `fit` says of columns of which the released counts show no row."""

from collections.abc import Sequence

from ptklib.tables import listed


def unmatched(columns: Sequence[str], label: str | None) -> str:
    """Return the text of the warning: a function of released values, so it tells nothing that the release does not.

    Parameters
    ----------
    columns : sequence of str
        The columns that the counts do not show. The label is among them when all are concerned.
    label : str or None
    """
    told = (
        "there are too few rows for this epsilon, or values match nothing that was declared. The released counts show "
        f"no row with a usable value of {listed(columns)}: they do not stand out of their noise."
    )
    if label is not None and label in columns and len(columns) > 1:
        return (
            f"{told} No column stands out, and each count needs a usable label: with many rows, check the classes or "
            f"bounds of {label!r} first. After that, check the domains and bounds of the others."
        )
    return (
        f"{told} With many rows, compare them with the declared domains, classes and bounds: text such as '7' is no "
        "integer, for one."
    )
