"""An optional online store for Feast on Redis, faster than Feast's own: whole rows as one packed value.

`feature_store.yaml` names it as `type: ptkstore.adapters.feast.packed.PackedRedisOnlineStore`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ptkstore.adapters.feast.packed.store import PackedRedisOnlineStore, PackedRedisOnlineStoreConfig

__all__ = ["PackedRedisOnlineStore", "PackedRedisOnlineStoreConfig"]


def __getattr__(name: str) -> Any:
    """Load Feast for whoever asks for the store, not for its parts that need no Feast."""
    if name not in __all__:
        raise AttributeError(name)
    from ptkstore.adapters.feast.packed import store

    return getattr(store, name)
