"""Published PTKs as a scikit-learn transformer that can keep itself up to date."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Self

import pandas as pd
import pyarrow as pa

from ptklib.applied import AppliedStates, Prefixed, features_of, names_of
from ptklib.exceptions import InvalidParameterError, SchemaError
from ptklib.tables import as_arrow
from ptkstore.domain.ptks.views import base_view
from ptkstore.errors import InvalidRequest
from ptkstore.sdk.featurizing import Ptk
from ptkstore.sdk.store import Store

EVENT = "event"
WAIT_SECONDS = 30.0  # for one answer; an end in between costs nothing
RETRY_SECONDS = 5.0  # when the store does not answer


class Featurizer(AppliedStates):
    """Appends what published PTKs say of each row.

    It loads their states once, in `fit`, and learns nothing from the rows. `transform` returns the features alone, as
    scikit-learn has it; `append` returns the table with its features, of the kind that it was given.

    Parameters
    ----------
    store : Store
        As `connect` returns it. Clones share it.
    ptks : sequence of str or Ptk
        Ids, `taxi.speed` for the newest version and `taxi.speed@v3` for a pinned one; or versions in hand, which
        `Store.ptk` returns.
    refresh : None or 'event'
        With 'event' newer versions take the place of older ones as soon as the store tells of them, until `close`.
        One call of `transform` uses one version of each PTK.

    Attributes
    ----------
    ptks_ : tuple of Ptk
        The versions in use.

    Notes
    -----
    :Guarantee: what each state promises: features are functions of a row and of released values.
    """

    def __init__(
        self, store: Store | None = None, ptks: Sequence[str | Ptk] = (), *, refresh: str | None = None
    ) -> None:
        self.store = store
        self.ptks = ptks
        self.refresh = refresh

    def fit(self, X: Any = None, y: object = None) -> Self:
        """Load the states; `X` and `y` are not looked at.

        Raises
        ------
        UnknownName
            No such PTK or version, or none published yet.
        """
        if isinstance(self.ptks, str) or not self.ptks:
            raise InvalidRequest("name at least one PTK, as a list")
        if self.refresh not in (None, EVENT):
            raise InvalidRequest("refresh is None or 'event'")
        self.close()
        self.ptks_ = tuple(self._load(one) for one in self.ptks)
        if self.refresh == EVENT:
            self._follow()
        return self

    def append(self, table: Any) -> Any:
        """Append the features as further columns; pandas (with its index) and polars come back as given, else Arrow.

        Raises
        ------
        InvalidRequest
            The table has no column names, or a column that a PTK takes keys from is missing.
        """
        applied = self._applied()
        try:
            arrow = table if isinstance(table, pd.DataFrame | pa.Table) else as_arrow(table)
            values = features_of(arrow, applied)
        except (SchemaError, InvalidParameterError) as error:
            raise InvalidRequest(str(error)) from error
        names = names_of(applied)
        if isinstance(table, pd.DataFrame):
            return pd.concat([table, pd.DataFrame(values, index=table.index, columns=names)], axis=1)
        if type(table).__module__.partition(".")[0] == "polars":
            polars = sys.modules["polars"]
            return table.hstack([polars.Series(name, values[:, k]) for k, name in enumerate(names)])
        for k, name in enumerate(names):
            arrow = arrow.append_column(name, pa.array(values[:, k]))
        return arrow

    def update(self) -> bool:
        """Load newer versions of PTKs that are not pinned; return whether there were any."""
        changed = False
        for place, wanted in enumerate(self.ptks):
            if isinstance(wanted, str) and "@" not in wanted:
                changed |= self._replace(place, self._load(wanted))
        return changed

    def close(self) -> None:
        """Follow no further versions; those in use stay."""
        stop = self.__dict__.pop("_stop", None)
        if stop is not None:
            stop.set()

    def _applied(self) -> Prefixed:
        ptks: tuple[Ptk, ...] | None = getattr(self, "ptks_", None)
        if ptks is None:
            self.fit()
            ptks = self.ptks_
        return [(f"{base_view(ptk.id)}__", ptk.estimator) for ptk in ptks]

    def _load(self, wanted: str | Ptk) -> Ptk:
        if isinstance(wanted, Ptk):
            return wanted
        if self.store is None:
            raise InvalidRequest("a Featurizer needs a store: connect() returns one")
        ptk = self.store.ptk(wanted)
        _ = ptk.estimator  # made now, so that the first rows do not wait for it
        return ptk

    def _replace(self, place: int, ptk: Ptk) -> bool:
        ptks = self.ptks_
        if ptks[place].version >= ptk.version:
            return False
        self.ptks_ = (*ptks[:place], ptk, *ptks[place + 1 :])
        return True

    def _follow(self) -> None:
        self._stop = threading.Event()
        for place, wanted in enumerate(self.ptks):
            if isinstance(wanted, str) and "@" not in wanted:
                arguments = (weakref.ref(self), self.store, place, wanted, self._stop)
                threading.Thread(
                    target=_following, args=arguments, name=f"featurizer {wanted}", daemon=True
                ).start()

    def __sklearn_clone__(self) -> Featurizer:
        return type(self)(self.store, self.ptks, refresh=self.refresh)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ptks_")

    def __getstate__(self) -> Any:
        raise TypeError("a Featurizer has an open store; make one where it is needed")


_replacing = threading.Lock()


def _following(
    featurizer: weakref.ref[Featurizer], store: Store, place: int, ptk_id: str, stop: threading.Event
) -> None:
    """Wait for versions, and load them, as long as anybody has the featurizer."""
    newest = 0
    while not stop.is_set():
        one = featurizer()
        if one is None:
            return
        newest = max(newest, one.ptks_[place].version)
        del one
        try:
            if store.wait_for_version(ptk_id, newest, WAIT_SECONDS) is None:
                continue
            newer = store.ptk(ptk_id)
            _ = newer.estimator
        except Exception:  # noqa: BLE001 - whatever it is, newer versions are to be followed
            stop.wait(RETRY_SECONDS)  # what is in use stays in use
            continue
        one = featurizer()
        if one is not None and not stop.is_set():
            with _replacing, suppress(IndexError):
                one._replace(place, newer)
            newest = max(newest, newer.version)
