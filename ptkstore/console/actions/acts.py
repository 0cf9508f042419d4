"""An action: its rule, the fields it asks for, what it says will happen, and the use case that does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter
from typing import Any

from ptkstore.application.identity.authorize import Named
from ptkstore.domain.identity import Action, Principal
from ptkstore.errors import InvalidRequest
from ptkstore.wire.base import Wire, read_form
from ptkstore.wiring import Service
from ptkstore.wiring.identity import Identity


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form. The document has no blank field that is not required.

    Parameters
    ----------
    parse : callable
        Turns the text that was sent into a value. Raises ValueError.
    options : mapping of str to str
        The values to choose from, each with what it means. Without any, all text is accepted.
    """

    name: str
    label: str
    hint: str = ""
    first: str = ""
    required: bool = False
    parse: Callable[[str], Any] = str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: who asks for what, of which thing, and whether near names may be sought for it."""

    service: Service
    identity: Identity
    who: Principal
    names: Mapping[str, str]
    document: Any
    seeks: Callable[[], bool]

    def __getitem__(self, name: str) -> str:
        """Return the value of a parameter of the path."""
        return self.names[name]


@dataclass(frozen=True, slots=True)
class Done:
    """The outcome: a sentence that says what was done, and a secret that is shown once."""

    message: str
    secret: str = ""


@dataclass(frozen=True, slots=True)
class Act:
    """An action of the console.

    Parameters
    ----------
    path : str
        The path below the prefix of actions.
    kind, about : str, callable
        The subject in the audit trail. The HTTP API writes the same one.
    says : callable
        Returns sentences that say what will happen.
    back : str
        The page that shows the change.
    asks_outside : bool
        True if the action waits for a host whose name a user chose.
    secret : bool
        True if each call makes something new, and shows a secret once.
    once : bool
        True if a call that is repeated later may do something else than the first one did.
    leads_to : callable, optional
        Returns the page that shows the change, where that depends on the fields.
    """

    path: str
    action: Action
    title: str
    button: str
    kind: str
    about: Callable[[Ask], str]
    model: type[Wire] | None
    says: Callable[[Ask], Sequence[str]]
    do: Callable[[Ask], Done]
    back: str
    fields: Sequence[Field] = field(default=())
    secret: bool = False
    asks_outside: bool = False
    once: bool = False
    leads_to: Callable[[Ask], str] | None = None

    @property
    def repeatable(self) -> bool:
        """Whether a call of unknown outcome may run again."""
        return not (self.secret or self.once)

    def names(self) -> set[str]:
        """Return the parameters of the path."""
        return {name for _, name, _, _ in Formatter().parse(self.path) if name}

    def named(self, names: Mapping[str, str]) -> Named:
        """Return the names that the table of roles is asked about."""
        return Named(**names)

    def lacks(self, sent: Mapping[str, str]) -> bool:
        """Return whether a required field was not sent at all, as when a page leads here with what it knows."""
        return any(one.required and one.name not in sent for one in self.fields)

    def document(self, sent: Mapping[str, str]) -> Any:
        """Read the fields as the document of the HTTP API. `InvalidRequest` names the field and repeats no value."""
        values: dict[str, Any] = {}
        for one in self.fields:
            text = sent.get(one.name, "").strip()
            if not text and not one.required:
                continue
            try:
                values[one.name] = one.parse(text)
            except ValueError:
                raise InvalidRequest(f"{one.label} is not as it should be") from None
        if self.model is None:
            return values
        read = read_form(self.model, values)
        if isinstance(read, frozenset):
            labels = [one.label for one in self.fields if one.name in read]
            raise InvalidRequest(f"{', '.join(labels) or 'the form'} is not as it should be")
        return read


def version(text: str) -> int:
    """Read the number of a version, such as `2` or `v2`."""
    return int(text.removeprefix("v"))


def yes(text: str) -> bool:
    """Read a choice of yes or no."""
    if text not in ("yes", "no"):
        raise ValueError(text)
    return text == "yes"
