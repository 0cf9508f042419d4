"""Near names in the errors of a client: names are asked of the store as this caller sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from ptkstore.domain.near_names import Names, names_of, suggest
from ptkstore.errors import UnknownName

if TYPE_CHECKING:
    from ptkstore.sdk.service import StoreService

_Client = TypeVar("_Client")


def names_in(service: StoreService) -> Mapping[str, Names]:
    """Return the names of a store by kind; behind HTTP those that the token may see."""
    return {
        **names_of(lambda: [one.name for one in service.streams()], service.ptks, service.versions),
        "subscription": lambda _: [one.subscription.id for one in service.subscriptions()],
        **service.unlisted_names(),
    }


def suggesting(client: type[_Client]) -> type[_Client]:
    """Have every public method of a client say in an `UnknownName` which names are near; it has a `_service`."""
    for kind in client.__mro__[:-1]:
        for name, method in list(vars(kind).items()):
            if not name.startswith("_") and callable(method) and not isinstance(method, type | staticmethod):
                setattr(kind, name, _suggesting(method))
    return client


def _suggesting(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def with_suggestion(self: Any, *args: Any, **more: Any) -> Any:
        try:
            return method(self, *args, **more)
        except UnknownName as error:
            suggest(error, names_in(self._service))
            raise

    return with_suggestion
