"""The error taxonomy: parents say who should act.

    PtkStoreError
    ├── InvalidRequest     the caller fixes the request
    ├── Refused            policy said no; the reason says what would fit
    ├── Conflict           refresh and redo
    ├── Unavailable        wait and retry
    ├── OutcomeUnknown     look before acting
    └── InvariantBroken    page someone

Every class carries a fixed `code`; messages name public things only (ids, columns, limits), never rows, values or
counts.
"""


class PtkStoreError(Exception):
    """Base of all errors of the service. A traceback ends with the address of the section about its code."""

    code = "error"
    about = ""
    """What the error is about, where its text alone does not say that: a PTK among many."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.add_note(f"see {self.page}")

    def __str__(self) -> str:
        text = self._text()
        return f"{self.about}: {text}" if self.about else text

    def _text(self) -> str:
        return super().__str__()

    @property
    def page(self) -> str:
        """The address of the section about this code."""
        from ptklib.exceptions import error_page  # here, as `ptk --help` loads nothing of ptklib

        return error_page(self.code)


class InvalidRequest(PtkStoreError):
    """The request can never succeed as it is; the message says what would be right."""

    code = "invalid-request"


class UnknownName(InvalidRequest):
    """Nothing is registered under this name. `hint` says what may have been meant, or where to look."""

    code = "unknown-name"

    def __init__(self, kind: str, name: str, hint: str = "") -> None:
        super().__init__(kind, name, hint)
        self.kind = kind
        self.name = name
        self.hint = hint

    def _text(self) -> str:
        return f"there is no {self.kind} {self.name!r}{self.hint and f'; {self.hint}'}"


class Deregistered(UnknownName):
    """The PTK was deregistered; `hint` says when, and what brings it back. Only for callers who may read its stream."""

    code = "deregistered"


class SchemaMismatch(InvalidRequest):
    """A table does not have the columns or types that the stream declares."""

    code = "schema-mismatch"


class TooLarge(InvalidRequest):
    """More than the service takes at once; the message names the limit."""

    code = "too-large"


class UnknownFormat(InvalidRequest):
    """A body of a type that is not read here; the message names those that are."""

    code = "unknown-format"


class Refused(PtkStoreError):
    """Policy said no; the message says what was asked and what would fit."""

    code = "refused"


class Unauthenticated(Refused):
    """No token came, or none that opens anything: unknown, expired and revoked ones get the same answer."""

    code = "unauthenticated"


class NotAllowed(Refused):
    """The roles of the token do not allow this."""

    code = "not-allowed"


class PtkRejected(Refused):
    """The PTK cannot be served beside those registered before it."""

    code = "ptk-rejected"


class NoSandbox(Refused):
    """There is no working sandbox on this machine, so that no team code is run on it."""

    code = "no-sandbox"


class WindowGone(Refused):
    """The window has left its retention; its rows and its key no longer exist."""

    code = "window-gone"


class Conflict(PtkStoreError):
    """Someone else changed the same thing; refresh and redo."""

    code = "conflict"


class NameTaken(Conflict):
    """The name exists with other content."""

    code = "name-taken"


class LeaseLost(Conflict):
    """Another worker has the job now; nothing this worker does counts any more."""

    code = "lease-lost"


class LateWriter(Conflict):
    """The catalog moved on while this was prepared."""

    code = "late-writer"


class StillAtWork(Conflict):
    """The first request under this idempotency key has not ended; ask again later under the same key."""

    code = "still-at-work"


class Unavailable(PtkStoreError):
    """A part does not answer; wait and retry."""

    code = "unavailable"


class TooManyRequests(Unavailable):
    """More requests in a while than one caller may send; nothing was done, wait and retry."""

    code = "too-many-requests"

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NoProcess(Unavailable):
    """The machine starts no process for a run now; nothing of the run was begun."""

    code = "no-process"


class RowsLost(Unavailable):
    """The online store lost the rows of a published version: no answer of it tells what was released."""

    code = "rows-lost"


class CatalogOutdated(Unavailable):
    """The catalog is of another schema than this program works with; the message names the command."""

    code = "catalog-outdated"


class OutcomeUnknown(PtkStoreError):
    """A write may or may not have happened; look before acting."""

    code = "outcome-unknown"


class InvariantBroken(PtkStoreError):
    """Something that must always hold does not; page someone."""

    code = "invariant-broken"


class CatalogBehind(InvariantBroken):
    """The catalog lacks spends that the key store saw: it is a restored backup or a copy, and opens nothing."""

    code = "catalog-behind"


class CorruptObject(InvariantBroken):
    """Stored bytes differ from the hash recorded for them."""

    code = "corrupt-object"


def missing_package(error: ModuleNotFoundError) -> str | None:
    """Return what to install where a package of an extra is missing; None where the module is our own."""
    missing = (error.name or "").partition(".")[0]
    if missing in ("", "ptklib", "ptkstore", "workers"):
        return None
    return (
        f"the package {missing!r} is not installed: install ptkstore with its extra `service`, as in "
        "pip install 'ptkstore[service] @ https://...whl'"
    )
