"""Operations of the running service: jobs, liveness, numbers, upgrades, garbage."""

from typing import TYPE_CHECKING

from ptklib import lazy

if TYPE_CHECKING:
    from ptkstore.application.operations import claim_job as claim_job
    from ptkstore.application.operations import collect_garbage as collect_garbage
    from ptkstore.application.operations import heartbeat as heartbeat
    from ptkstore.application.operations import liveness as liveness
    from ptkstore.application.operations import read_numbers as read_numbers
    from ptkstore.application.operations import read_overview as read_overview
    from ptkstore.application.operations import read_work as read_work
    from ptkstore.application.operations import service_parts as service_parts
    from ptkstore.application.operations import unfinished_work as unfinished_work
    from ptkstore.application.operations import upgrade_catalog as upgrade_catalog
else:
    __getattr__ = lazy.modules(__name__)
