"""How runs that open rows end: fixed codes that depend on no row."""

from __future__ import annotations

from typing import Final

TRAINER_ERROR: Final = "trainer-error"
TIMEOUT: Final = "timeout"
MEMORY_LIMIT: Final = "memory-limit"
KILLED: Final = "killed"
BAD_OUTPUT: Final = "bad-output"
ROWS_GONE: Final = "rows-gone"
ROWS_CORRUPT: Final = "rows-corrupt"
TEAM_CODE_FAILED: Final = "team-code-failed"
NO_SANDBOX: Final = "no-sandbox"
UNDECLARED_VALUE: Final = "undeclared-value"
"""Team code released a key or a text that it had not declared: only the parent says so, of what it read itself."""
