"""Where a training may read several windows, every page on exposure says for how long rows can be read."""

from __future__ import annotations

import json

from ptkstore.application.streams.exposure import sentences_on
from ptkstore.domain.scheduling.choices import Scheduler
from ptkstore.sdk.documents.exposures import exposure_document, exposure_of
from ptkstore.wire.streams import ExposureOut
from tests.support.world import DAY, World

SAYS = (
    "One training may read up to 4 windows, so exposure is retention x window: rows can be read for 5d after "
    "their window has ended."
)


def test_exposure_is_retention_times_window_where_a_training_reads_several(world: World) -> None:
    world.stream("several", scheduler=Scheduler.ADAPTIVE, retention_windows=5)
    world.register("one", stream="several", windows=(1, 2))
    world.register("other", stream="several", windows=(1, 4))
    exposure = world.service.exposure("several")
    assert (exposure.most_windows, exposure.readable) == (4, 5 * DAY)
    assert SAYS in sentences_on(exposure)
    document = exposure_document(exposure)
    assert exposure_of(document) == exposure
    assert ExposureOut(**document).most_windows == 4
    report = json.loads(world.service.export_ledger("several").content)["report"]
    assert SAYS in report["exposure"]["means"]


def test_nothing_is_said_of_it_where_a_training_reads_one(world: World) -> None:
    world.register()
    exposure = world.service.exposure("taxi")
    assert (exposure.most_windows, exposure.readable) == (1, 2 * DAY)
    assert not any("retention x window" in one for one in sentences_on(exposure))
    of_before = exposure_document(exposure)
    del of_before["most_windows"], of_before["readable_seconds"]
    assert exposure_of(of_before).most_windows == 1
