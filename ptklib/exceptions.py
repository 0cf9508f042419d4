"""The errors a caller of ptklib can act on.

PtklibError
├── InvalidParameterError (ValueError)      a constructor parameter is wrong; fix the call
│   ├── PrivacyParameterError               epsilon, delta or a sensitivity is unusable
│   ├── UnboundedSensitivityError           public bounds are missing
│   └── InvalidDomainError                  a public domain is missing or unusable
├── SchemaError (ValueError)                a table cannot be read, or a column has the wrong type
│   └── MissingColumnError                  the table lacks a column
└── StateError (ValueError)                 a state cannot be trusted
    ├── CorruptStateError                   bytes, hashes, schema or format are not what was declared
    └── StateMismatchError                  a sound state of another configuration

Messages name parameters, columns and types. They never carry a row, a value of a row or a number of rows.
"""

from ptklib.doc_pages import on_site

ERRORS_PAGE = "docs/reference/errors.md"
"""The page on which each error has a section: a path in the project's repository."""


def error_page(name: str) -> str:
    """Return the address of the section about an error, by its code or the name of its class."""
    return on_site(f"{ERRORS_PAGE}#{name.lower()}")


class UnmatchedWarning(UserWarning):
    """Values may match nothing that was declared, or rows are few: the released counts do not exceed their noise.

    A function of released values alone, for every table and every family. Only `fit` warns, whoever calls it.
    """


class PtklibError(Exception):
    """Parent of every error ptklib raises on purpose. A traceback ends with the address of its section in the docs."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.add_note(f"see {self.page}")

    @property
    def page(self) -> str:
        """The address of the section about this error."""
        return error_page(type(self).__name__)


class InvalidParameterError(PtklibError, ValueError):
    """A constructor parameter cannot be used."""


class PrivacyParameterError(InvalidParameterError):
    """An epsilon, delta, sensitivity or scale outside what can be promised."""


class UnboundedSensitivityError(InvalidParameterError):
    """Public bounds are missing, so no noise could hide one row."""


class InvalidDomainError(InvalidParameterError):
    """A public domain of keys or classes is missing or unusable."""


class SchemaError(PtklibError, ValueError):
    """A table does not have the columns or the column types an estimator needs."""


class MissingColumnError(SchemaError):
    """A table lacks a column that an estimator reads."""

    def __init__(self, message: str, column: str) -> None:
        super().__init__(message)
        self.column = column


class StateError(PtklibError, ValueError):
    """A state cannot be used."""


class CorruptStateError(StateError):
    """The stored bytes are not a complete, well-formed state."""


class StateMismatchError(StateError):
    """The state is sound and belongs to another configuration."""
