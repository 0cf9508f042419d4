"""The room check where PTKs wait for windows: only what no number of kept windows could serve is refused."""

from __future__ import annotations

from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.scheduling.block_rooms import BlockRoom
from ptkstore.domain.scheduling.model import ChargeOf, Waiting


def why_never(
    one: Waiting, empty: BlockRoom, kept: int, rows_per_window: int, charge_of: ChargeOf
) -> str | None:
    """Return why a PTK could wait forever, even alone; None if enough windows would serve it.

    A PTK without a menu is refused for its least loss and its least windows alone: nobody knows what it needs.

    Parameters
    ----------
    empty : BlockRoom
        A block of the PTK's line of which nothing is committed.
    kept : int
        How many windows are kept at once.
    rows_per_window : int
        The rows that a PTK may expect of one window.
    """
    least, most = one.windows[0], min(one.windows[1], kept)
    if least > kept:
        return f"{one.ptk_id} needs {least} windows at once, and {kept} are kept"

    def payable(loss: Loss) -> bool:
        charge = charge_of(one.ptk_id, loss)
        return charge.amounts[empty.coordinate] <= empty.left_nano and charge.delta_atto <= empty.left_atto

    if not payable(one.losses[0]):
        return f"{one.ptk_id} needs at least {one.losses[0]}, which does not fit an empty block"
    if not one.menu:
        return None
    low, high = (loss.epsilon_nano for loss in one.losses)
    entries = [entry for entry in one.menu if low <= entry.loss.epsilon_nano <= high and payable(entry.loss)]
    if not entries:
        return f"{one.ptk_id} reaches its target with no loss that it may be given and an empty block can pay"
    needed = min(entry.n_rows for entry in entries)
    if needed > most * rows_per_window:
        return (
            f"the target of {one.ptk_id} needs {needed} rows at the largest loss, "
            f"and the {most} windows that it may read at once are expected to have {most * rows_per_window}. "
            f"By the stream's rows_per_window, each has {rows_per_window} for training"
        )
    return None
