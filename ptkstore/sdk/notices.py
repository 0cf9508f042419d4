"""The client's methods about notices and trainings, and their documents."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ptklib.doc_pages import on_site
from ptkstore.application.training.read_trainings import Training
from ptkstore.domain.fields import fields_of
from ptkstore.domain.jobs import JobState, Outcome
from ptkstore.domain.names import checked_name, split_ptk_id
from ptkstore.domain.notices import Notice, code_page
from ptkstore.domain.times import utc
from ptkstore.sdk.documents.times import to_the_second

if TYPE_CHECKING:
    from ptkstore.sdk.service import StoreService

Document = dict[str, Any]


class NoticeMethods:
    """Methods of `Store` for owners; the same here and over HTTP."""

    _service: StoreService

    def notices(self, team: str | None = None, since: datetime | str | None = None) -> list[Document]:
        """List the notices to owners, oldest first: `at`, `team`, `subject` and a fixed `code`.

        Parameters
        ----------
        team : str
            By default every team's here, and the token's own over HTTP, where another one's is for administrators.
        """
        if team is not None:
            checked_name("team", team)
        notices = self._service.notices(team, since=None if since is None else utc(since))
        return [notice_document(one) for one in notices]

    def trainings(self, ptk_id: str) -> list[Document]:
        """List what became of a PTK's trainings, by window: `outcome`, `version`, or the `code` that says why not.

        Raises
        ------
        UnknownName
            No such PTK.
        NotAllowed
            Over HTTP, for a PTK of another team.
        """
        split_ptk_id(ptk_id)
        return [training_document(one) for one in self._service.trainings(ptk_id)]


def notice_document(notice: Notice) -> Document:
    """Write a notice, to the second."""
    return {
        "at": to_the_second(notice.at),
        "team": notice.team,
        "subject": notice.subject,
        "code": notice.code,
    }


def wire_notice(notice: Notice) -> Document:
    """Write a notice over HTTP, which names stream, PTK and the page of the code in fields of their own, too."""
    about = {"stream": notice.stream, "ptk": notice.ptk_id, "page": on_site(code_page(notice.code))}
    return {**notice_document(notice), **about}


def notice_of(document: Mapping[str, Any]) -> Notice:
    """Read the notice that `wire_notice` wrote; an earlier service did not name PTK and stream."""
    at, stream, ptk_id = datetime.fromisoformat(document["at"]), document.get("stream"), document.get("ptk")
    return Notice(at, document["team"], document["code"], stream, ptk_id, text=document["subject"])


def training_document(training: Training) -> Document:
    """Write one training in a list; its end to the second."""
    return {
        **fields_of(training),
        "state": training.state.value,
        "outcome": None if training.outcome is None else training.outcome.value,
        "ended_at": None if training.ended_at is None else to_the_second(training.ended_at),
    }


def wire_training(training: Training) -> Document:
    """Write one training over HTTP, with the page of its code."""
    page = None if training.code is None else on_site(code_page(training.code))
    return {**training_document(training), "page": page}


def training_of(document: Mapping[str, Any]) -> Training:
    """Read the training that `wire_training` wrote; an earlier service knows those on one window alone."""
    outcome, ended_at = document["outcome"], document["ended_at"]
    return Training(
        **{name: document[name] for name in ("ptk_id", "window", "code", "version")},
        oldest_window=document.get("oldest_window", document["window"]),
        look=document.get("look", 1),
        state=JobState(document["state"]),
        outcome=None if outcome is None else Outcome(outcome),
        ended_at=None if ended_at is None else datetime.fromisoformat(ended_at),
    )
