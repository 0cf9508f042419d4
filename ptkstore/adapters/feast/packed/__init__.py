"""An optional online store for Feast on Redis, faster than Feast's own: whole rows as one packed value.

`feature_store.yaml` names it as `type: ptkstore.adapters.feast.packed.PackedRedisOnlineStore`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptklib.lazy import exports

if TYPE_CHECKING:
    from ptkstore.adapters.feast.packed.store import PackedRedisOnlineStore, PackedRedisOnlineStoreConfig

__all__ = ["PackedRedisOnlineStore", "PackedRedisOnlineStoreConfig"]

if not TYPE_CHECKING:  # parts of the store need no Feast
    __getattr__, __dir__ = exports(__name__, dict.fromkeys(__all__, "store"))
