"""What a notice is about reads the same in every interface, and as older programs wrote it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ptkstore.domain.jobs import JobKind, job_of_window
from ptkstore.domain.notices import Notice
from ptkstore.domain.streams.windows import WindowId
from tests.support.builders import NOW
from tests.support.subjects import SUBJECTS


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_subject_is_written_in_one_way(subject: str) -> None:
    assert Notice(NOW, "taxi", "expired", **SUBJECTS[subject]).subject == subject


def test_a_text_of_before_is_repeated() -> None:
    notice = Notice(NOW, "taxi", "expired", ptk_id="taxi.speed", text="taxi.speed, of before")
    assert notice.subject == "taxi.speed, of before"


@pytest.mark.parametrize(
    ("kind", "subject"),
    [(JobKind.TRAIN, "taxi.speed window 4"), (JobKind.DRIFT, "taxi.speed drift of window 4")],
)
def test_a_run_is_told_of_by_its_window(kind: JobKind, subject: str) -> None:
    job = replace(job_of_window(kind, WindowId("rides", 4), NOW), ptk_id="taxi.speed")
    notice = Notice.of_run(job, "expired", NOW)
    assert (notice.team, notice.subject, notice.stream) == ("taxi", subject, None)
    assert Notice.of_run(replace(job, look=2), "expired", NOW).subject == f"{subject}, look 2"
