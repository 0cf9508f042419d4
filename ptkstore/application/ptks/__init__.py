"""Use cases of PTK developers: PTKs come, change and go."""

from typing import TYPE_CHECKING

from ptklib import lazy

if TYPE_CHECKING:
    from ptkstore.application.ptks import exchange_ptks as exchange_ptks
    from ptkstore.application.ptks import register_ptk as register_ptk
    from ptkstore.application.ptks import resume_ptk as resume_ptk
    from ptkstore.application.ptks import room_for_more as room_for_more
    from ptkstore.application.ptks import team_code as team_code
else:
    __getattr__ = lazy.modules(__name__)
