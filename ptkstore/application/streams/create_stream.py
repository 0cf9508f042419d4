"""Create a stream with its schema and policy."""

from __future__ import annotations

from datetime import datetime, timedelta

from ptkstore.domain.jobs import scheduler
from ptkstore.domain.streams.differences import policy_differences
from ptkstore.domain.streams.policies import Policy, present_origin
from ptkstore.domain.streams.policy_texts import policy_in, policy_text
from ptkstore.domain.streams.streams import Stream
from ptkstore.errors import CatalogBehind, NameTaken, UnknownName
from ptkstore.ports.catalog import Begin, Read
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.runtime import Clock


def origin_for(name: str, window: timedelta, *, begin: Read, clock: Clock) -> datetime:
    """Return the origin of a stream created without one: that which it has already, or the present window's start."""
    with begin() as uow:
        try:
            return uow.streams.get(name).policy.origin
        except UnknownName:
            return present_origin(clock.now(), window)


def create_stream(stream: Stream, *, begin: Begin, keys: KeyStore, clock: Clock) -> None:
    """Create `stream`; repeating it with equal content changes nothing.

    Its policy becomes the first line of its journal, and the key store remembers it: whoever changes it in the catalog
    later opens nothing.

    Raises
    ------
    NameTaken
        When the name exists with another schema or policy.
    """
    keys.create_stream(stream.name)
    with begin() as uow:
        if uow.streams.add(stream):
            text = _text_of(stream.policy, keys.policy(stream.name))
            uow.ledger.add_policy(stream.name, text)
            if stream.policy.scheduler.lets_wait:
                uow.jobs.add(scheduler(stream.name, clock.now()))
            # before the commit: no stream is ever in the catalog without it
            _keep(stream, text, keys)
        uow.commit()


def _keep(stream: Stream, text: str, keys: KeyStore) -> None:
    try:
        keys.keep_policy(stream.name, text)
    except CatalogBehind:
        kept_text = keys.policy(stream.name)
        differences = () if kept_text is None else policy_differences(policy_in(kept_text), policy_in(text))
        raise NameTaken(
            f"stream {stream.name!r} was used under another policy before the catalog was restored: "
            f"{'; '.join(differences)}. Create it with that policy again, or choose another name"
        ) from None


def _text_of(policy: Policy, kept_text: str | None) -> str:
    """The text of a policy: the one from before a catalog was restored, if that says the same."""
    text = policy_text(policy)
    if kept_text is None or policy_in(kept_text) != policy_in(text):
        return text
    return kept_text
