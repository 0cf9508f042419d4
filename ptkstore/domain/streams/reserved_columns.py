"""Columns that the service adds to rows; no stream can declare one of such a name."""

from __future__ import annotations

from typing import Final

from ptkstore.domain.streams.streams import RESERVED_PREFIX

ROW_ID: Final = f"{RESERVED_PREFIX}row"  # 16 random bytes, the privacy unit 'record'
HASH: Final = f"{RESERVED_PREFIX}hash"  # its keyed hash, once the row lies in a part
