"""Identity: permissions, and the record of who acted."""

from typing import TYPE_CHECKING

from ptklib import lazy

if TYPE_CHECKING:
    from ptkstore.application.identity import answer_once as answer_once
    from ptkstore.application.identity import authorize as authorize
    from ptkstore.application.identity import create_team as create_team
    from ptkstore.application.identity import grant_role as grant_role
    from ptkstore.application.identity import issue_token as issue_token
    from ptkstore.application.identity import known_teams as known_teams
    from ptkstore.application.identity import read_audit_log as read_audit_log
    from ptkstore.application.identity import record_action as record_action
    from ptkstore.application.identity import revoke_token as revoke_token
    from ptkstore.application.identity import rotate_token as rotate_token
    from ptkstore.application.identity import sight as sight
else:
    __getattr__ = lazy.modules(__name__)
